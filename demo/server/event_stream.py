"""Event stream of one run, for its page.

Gradio compares every message with the previous one and draws everything after it again, which takes longer than many a
forward pass.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import HTTPException
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

ADDRESS: Final = "/live/{name}"
_LOOK_SECONDS: Final = 0.005
"""It is looked this often whether anything happened."""
_MAX_KEPT: Final = 16
"""Runs whose events can be read: a short one may be over before a busy browser asks for them."""


class EventStream:
    """The events of a run, until it is closed. A browser that lost the connection reads them from the start again."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(16)
        """Secret of the clients that may read the stream."""
        self._events, self._over = list[bytes](), False
        _streams[self.name] = self
        if len(_streams) > _MAX_KEPT:
            del _streams[next(iter(_streams))]

    def send(self, event: str, data: Any) -> None:
        """Send one event; `data` may be records."""
        self._events.append(b"event: %b\ndata: %b\n\n" % (event.encode(), to_json(data)))

    def close(self) -> None:
        """Send that the run has finished."""
        self.send("over", None)
        self._over = True

    async def stream(self) -> AsyncIterator[bytes]:
        """All events, together those that happened meanwhile."""
        num_sent = 0
        while not (self._over and num_sent == len(self._events)):
            if new := self._events[num_sent:]:
                num_sent += len(new)
                yield b"".join(new)
            await asyncio.sleep(_LOOK_SECONDS)


_streams: dict[str, EventStream] = {}


async def answer(name: str) -> StreamingResponse:
    """The answer to GET `ADDRESS`."""
    live = _streams.get(name)
    if live is None:
        raise HTTPException(404, "stream: the run has finished; its traces are on the page.")
    return StreamingResponse(live.stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
