"""Two buttons: one starts what needs the model, the other stops it and is there while that is under way."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import gradio as gr

from demo.panels.export import FileOut
from demo.panels.widgets import notice
from demo.runs.series import Progress
from demo.server.limits import COMPUTE
from demo.server.queue import Work, queued
from demo.site import AT_ONCE, PRESS, QUIET, Site, Update

WAITING: Final = "It begins as soon as the model is free; where another run is under way, this one waits."


def progress(now: Progress, kept: str) -> Mapping[str, Any]:
    """The notice of how far several runs have come; `kept` is said of what there is where they ended early."""
    if now.ended:
        return notice("info", kept, now.ended)
    return {} if now.done == now.total else notice("info", str(now), share=now.share)


class StartStop:
    """The buttons, and what says how it goes."""

    def __init__(self, site: Site, start: str, stop: str, label: str, **options: Any) -> None:
        """Lay them out; `start` and `stop` are their ids on the page, `label` stands on the first."""
        self.site = site
        options = {"scale": 0, "min_width": 150, "variant": "primary", **options}
        self.start = gr.Button(label, elem_id=start, **options)
        self.stop = gr.Button("Stop", elem_id=stop, **{**options, "variant": "stop", "visible": False})
        self.triggers = [self.start.click]
        """What starts it."""
        self.clears: FileOut | None = None
        """A file that goes when something else is under way."""

    def connect(self, kind: str, work: Work, reads: set[Any], changes: Sequence[Any] | set[Any], box: gr.HTML) -> Any:
        """Do `work` when its turn has come after a press; the event returned is that it is over, however it ended.

        `kind` is what the log calls it, `box` a notice that says its place in line and what went wrong.
        """
        self.box = box
        cleared = [] if self.clears is None else self.clears.parts
        begun = gr.on(self.triggers, self.begin, None, [self.start, self.stop, box, *cleared], **AT_ONCE)
        done = begun.then(queued(self.site, box, kind, work), reads, changes, **COMPUTE, **QUIET)
        self.stop.click(self.ask_to_stop, None, None, **AT_ONCE)
        return done.then(self.settle, None, [self.start, self.stop], **AT_ONCE)

    def press_at(self, event: Any, unless: str) -> None:
        """Begin at an event, too, where the page has nothing yet that `unless` selects."""
        event(None, js=f"() => ({PRESS})('#{self.start.elem_id}', '{unless}')", **QUIET)

    def begin(self, request: gr.Request) -> Update:
        """Make ready."""
        self.site.visitors.prune()
        self.site.visitor(request).start()
        cleared = {} if self.clears is None else self.clears.cleared()
        buttons = {self.start: gr.update(interactive=False), self.stop: gr.update(visible=True)}
        return {**buttons, **cleared, self.box: notice("info", WAITING, "One moment.")}

    def settle(self) -> Update:
        """It is over, however it ended."""
        return {self.start: gr.update(interactive=True), self.stop: gr.update(visible=False)}

    def ask_to_stop(self, request: gr.Request) -> None:
        """Let it end before its next pass."""
        self.site.visitor(request).stop()
