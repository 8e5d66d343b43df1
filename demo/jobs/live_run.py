"""Runs for the page: several decoders in turns, one forward pass of each at a time. Knows nothing of the page."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from demo.server import log
from demo.server.limits import CANNOT_FIT, TRIED_PASSES, TRIED_SECONDS, Deadline, current
from engines.runtime.driver import Job, RunningSequence, drive, make_trace, mentioned, open_session
from engines.runtime.run_request import Request
from engines.settings import ConfigError
from traces.replay import Replay, replayed
from traces.schema import Step, Trace

_TELL_SECONDS: Final = 0.06
"""There are news this often, as to draw them takes a browser several frames' time; of the first pass at once."""
DRAWING: Final = 0.1
"""Most of the time of its passes that pictures of a run under way take: to draw a clip takes as long as 19 passes."""


class News(NamedTuple):
    """Forward passes of one decoder, one after the other."""

    lane: int
    """Its number on the page."""
    first: int
    """The number of the first of them, from 0."""
    steps: Sequence[Step]
    frame: str | None
    """The picture so far, for models whose tokens cannot be drawn one by one; None where the last one is fresh."""
    words: Mapping[int, str] | None
    """The text of ids that no step before spoke of, for vocabularies too large to tell as a whole."""


class LiveRun:
    """One decoder under way, with the picture it has drawn so far."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.seconds = 0.0
        """Wall clock of its passes so far."""
        self._sequence = RunningSequence(job.decoder())
        self._passes = drive([self._sequence], open_session([job]), job.config, likely=job.recorded)
        self._replay = Replay(job.task.length)
        self._told = 0
        """Passes that were news."""
        self._legend = job.drawing.legend({})
        self._named = set(self._legend.vocabulary or ())
        self._drawing = 0.0

    def head(self) -> dict[str, Any]:
        """What a viewer has to know of the run before its first step."""
        job = self.job
        return {
            "method": job.method.name,
            "variant": job.method.variant(job.config),
            "model": job.model.card,
            "prompt": job.prompt,
            "seed": job.seed,
            "config": asdict(job.config),
            "canvas": job.task.canvas,
            "legend": self._legend,
            "rules": job.method.rules(job.config),
        }

    def advance(self) -> bool:
        """Take the next forward pass; False when the canvas is full."""
        begun = time.monotonic()
        more = next(self._passes, None) is not None
        self.seconds += time.monotonic() - begun
        return more

    def news(self, lane: int) -> News:
        """The passes since it was last asked, whose steps are made together."""
        steps, first = self._sequence.steps[self._told :], self._told
        for step in steps:
            self._replay.apply(step)
        self._told += len(steps)
        return News(lane, first, steps, self._picture() if steps else None, self._new_words(steps))

    def expected(self) -> float:
        """About how many seconds the whole run takes, if it goes on as it began."""
        final = replayed(self._sequence.steps, self.job.task.length).final
        return self.seconds * len(final) / max(1, sum(final))

    def trace(self) -> Trace:
        """The trace of what was decoded so far."""
        return make_trace(self.job, self._sequence)

    def _new_words(self, steps: Sequence[Step]) -> Mapping[int, str] | None:
        if self._legend.vocabulary is None:
            return None
        new = mentioned(steps) - self._named
        self._named |= new
        return self.job.drawing.legend({}, new).vocabulary if new else None

    def _picture(self) -> str | None:
        if self._legend.tiles or self._legend.vocabulary is not None:
            return None  # the viewer draws the tokens itself
        if self._drawing > DRAWING * self.seconds:
            return None  # the viewer keeps the picture before; the whole trace has them all
        begun = time.monotonic()
        frames = self.job.drawing.legend({self._told: self._replay.state().tokens}).frames
        self._drawing += time.monotonic() - begun
        return frames[0].image if frames else None


class LiveRuns:
    """Decoders that take turns, so that a page can show them growing side by side; each is timed by its own passes."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Open the sessions. Raises ValueError for a prompt or setting that a model refuses."""
        self.runs = [LiveRun(job) for job in jobs]
        self.taken = 0
        """Forward passes so far."""
        self._left = deque(self.runs)

    def passes(self) -> Iterator[None]:
        """Advance in turns every decoder that is not done, by one forward pass."""
        while self._left:
            live = self._left.popleft()
            if live.advance():
                self._left.append(live)
                self.taken += 1
                yield

    def tried(self) -> float:
        """About how many seconds all runs take together, from their first passes."""
        begun = time.monotonic()
        for _ in islice(self.passes(), TRIED_PASSES):
            if time.monotonic() - begun > TRIED_SECONDS:
                break
        return sum(live.expected() for live in self.runs)

    def news(self) -> list[News]:
        """What every decoder that was not done has done since it was last asked."""
        return [news for lane, live in enumerate(self.runs) if (news := live.news(lane)).steps]


def race(
    requests: Sequence[Request], stopped: Callable[[], bool], seconds: float | None = None
) -> Iterator["Opened | LiveRuns | Ended"]:
    """Several runs in turns, as messages: first `Opened`, then the runs where they have news, `Ended` once done.

    `stopped` is asked after every pass; what was decoded is kept. All together may take so many `seconds` once their
    models are loaded. Raises ValueError or ModelError, before the first message, for a prompt or setting that a model
    refuses, a model that cannot be had, and runs that do not fit into `seconds`, going by their first passes.
    """
    live = LiveRuns([request.job() for request in requests])
    deadline = Deadline(seconds, stopped)
    ended, told = "", -math.inf
    if seconds is not None and (expected := live.tried()) > CANNOT_FIT * seconds:
        raise ConfigError(
            f"settings: this would take about {expected:.0f} s here, and the server gives {seconds:g} s a run; "
            "choose a shorter text, fewer steps, drafts or tries, or a smaller model."
        )
    yield Opened(tuple(run.head() for run in live.runs))
    for _ in live.passes():
        if time.monotonic() - told > _TELL_SECONDS:
            yield live
            told = time.monotonic()
        if deadline():
            ended = deadline.reason
            break
    yield live
    traces = tuple(run.trace() for run in live.runs)
    ended = "" if all(trace.summary.complete for trace in traces) else ended
    if ended:
        traces = tuple(replace(trace, extensions={"draftscope": {"ended": ended}}) for trace in traces)
    yield Ended(traces, ended)


class Opened(NamedTuple):
    """What a viewer has to know of each run before its first step."""

    heads: tuple[dict[str, Any], ...]


class Ended(NamedTuple):
    """The traces of what was decoded."""

    traces: tuple[Trace, ...]
    ended: str = ""
    """Why they are not whole, where they are not; their extensions say it, too."""


def decoded(requests: Sequence[Request], stopped: Callable[[], bool], kind: str) -> Iterator[Opened | LiveRuns | Ended]:
    """`race` within the time that this server gives, with its lines in the log."""
    run = requests[-1]
    about: dict[str, Any] = {"kind": kind, "method": run.method, "model": run.model, "seed": run.seed}
    begun = time.monotonic()
    log.event("run.begun", **about)
    ended, passes = "left", 0
    try:
        for message in race(requests, stopped, current().run_seconds):
            if isinstance(message, Ended):
                ended = message.ended or "done"
            elif isinstance(message, LiveRuns):
                passes = message.taken
            yield message
    except Exception as error:
        ended = type(error).__name__
        raise
    finally:
        log.event("run.ended", **about, seconds=round(time.monotonic() - begun, 3), passes=passes, ended=ended)
