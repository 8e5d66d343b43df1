"""Two buttons: one starts what needs the model, the other stops it and is there while that is under way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import AT_ONCE, PRESS, QUIET, Site, Update, by_script
from draftscope.demo.components.queued import Work, queued
from draftscope.demo.components.widgets import notice
from draftscope.demo.server.limits import COMPUTE
from draftscope.experiments import Progress

WAITING: Final = "It starts as soon as the model is free; while another run is in progress, this one waits."


def progress_notice(progress: Progress, kept_runs: str) -> Mapping[str, Any]:
    """Return the notice of an experiment in progress; `kept` describes the results if it ended early."""
    if progress.stop_reason:
        return notice("info", kept_runs, progress.stop_reason)
    is_done = progress.num_done == progress.num_runs
    return {} if is_done else notice("info", str(progress), share=progress.fraction)


class StartStop:
    """Start and stop buttons with a status notice."""

    def __init__(self, site: Site, start: str, stop: str, label: str, **options: Any) -> None:
        """Lay them out; `start` and `stop` are their ids on the page, `label` stands on the first."""
        self.site = site
        options = {"scale": 0, "min_width": 150, "variant": "primary", **options}
        self.start = gr.Button(label, elem_id=start, **options)
        self.stop = gr.Button("Stop", elem_id=stop, **{**options, "variant": "stop", "visible": False})
        self.triggers = [self.start.click]
        """Events that start the work."""
        self.form: Sequence[Any] = ()
        """Inputs that the browser sends as one, unchecked, which for a hundred takes a tenth of the time."""
        self.sent = gr.JSON(visible=False)

    def connect(self, kind: str, work: Work, reads: set[Any], changes: Sequence[Any] | set[Any], box: gr.HTML) -> Any:
        """Connect a start button to work that waits for the model.

        Args:
            kind: Name of the work in the log.
            work: The handler.
            reads: Components whose values the work reads.
            changes: Components that the work updates.
            box: Component for queue position and errors.

        Returns:
            The event that fires when the work has ended, successfully or not.
        """

        def unpacked(values: Update, request: gr.Request) -> Iterator[Update]:
            sent: Any = values.get(self.sent)
            if not isinstance(sent, list) or len(sent) != len(self.form):
                raise ValueError("form: values are missing; reload the page.")
            return work(values | dict(zip(self.form, sent, strict=True)), request)

        begun = {self.start: gr.update(interactive=False), box: notice("info", WAITING, "One moment.")}
        press = f"(...form) => [...({by_script(begun)})(), form]"
        pressed = gr.on(self.triggers, None, self.form, [*begun, self.sent], js=press, **QUIET)
        handle = queued(self.site, box, kind, unpacked, shows={self.stop: gr.update(visible=True)})
        done = pressed.then(handle, {*reads, self.sent}, [self.stop, *changes], **COMPUTE, **QUIET)
        self.stop.click(self.site.request_stop, None, None, **AT_ONCE)
        settled = {self.start: gr.update(interactive=True), self.stop: gr.update(visible=False)}
        return done.then(None, None, [*settled], js=by_script(settled), **QUIET)

    def press_at(self, event: Any, unless: str) -> None:
        """Begin at an event, too, where the page has nothing yet that `unless` selects."""
        event(None, js=f"() => ({PRESS})('#{self.start.elem_id}', '{unless}')", **QUIET)
