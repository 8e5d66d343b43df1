"""Middleware that limits the server to what the app offers, and answers everything else with a one-sentence error.

Gradio has routes for apps of every kind; some write files or fetch remote content, and those are closed. Pages of other
websites cannot send requests on behalf of their visitors. Bodies have a maximum size, and uploads need free disk quota.
"""

import ipaddress
import os
import re
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftscope.demo.server import log
from draftscope.demo.server.limits import BODY_BYTES, FILE_LIFETIME_SECONDS, ON_SPACE, ServerLimits
from draftscope.traces.files import ROOT

ORIGINS: Final = "DRAFTSCOPE_ORIGINS"
"""Names sites, such as https://lab.example, with commas between them, whose pages may use the app."""
PROXY: Final = "DRAFTSCOPE_PROXY"
_API: Final = "/gradio_api/"
_CLOSED: Final = re.compile(
    r"vibe-|process_recording|deep_link|component_server|custom_component|stream/|proxy="
    r"|run-history|runs\b|dev/|file[=/]\w+:",
    re.IGNORECASE,
)
"""Editing the app, recording a screen, copies of a page's state, components' own functions, other servers' files."""
_DIRECT: Final = re.compile("(run|api)/")
"""Calls that are answered at once; gradio calls it a failure of the server where what was sent is wrong."""
_READING: Final = ("GET", "HEAD", "OPTIONS")
_MB: Final = 10**6
_NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that a provider assigns; its customer can change all others at will."""

_NOTHING: Final = "Not found. The API endpoints are listed in docs/api.md."
_ELSEWHERE: Final = (
    "origin: another website's page sent this, and it is not answered; open the app itself, or let its owner name "
    f"the site in {ORIGINS}."
)
_LARGE: Final = f"body: has more than {BODY_BYTES // 2**20} MiB; send less, and a file through /gradio_api/upload."
_UNREADABLE: Final = "request: it cannot be read ({}); send it as docs/api.md says."
_FAILED: Final = "Internal error ({}); details are in the server log."
_NO_ROOM: Final = (
    "file: {}, and nothing was uploaded; they go after {} hours. Try again later, or run Draftscope yourself."
)


class RequestFilter:
    """Refuses closed addresses, other sites' pages and large bodies; what fails is a sentence and a line in the log."""

    def __init__(self, app: ASGIApp, max_bytes: int = BODY_BYTES) -> None:
        """Bodies, those of uploads left out, may have `most` bytes."""
        self._app, self._max_bytes = app, max_bytes
        self._sites = {site.strip().rstrip("/") for site in os.environ.get(ORIGINS, "").split(",")} - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        api_path, begun = scope["path"].partition(_API)[2], False
        upload = api_path.rstrip("/") == "upload"

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            if message.get("status") == 500 and _DIRECT.match(api_path):
                message["status"] = 400
            await send(message)

        try:
            self._check(scope, api_path, upload)
            await self._app(scope, receive if upload else _limited(receive, self._max_bytes), send_on)
        except HTTPException as refused:
            await _answer(refused.detail, refused.status_code, scope, receive, send)
        except Exception as error:
            log.log_failure("request", error)
            raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename).resolve()
            internal = raised_in.is_relative_to(ROOT / "demo")
            if not begun:
                sentence = (_FAILED if internal else _UNREADABLE).format(type(error).__name__)
                await _answer(sentence, 500 if internal else 400, scope, receive, send)

    def _check(self, scope: Scope, api_path: str, upload: bool) -> None:
        headers = Headers(scope=scope)
        promised = headers.get("content-length", "")
        if _CLOSED.match(api_path):
            raise HTTPException(404, _NOTHING)
        if not upload and promised.isdecimal() and int(promised) > self._max_bytes:
            raise HTTPException(413, _LARGE)
        if scope["method"] not in _READING and not self._may_ask(headers):
            log.event("refused", kind="origin", why=headers.get("origin"))
            raise HTTPException(403, _ELSEWHERE)

    def _may_ask(self, headers: Headers) -> bool:
        """Whether the app's own page, a site that was named, or a program asks; programs send neither header."""
        origin = headers.get("origin")
        if origin in self._sites:
            return True
        site = headers.get("sec-fetch-site")  # no page can set it; browsers send it over https and on localhost
        if site is not None:
            return site in ("same-origin", "none")
        if origin is None:
            return True
        hosts = (headers.get("host"), headers.get("x-forwarded-host"))  # no page can set these either
        try:
            return origin != "null" and urlsplit(origin).netloc in hosts
        except ValueError:  # not an IP address
            return False


def _limited(receive: Receive, max_bytes: int) -> Receive:
    """Return a receive function that stops once the body exceeds its maximum size."""
    came = 0

    async def limited() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > max_bytes:
            raise HTTPException(413, _LARGE)
        return message

    return limited


async def _answer(sentence: str, status: int, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": sentence, "detail": sentence}, status)(scope, receive, send)


@dataclass(eq=False, slots=True)
class _Upload:
    address: str
    size: int
    """Bytes that its sender promised, or that came where those are more."""
    begun: float
    """On the clock of files' times."""
    arriving: bool = True


class _NoRoomError(Exception):
    """An upload exceeds the disk quota."""


class UploadQuota:
    """Rejects uploads that exceed the disk quota of all users or of one network address.

    So no client can fill the disk for others, and no user loses files. Uploads in progress count as stored files. Used
    by one event loop only.
    """

    def __init__(self, app: ASGIApp, pages: Path, uploads: Path, limits: ServerLimits) -> None:
        """Args: app: The application.

        pages: Folder of files that pages wrote for users. uploads: Folder of uploads, written only by Gradio. limits:
        Limits of the server.
        """
        self._app, self._pages, self._uploads, self._limits = app, pages, uploads, limits
        self._recent: list[_Upload] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if not (scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith("/upload")):
            await self._app(scope, receive, send)
            return
        headers, client = Headers(scope=scope), (scope.get("client") or ("",))[0]
        promised = headers.get("content-length", "")
        upload = _Upload(
            address_of(client, headers), int(promised) if promised.isdecimal() else 0, time.time() - 1
        )  # file times can lag slightly
        oldest = upload.begun - 1.5 * FILE_LIFETIME_SECONDS  # gradio looks every half of it
        self._recent = [one for one in self._recent if one.begun > oldest] + [upload]
        stored, came = await to_thread.run_sync(self._stored_bytes), 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > upload.size:  # nothing was promised: the body comes in chunks
                upload.size = came
                self._check(upload, stored)
            return message

        try:
            self._check(upload, stored)
            await self._app(scope, counted, send)
            upload.arriving = False
        except _NoRoomError as error:
            log.event("refused", kind="upload", why=str(error))
            await PlainTextResponse(str(error), 507)(scope, receive, send)
        finally:
            if upload.arriving:
                self._recent.remove(upload)
            begun = min((one.begun for one in self._recent if one.arriving), default=time.time() + 1)
            await to_thread.run_sync(self._remove_partial, begun)

    def _check(self, upload: _Upload, stored: int) -> None:
        of_all, of_one = self._limits.kept_megabytes, self._limits.kept_megabytes_per_address
        arriving = sum(one.size for one in self._recent if one.arriving)
        if of_all is not None and stored + arriving > of_all * _MB:
            raise _no_room(f"visitors' files fill the {of_all} MB that this server keeps for them")
        from_address = sum(one.size for one in self._recent if one.address == upload.address)
        if of_one is not None and from_address > of_one * _MB:
            raise _no_room(
                f"files uploaded from your network address would be more than the {of_one} MB that each may have"
            )

    def _stored_bytes(self) -> int:
        """Bytes stored for all users.

        Gradio moves a complete upload into a folder of its own; files that vanish count as 0.
        """
        total = 0
        for folder in (self._pages, *(path for path in _inside(self._uploads) if path.is_dir())):
            for path in folder.rglob("*"):
                with suppress(OSError):
                    total += path.lstat().st_size
        return total

    def _remove_partial(self, begun: float) -> None:
        """Remove the rests of abandoned uploads.

        Files outside the folders that are older than any upload in progress.
        """
        for path in _inside(self._uploads):
            with suppress(OSError):
                if path.is_file() and path.stat().st_mtime < begun:
                    path.unlink()


def _no_room(why: str) -> _NoRoomError:
    return _NoRoomError(_NO_ROOM.format(why, FILE_LIFETIME_SECONDS // 3600))


def _inside(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from folder.iterdir()


def address_of(client: str, headers: Mapping[str, str]) -> str:
    """Return the network address that a request counts for: for IPv6, the network of the customer.

    The client named by a proxy is used if there is one: on a Space, or if the environment declares it.
    """
    proxies = os.environ.get(ON_SPACE) or os.environ.get(PROXY)
    forwarded = _last_public(headers.get("x-forwarded-for", "")) if proxies else None
    try:
        address = forwarded or ipaddress.ip_address(client)
    except ValueError:
        return client
    mapped = getattr(address, "ipv4_mapped", None)
    bits = _NETWORK_BITS if address.version == 6 and not mapped else 32
    return str(ipaddress.ip_network((mapped or address, bits), strict=False)).removesuffix("/32")


def _last_public(forwarded: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The last public address of the header: those before it are the client's own words."""
    for name in reversed(forwarded.split(",")):
        with suppress(ValueError):
            address = ipaddress.ip_address(name.strip())
            if not address.is_private:
                return address
    return None
