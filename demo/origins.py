"""Other websites' pages may not ask on behalf of whoever looks at them.

A browser sends what another site's page asks it to send, and only keeps the answer from that page: a run would be
queued all the same. So requests that do something are answered only where the browser says that the app's own page
sent them, or no page at all, or one of a site that the owner named. Programs send neither header and are answered.
"""

import os
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from demo import log

ALLOWED: Final = "DRAFTSCOPE_ORIGINS"
"""Names sites, such as https://lab.example, with commas between them, whose pages may use the app."""
_READING: Final = ("GET", "HEAD", "OPTIONS")
_REFUSED: Final = (
    "origin: another website's page sent this, and it is not answered; open the app itself, or let its owner name "
    f"the site in {ALLOWED}."
)


class OwnPages:
    """Middleware that refuses what other sites' pages send."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._allowed = {site.strip().rstrip("/") for site in os.environ.get(ALLOWED, "").split(",")} - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] == "http" and scope["method"] not in _READING and not self._own(Headers(scope=scope)):
            log.event("refused", kind="origin", why=Headers(scope=scope).get("origin"))
            await JSONResponse({"error": _REFUSED, "detail": _REFUSED}, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _own(self, headers: Headers) -> bool:
        """Whether the app's own page, a site that was named, or a program asks."""
        origin = headers.get("origin")
        if origin in self._allowed:
            return True
        site = headers.get("sec-fetch-site")  # no page can set it; browsers send it over https and on localhost
        if site is not None:
            return site in ("same-origin", "none")
        if origin is None:
            return True
        hosts = (headers.get("host"), headers.get("x-forwarded-host"))  # no page can set these either
        try:
            return origin != "null" and urlsplit(origin).netloc in hosts
        except ValueError:  # it is no address
            return False
