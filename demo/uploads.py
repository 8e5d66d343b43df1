"""What visitors' files may take on the disk: uploads are refused while there is no room.

Gradio bounds one file of an upload and forgets it after a while, and nothing bounds how many come. What is kept for
visitors, and what is on its way, is counted before more is taken, for all of them and for each network address: one
visitor cannot fill the room of the others. Nobody loses what they have.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo import log
from demo.limits import KEPT_SECONDS, Limits
from demo.line import address_of

_MB: Final = 10**6
_OF_ALL: Final = "visitors' files fill the {megabytes} MB that this server keeps for them"
_OF_ONE: Final = "files uploaded from your network address would be more than the {megabytes} MB that each may have"


@dataclass(eq=False, slots=True)
class _Coming:
    """An upload on its way."""

    address: str
    size: int
    """Bytes that its sender promised, or that came where those are more."""
    begun: float
    """On the clock of the files' times, which may be a little behind."""


class _NoRoomError(Exception):
    """More came than was promised, and there is no room for it."""


class Room:
    """Middleware that refuses uploads for which there is no room. It is used by one event loop alone."""

    def __init__(self, app: ASGIApp, pages: Path, uploads: Path, limits: Limits) -> None:
        """Count two folders: what the pages wrote for visitors, and where gradio, and nobody else, puts uploads."""
        self._app, self._pages, self._uploads, self._limits = app, pages, uploads, limits
        self._coming: list[_Coming] = []
        self._paths: dict[str, set[Path]] = {}
        """What came from each address, as long as it is there."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if not (scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith("/upload")):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("",))[0]
        promised = headers.get("content-length", "")
        coming = _Coming(address_of(client, headers), int(promised) if promised.isdecimal() else 0, time.time() - 1)
        self._coming.append(coming)
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._take(coming, scope, receive, sent)
        except _NoRoomError as error:
            log.event("refused", kind="upload", why=str(error))
            if not begun:
                await PlainTextResponse(str(error), 507)(scope, receive, send)
        finally:
            self._coming.remove(coming)
            await to_thread.run_sync(self._sweep, min((one.begun for one in self._coming), default=time.time() + 1))

    async def _take(self, coming: _Coming, scope: Scope, receive: Receive, send: Send) -> None:
        """Let an upload in, as far as there is room for it, and note what came of it."""
        everybodys = set().union(*self._paths.values())
        gone = await to_thread.run_sync(lambda: {path for path in everybodys if not path.exists()})
        self._paths = {address: left for address, paths in self._paths.items() if (left := paths - gone)}
        own_paths = tuple(self._paths.get(coming.address, ()))
        held, own = await to_thread.run_sync(lambda: (self._held(), _bytes(own_paths)))
        self._check(coming, held, own)
        came, said = 0, bytearray()

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > coming.size:  # nothing was promised: the body comes in chunks
                coming.size = came
                self._check(coming, held, own)
            return message

        async def heard(message: Message) -> None:
            said.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, counted, heard)
        self._paths.setdefault(coming.address, set()).update(_paths(said))

    def _check(self, coming: _Coming, held: int, own: int) -> None:
        """Refuse an upload that is too much beside what is held, in bytes: of everybody, and of its address."""
        of_all, of_one = self._limits.kept_megabytes, self._limits.kept_megabytes_per_address
        also = sum(one.size for one in self._coming)
        if of_all is not None and held + also > of_all * _MB:
            raise _NoRoomError(_sentence(_OF_ALL, of_all))
        also = sum(one.size for one in self._coming if one.address == coming.address)
        if of_one is not None and own + also > of_one * _MB:
            raise _NoRoomError(_sentence(_OF_ONE, of_one))

    def _held(self) -> int:
        """Bytes that everybody holds; what is on its way is no folder yet."""
        return _bytes(_files([self._pages, *(path for path in _inside(self._uploads) if path.is_dir())]))

    def _sweep(self, begun: float) -> None:
        """Remove what uploads left that were given up: files beside the folders, and older than any that come."""
        for path in _inside(self._uploads):
            with suppress(OSError):
                if path.is_file() and path.stat().st_mtime < begun:
                    path.unlink()


def _sentence(why: str, megabytes: int) -> str:
    return (
        f"file: {why.format(megabytes=megabytes)}, and nothing was uploaded; they go after {KEPT_SECONDS // 3600} "
        "hours. Try again later, or run Draftscope yourself."
    )


def _paths(said: bytes | bytearray) -> set[Path]:
    """Where the files lie, by gradio's answer; none where it refused them."""
    try:
        told = json.loads(said)
    except ValueError:
        return set()
    return {Path(path) for path in told if isinstance(path, str)} if isinstance(told, list) else set()


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for root, _, names in os.walk(folder):
            yield from (Path(root, name) for name in names)


def _bytes(paths: Iterable[Path]) -> int:
    """Bytes of all files; what goes meanwhile counts nothing."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.lstat().st_size
    return total
