"""Middleware that sends the beginning of the page at once: a browser draws it while the rest is being written."""

import zlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_GZIP: Final = 31
"""Window bits with which zlib writes gzip."""
_HEAD: Final = b"<head>"


class FirstScreen:
    """Answers GET / with a fixed beginning, followed by the app's own document without its first tags."""

    def __init__(self, app: ASGIApp, beginning: str) -> None:
        """Args: app: The application. beginning: HTML without the end of its body; nothing is added if it is empty."""
        self._app, self._beginning = app, beginning.encode()
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._zipped = self._compressor.compress(self._beginning) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if not (self._beginning and scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/"):
            await self._app(scope, receive, send)
            return
        compressor = self._compressor.copy() if "gzip" in Headers(scope=scope).get("accept-encoding", "") else None
        sent = MutableHeaders({"content-type": "text/html; charset=utf-8", "vary": "Accept-Encoding"})
        if compressor:
            sent["content-encoding"] = "gzip"
        await send({"type": "http.response.start", "status": 200, "headers": sent.raw})
        first = self._zipped if compressor else self._beginning
        await send({"type": "http.response.body", "body": first, "more_body": True})
        document = bytearray()

        async def collect(message: Message) -> None:
            document.extend(message.get("body", b""))

        plain = MutableHeaders(raw=[pair for pair in scope["headers"] if pair[0] != b"accept-encoding"])
        await self._app({**scope, "headers": plain.raw}, receive, collect)
        body = bytes(document).partition(_HEAD)[2] or bytes(document)
        body = compressor.compress(body) + compressor.flush() if compressor else body
        await send({"type": "http.response.body", "body": body})
