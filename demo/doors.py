"""What the app has no use for is not answered: gradio brings ways in for apps of every kind.

Some of them write files or fetch what is elsewhere. They are closed, bodies beyond measure are refused before they are
read, and whatever else goes wrong while a request is read is a sentence to its sender and a line in the log.
"""

import re
import traceback
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo import log
from demo.limits import BODY_BYTES

_API: Final = "/gradio_api/"
_CLOSED: Final = re.compile(
    r"vibe-|process_recording|deep_link|component_server|custom_component|stream/|proxy="
    r"|run-history|runs\b|dev/|file[=/]\w+:",
    re.IGNORECASE,
)
"""Editing the app, recording a screen, copies of a page's state, components' own functions, other servers' files."""
_DIRECT: Final = re.compile("(run|api)/")
"""Calls that are answered at once; gradio calls it a failure of the server where what was sent is wrong."""
_UPLOAD: Final = "upload"
_NOTHING: Final = "address: there is nothing; docs/api.md says where programs ask."
_LARGE: Final = f"body: has more than {BODY_BYTES // 2**20} MiB; send less, and a file through /gradio_api/upload."
_UNREADABLE: Final = "request: it cannot be read ({}); send it as docs/api.md says."


_FAILED: Final = "request: the app failed at it ({}); its log says where."
_ROOT: Final = Path(__file__).parents[1]


class Doors:
    """Middleware that lets in what the app answers."""

    def __init__(self, app: ASGIApp, most: int = BODY_BYTES) -> None:
        """Bodies, those of uploads left out, may have `most` bytes."""
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        place = scope["path"].partition(_API)[2]
        if _CLOSED.match(place):
            await _told(_NOTHING, 404, scope, receive, send)
            return
        promised = Headers(scope=scope).get("content-length", "")
        if place.rstrip("/") != _UPLOAD:
            receive = self._measured(receive)
            if promised.isdecimal() and int(promised) > self._most:
                await _told(_LARGE, 413, scope, receive, send)
                return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            if message.get("status") == 500 and _DIRECT.match(place):
                message["status"] = 400
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            log.failed("request", error)
            own = Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(_ROOT / "demo")
            if not begun:
                said = (_FAILED if own else _UNREADABLE).format(type(error).__name__)
                await _told(said, 500 if own else 400, scope, receive, send)

    def _measured(self, receive: Receive) -> Receive:
        """The same, until too much has come."""
        came = 0

        async def measured() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise HTTPException(413, _LARGE)
            return message

        return measured


async def _told(sentence: str, status: int, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": sentence, "detail": sentence}, status)(scope, receive, send)
