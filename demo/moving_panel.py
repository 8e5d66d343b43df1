"""The traces at hand as a moving picture to take away."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import Any, Final

import gradio as gr

from demo.limits import COMPUTE, Deadline, current
from demo.log import for_visitors
from demo.naming import title_of
from demo.sessions import Shown, file_name
from demo.site import DARK, QUIET, Site, Update
from demo.turns import queued
from demo.widgets import notice, notice_box, saved
from traces.schema import Trace
from visualizers.moving import Look, MovingError, Report, fitting, write_moving
from visualizers.style import Theme

KINDS: Final = ("gif", "mp4")
_SAID_EVERY: Final = 8
"""Frames from one word of progress to the next."""
_NOTHING: Final = "There is no run to show in motion yet; press Run or choose a recording in the Gallery."


class MovingPanel:
    """Buttons that write a moving picture, what is said meanwhile, and the file."""

    def __init__(self, site: Site, name: str) -> None:
        """Lay them out; `name` sets their ids on the page apart from others."""
        self.site = site
        with gr.Row():
            self.buttons = {
                kind: gr.Button(f"Export {kind.upper()}", size="sm", scale=0, min_width=130, elem_id=f"{name}-{kind}")
                for kind in KINDS
            }
        self.problem = notice_box(elem_id=f"{name}-progress")
        self.file = gr.File(label="Moving picture", visible=False, interactive=False, elem_id=f"{name}-file")
        # It shares the model's slot: a run beside it would be timed on a busy machine.
        events: dict[str, Any] = {**COMPUTE, **QUIET}
        for kind, button in self.buttons.items():
            exported = queued(site, self.problem, f"export-{kind}", self._exporter(kind), stops=False)
            written = button.click(exported, {site.shown, site.look}, [self.file, self.problem], **events)
            written.then(None, None, None, js=saved(f"{name}-file"), **QUIET)

    @property
    def parts(self) -> list[Any]:
        """What `cleared` changes."""
        return [self.file, self.problem]

    def cleared(self) -> Update:
        """Forget the file: it shows other runs than those at hand."""
        return {self.file: gr.update(visible=False, value=None), self.problem: {}}

    def _exporter(self, kind: str) -> Any:
        def export(values: Update, request: gr.Request) -> Iterator[Update]:
            """Write the runs at hand as a moving picture, and say how far it is."""
            shown: Shown = values[self.site.shown]
            traces = shown.traces()
            if not traces:
                yield {**self.cleared(), self.problem: notice("error", _NOTHING)}
                return
            target = self.site.visitor(request).file(f"{file_name(traces[-1])}.{kind}")
            deadline = Deadline.within(current().run_seconds, lambda: False)
            try:
                theme: Theme = "dark" if DARK in values[self.site.look] else "light"
                look = fitting(traces, Look(theme=theme, names=_names(traces)))
                yield {**self.cleared(), self.problem: notice("info", "The frames are drawn.", "One moment.")}
                for done, frames in progress(lambda report: write_moving(traces, target, look, report=report)):
                    if deadline():
                        raise MovingError(f"moving picture: {done} of {frames} frames were drawn. {deadline.said}")
                    if done % _SAID_EVERY == 0:
                        yield {self.problem: notice("info", f"Frame {done} of {frames} is drawn.", "Drawing.")}
            except MovingError as error:
                yield {**self.cleared(), self.problem: notice("error", for_visitors(told(error)))}
                return
            except OSError as error:
                yield {**self.cleared(), self.problem: notice("error", for_visitors(str(error)))}
                return
            finally:
                if not target.exists():
                    shutil.rmtree(target.parent, ignore_errors=True)
            sparse = notice("info", f"A frame is {look.every} forward passes, so that it does not get too long.")
            yield {
                self.file: gr.update(value=str(target), visible=True),
                self.problem: sparse if look.every > 1 else {},
            }

        return export


def told(error: MovingError) -> str:
    """What is wrong and what helps on the page, which has no settings of moving pictures."""
    said = error.said(lambda _: None)
    if error.remedies and said == error.what:
        return f"{said}. No setting of this page helps; the command python -m visualizers has some that do."
    return said


class _GivenUp(Exception):
    """Nobody waits for the work any more."""


def progress(work: Callable[[Report], None]) -> Iterator[tuple[int, int]]:
    """Do work that reports how far it is, and yield what it reports; its error is raised at the end.

    When nobody asks any more, the work ends at its next report.
    """
    said: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
    given_up = Event()

    def report(done: int, count: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        said.put((done, count))

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(work, report)
        result.add_done_callback(lambda _: said.put(None))
        try:
            while (told := said.get()) is not None:
                yield told
        finally:
            given_up.set()
        result.result()


def _names(traces: Sequence[Trace]) -> tuple[str, ...]:
    """The titles of the methods, where they tell the runs apart."""
    names = tuple(map(title_of, traces))
    return names if len(set(names)) == len(names) else ()
