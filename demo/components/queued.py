"""Page handlers that wait for the model."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial

import gradio as gr

from draftscope.demo.components.context import Site, Update
from draftscope.demo.components.widgets import notice
from draftscope.demo.server.run_queue import QueueEntry, error_text, wait_turn

Work = Callable[[Update, gr.Request], Iterator[Update]]


def queued(
    site: Site, box: gr.HTML, kind: str, work: Work, *, stops: bool = True, shows: Update | None = None
) -> Callable[[Update, gr.Request], AsyncGenerator[Update, None]]:
    """Wrap a handler so that it waits for the model, and shows queue position and errors in `box`.

    Args:
        site: Shared state.
        box: Component for notices.
        kind: Name of the work in the log.
        work: The handler.
        stops: Whether a button stops it.
        shows: Updates that are added to every update.
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
                now: QueueEntry | Update | None = None
                async for now in turn:
                    message = (
                        {box: notice("info", str(now), "Waiting for the model")} if isinstance(now, QueueEntry) else now
                    )
                    yield {**shown, **message}
                if now is None or isinstance(now, QueueEntry):
                    yield {box: notice("info", "The run was cancelled before it started.", "Cancelled")}
        except gr.Error:  # which is a ValueError
            raise
        except Exception as error:
            yield {box: notice("error", error_text(kind, error))}

    return handle
