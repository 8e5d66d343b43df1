"""What a page is told of a run while it lasts: a stream of events of its own.

gradio compares every message with the one before and draws what follows anew, which takes longer than many a pass.
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
_MOST_KEPT: Final = 16
"""Runs whose events can be read: a short one may be over before a busy browser asks for them."""


class Live:
    """The events of a run, until it is closed. A browser that lost the connection reads them from the start again."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(16)
        """A secret of whoever may read them."""
        self._events, self._over = list[bytes](), False
        _streams[self.name] = self
        if len(_streams) > _MOST_KEPT:
            del _streams[next(iter(_streams))]

    def tell(self, event: str, data: Any) -> None:
        """Tell of one more event; `data` may be records."""
        self._events.append(b"event: %b\ndata: %b\n\n" % (event.encode(), to_json(data)))

    def close(self) -> None:
        """Tell that it is over."""
        self.tell("over", None)
        self._over = True

    async def stream(self) -> AsyncIterator[bytes]:
        """All events, together those that happened meanwhile."""
        told = 0
        while not (self._over and told == len(self._events)):
            if new := self._events[told:]:
                told += len(new)
                yield b"".join(new)
            await asyncio.sleep(_LOOK_SECONDS)


_streams: dict[str, Live] = {}


async def answer(name: str) -> StreamingResponse:
    """The answer to GET `ADDRESS`."""
    live = _streams.get(name)
    if live is None:
        raise HTTPException(404, "live: this run is over; its traces are on the page.")
    return StreamingResponse(live.stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
