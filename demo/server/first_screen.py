"""Middleware that sends the beginning of the page at once: a browser draws it while the rest is being written.

The rest is the same for all requests to one address, so that it is written and compressed once.
"""

import zlib
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_GZIP: Final = 31
"""Window bits with which zlib writes gzip."""
_HEAD: Final = b"<head>"
_MAX_DOCUMENTS: Final = 8
"""Documents that are kept, of up to 3 MB each: one for every address of the server, compressed and plain."""
_ADDRESS: Final = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")
"""Headers from which Gradio takes the address that it writes into the document."""


class FirstScreen:
    """Answers GET / with a fixed beginning, followed by the app's own document without its first tags."""

    def __init__(self, app: ASGIApp, beginning: str) -> None:
        """Args: app: The application. beginning: HTML without the end of its body; nothing is added if it is empty."""
        self._app, self._beginning = app, beginning.encode()
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._zipped = self._compressor.compress(self._beginning) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        self._documents: dict[tuple[object, ...], bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if not (self._beginning and scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        compressor = self._compressor.copy() if "gzip" in headers.get("accept-encoding", "") else None
        sent = MutableHeaders({"content-type": "text/html; charset=utf-8", "vary": "Accept-Encoding"})
        if compressor:
            sent["content-encoding"] = "gzip"
        await send({"type": "http.response.start", "status": 200, "headers": sent.raw})
        first = self._zipped if compressor else self._beginning
        await send({"type": "http.response.body", "body": first, "more_body": True})
        key = (compressor is None, scope.get("scheme"), scope.get("root_path"), *map(headers.get, _ADDRESS))
        documents = {} if scope.get("query_string") else self._documents  # a query may ask for another document
        document = documents.pop(key, b"")
        if not document:
            document, is_sound = await self._written(scope, receive, compressor)
            documents = documents if is_sound else {}
        documents[key] = document  # the last used is the last to go
        while len(documents) > _MAX_DOCUMENTS:
            del documents[next(iter(documents))]
        await send({"type": "http.response.body", "body": document})

    async def _written(self, scope: Scope, receive: Receive, compressor: Any) -> tuple[bytes, bool]:
        """The app's own document without its first tags, compressed if there is a compressor, and whether it is one."""
        document, statuses = bytearray(), list[int]()

        async def collect(message: Message) -> None:
            document.extend(message.get("body", b""))
            statuses.extend([message["status"]] if "status" in message else [])

        plain = MutableHeaders(raw=[pair for pair in scope["headers"] if pair[0] != b"accept-encoding"])
        await self._app({**scope, "headers": plain.raw}, receive, collect)
        body = bytes(document).partition(_HEAD)[2] or bytes(document)
        body = compressor.compress(body) + compressor.flush() if compressor else body
        return body, statuses == [200]
