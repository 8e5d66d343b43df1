"""Runs for the page: several decoders in turns, one forward pass of each at a time. Knows nothing of the page."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from pydantic_core import to_jsonable_python

from demo.server.limits import CANNOT_FIT, TRIED_PASSES, TRIED_SECONDS, Deadline
from engines.config import ConfigError
from engines.runtime.driver import Job, Run, mentioned
from engines.runtime.request import Request
from traces.replay import Replay
from traces.schema import Step, Trace

DRAWING: Final = 0.2
"""Most of the time of its passes that pictures of a run under way take: to draw a clip takes as long as 19 passes."""


class Advance(NamedTuple):
    """One forward pass of one decoder."""

    lane: int
    sequence: int
    step: Step
    frame: str | None
    """The picture so far, for models whose tokens cannot be drawn one by one; None where the last one is fresh."""
    words: Mapping[int, str] | None
    """The text of ids that no step before spoke of, for vocabularies too large to tell as a whole."""


class LiveRun:
    """One decoder under way, with the picture it has drawn so far."""

    def __init__(self, job: Job) -> None:
        self.run = Run(job)
        self.passes = 0
        self.seconds = 0.0
        """Wall clock of its passes so far."""
        self._steps = iter(self.run)
        self._replay = Replay(job.task.length)
        self._legend = job.drawing.legend({})
        self._told = set(self._legend.vocabulary or ())
        self._drawing = 0.0

    def head(self) -> dict[str, Any]:
        """What a viewer has to know of the run before its first step."""
        job = self.run.job
        return {
            "method": job.method.name,
            "variant": job.method.variant(job.config),
            "model": plain(job.model.card),
            "prompt": job.prompt,
            "seed": job.seed,
            "config": asdict(job.config),
            "canvas": plain(job.task.canvas),
            "legend": plain(self._legend),
            "rules": [plain(rule) for rule in job.method.rules(job.config)],
        }

    def advance(self, lane: int) -> Advance | None:
        """The next forward pass of this decoder, number `lane` on the page; None when the canvas is full."""
        begun = time.monotonic()
        step = next(self._steps, None)
        self.seconds += time.monotonic() - begun
        if step is None:
            return None
        self._replay.apply(step)
        self.passes += 1
        return Advance(
            lane=lane, sequence=self.passes - 1, step=step, frame=self._picture(), words=self._new_words(step)
        )

    def expected(self) -> float:
        """About how many seconds the whole run takes, if it goes on as it began."""
        final = self._replay.state().final
        return self.seconds * len(final) / max(1, sum(final))

    def _new_words(self, step: Step) -> Mapping[int, str] | None:
        if self._legend.vocabulary is None:
            return None
        new = mentioned([step]) - self._told
        self._told |= new
        return self.run.job.drawing.legend({}, new).vocabulary if new else None

    def _picture(self) -> str | None:
        if self._legend.tiles or self._legend.vocabulary is not None:
            return None  # the viewer draws the tokens itself
        if self._drawing > DRAWING * self.seconds:
            return None  # the viewer keeps the picture before; the whole trace has them all
        begun = time.monotonic()
        frames = self.run.job.drawing.legend({self.passes: self._replay.state().tokens}).frames
        self._drawing += time.monotonic() - begun
        return frames[0].image if frames else None


class LiveRuns:
    """Decoders that take turns, so that a page can show them growing side by side; each is timed by its own passes."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Open the sessions. Raises ValueError for a prompt or setting that a model refuses."""
        self.runs = [LiveRun(job) for job in jobs]

    def passes(self) -> Iterator[Advance]:
        """Advance in turns every decoder that is not done, by one forward pass."""
        left = deque(enumerate(self.runs))
        while left:
            lane, live = left.popleft()
            if passed := live.advance(lane):
                left.append((lane, live))
                yield passed

    def traces(self) -> tuple[Trace, ...]:
        """The traces of what was decoded so far."""
        return tuple(live.run.trace() for live in self.runs)


def race(
    requests: Sequence[Request], stopped: Callable[[], bool], seconds: float | None = None
) -> Iterator["Opened | Advance | Ended"]:
    """Several runs in turns, as messages: first `Opened`, then pass by pass, `Ended` once done or stopped.

    `stopped` is asked after every pass; what was decoded is kept. All together may take so many `seconds` once their
    models are loaded. Raises ValueError or ModelError, before the first message, for a prompt or setting that a model
    refuses, a model that cannot be had, and runs that do not fit into `seconds`, going by their first passes.
    """
    live = LiveRuns([request.job() for request in requests])
    deadline = Deadline(seconds, stopped)
    passes, ended = live.passes(), ""
    tried = first_of(passes) if seconds is not None else []
    if seconds is not None and (expected := sum(run.expected() for run in live.runs)) > CANNOT_FIT * seconds:
        raise ConfigError(
            f"settings: this would take about {expected:.0f} s here, and the server gives {seconds:g} s a run; "
            "choose a shorter text, fewer steps, drafts or tries, or a smaller model."
        )
    yield Opened(tuple(run.head() for run in live.runs))
    for passed in chain(tried, passes):
        yield passed
        if deadline():
            ended = deadline.reason
            break
    traces = live.traces()
    if all(trace.summary.complete for trace in traces):
        ended = ""
    elif ended:
        traces = tuple(replace(trace, extensions={"draftscope": {"ended": ended}}) for trace in traces)
    yield Ended(traces, ended)


def first_of(passes: Iterator[Advance]) -> list[Advance]:
    """The first passes, from which it is said about how long a run takes."""
    begun, first = time.monotonic(), []
    for passed in islice(passes, TRIED_PASSES):
        first.append(passed)
        if time.monotonic() - begun > TRIED_SECONDS:
            break
    return first


class Opened(NamedTuple):
    """What a viewer has to know of each run before its first step."""

    heads: tuple[dict[str, Any], ...]


class Ended(NamedTuple):
    """The traces of what was decoded."""

    traces: tuple[Trace, ...]
    ended: str = ""
    """Why they are not whole, where they are not; their extensions say it, too."""


def plain(record: Any) -> Any:
    """A record of the schema as JSON data, without what is absent."""
    return to_jsonable_python(record, exclude_none=True)
