"""Page handlers that wait for the model."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial

import gradio as gr

from demo.components.context import Site, Update
from demo.components.widgets import notice
from demo.server.run_queue import Place, error_text, wait_turn

Work = Callable[[Update, gr.Request], Iterator[Update]]


def queued(
    site: Site, box: gr.HTML, kind: str, work: Work, *, stops: bool = True, shows: Update | None = None
) -> Callable[[Update, gr.Request], AsyncGenerator[Update, None]]:
    """A page's handler that waits for the model first, and says in `box` what place it has; errors go there, too.

    `kind` is what the log calls it; `stops` whether a button stops it; every update says what `shows` says, too.
    """

    async def handle(values: Update, request: gr.Request) -> AsyncGenerator[Update, None]:
        visitor = site.visitor(request)
        stopped, shown = visitor.stopped if stops else lambda: False, shows or {}
        if stops:
            site.visitors.prune()
            visitor.start()
        if shows:
            yield shows
        try:
            async with aclosing(wait_turn(request, kind, stopped, partial(work, values, request))) as turn:
                now: Place | Update | None = None
                async for now in turn:
                    told = {box: notice("info", str(now), "You are in line.")} if isinstance(now, Place) else now
                    yield {**shown, **told}
                if now is None or isinstance(now, Place):
                    yield {box: notice("info", "It had not begun.", "Stopped.")}
        except gr.Error:  # which is a ValueError
            raise
        except Exception as error:
            yield {box: notice("error", error_text(kind, error))}

    return handle
