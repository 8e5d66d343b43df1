"""Two buttons: one starts what needs the model, the other stops it and is there while that is under way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gradio as gr

from demo.limits import COMPUTE
from demo.site import AT_ONCE, QUIET, Site, Update
from demo.turns import Work, queued
from demo.widgets import notice


@dataclass(frozen=True, slots=True)
class StartStop:
    """The buttons, and what says how it goes."""

    site: Site
    start: gr.Button
    stop: gr.Button
    box: gr.HTML
    """The notice that says that it waits, its place in line, and what went wrong."""
    bar: gr.HTML | None = None
    """How far it is; it is cleared at the end."""
    waiting: Mapping[str, str] = field(
        default_factory=partial(notice, "info", "It begins as soon as the model is free.", "One moment.")
    )

    def connect(self, kind: str, work: Work, reads: set[Any], changes: Sequence[Any] | set[Any]) -> None:
        """Do `work` when its turn has come after a press; `kind` is what it is called in the log."""
        buttons = [self.start, self.stop]
        begun = self.start.click(self.begin, None, [*buttons, self.box], **AT_ONCE)
        done = begun.then(queued(self.site, self.box, kind, work), reads, changes, **COMPUTE, **QUIET)
        done.then(self.settle, None, [*buttons, *self._bar], **AT_ONCE)
        self.stop.click(self.ask_to_stop, None, None, **AT_ONCE)

    def begin(self, request: gr.Request) -> Update:
        """Make ready."""
        self.site.visitors.prune()
        self.site.visitor(request).start()
        return {self.start: gr.update(interactive=False), self.stop: gr.update(visible=True), self.box: self.waiting}

    def settle(self) -> Update:
        """It is over, however it ended."""
        buttons = {self.start: gr.update(interactive=True), self.stop: gr.update(visible=False)}
        return {**buttons, **{bar: {} for bar in self._bar}}

    def ask_to_stop(self, request: gr.Request) -> None:
        """Let it end before its next pass."""
        self.site.visitor(request).stop()

    @property
    def _bar(self) -> list[gr.HTML]:
        return [] if self.bar is None else [self.bar]
