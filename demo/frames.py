"""A page at rest asks for no frames.

Gradio's loading indicator counts its seconds in animation frames, and goes on asking for them when it was taken away:
60 times a second, for as long as the page is open. A script that stands before gradio's own lets such a clock tick
twice a second.
"""

from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SCRIPT: Final = rb"""<script>
{
  const ask = window.requestAnimationFrame.bind(window);
  const clock = /^\(\)=>\{\w+\(\w+,\(performance\.now\(\)-/; // as gradio's build spells it
  window.requestAnimationFrame = (draw) =>
    clock.test(Function.prototype.toString.call(draw).slice(0, 60)) ? setTimeout(ask, 500, draw) : ask(draw);
}
</script>"""
_HEAD: Final = b"<head>"


class Still:
    """Puts the script into the page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        begun: list[Message] = []

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)  # its length is known with the body
                return
            body: Any = message.get("body", b"")
            if begun:
                body = body.replace(_HEAD, _HEAD + _SCRIPT, 1)
                headers = MutableHeaders(raw=begun[0]["headers"])
                if "content-length" in headers and not message.get("more_body"):
                    headers["content-length"] = str(len(body))
                await send(begun.pop())
            await send({**message, "body": body})

        await self._app(scope, receive, pass_on)
