"""Live runs: several decoders advance alternately, one forward pass each. Independent of the page."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from draftscope.demo.server import log
from draftscope.demo.server.limits import REJECT_FACTOR, server_limits
from draftscope.engines.runtime.deadline import PROBE_PASSES, PROBE_SECONDS, Deadline
from draftscope.engines.runtime.driver import Job, collect_token_ids, make_trace, open_session, run_of, run_passes
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError
from draftscope.traces.replay import CanvasReplay, replay_steps
from draftscope.traces.schema import Step, Trace

_TELL_SECONDS: Final = 0.06
"""Interval of updates, as a browser takes several frames to draw one; the first pass is sent at once."""
DRAWING: Final = 0.1
"""Most of the time of its passes that pictures of a run under way take: to draw a clip takes as long as 19 passes."""


class RunUpdate(NamedTuple):
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
        self._sequence = run_of(job)
        self._passes = run_passes([self._sequence], open_session([job]), job.config, likely=job.recorded)
        self._replay = CanvasReplay(job.task.length)
        self._num_sent = 0
        """Passes that were news."""
        self._legend = job.drawing.make_legend({})
        self._named = set(self._legend.vocabulary or ())
        self._drawing = 0.0

    def head(self) -> dict[str, Any]:
        """Return what a viewer needs to know about the run before its first step."""
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
            "rules": job.method.explanations(job.config),
        }

    def advance(self) -> bool:
        """Take the next forward pass; False when the canvas is full."""
        begun = time.monotonic()
        more = next(self._passes, None) is not None
        self.seconds += time.monotonic() - begun
        return more

    def news(self, lane: int) -> RunUpdate:
        """The passes since it was last asked, whose steps are made together."""
        steps, first = self._sequence.steps[self._num_sent :], self._num_sent
        for step in steps:
            self._replay.apply(step)
        self._num_sent += len(steps)
        return RunUpdate(lane, first, steps, self._picture() if steps else None, self._new_words(steps))

    def expected(self) -> float:
        """About how many seconds the whole run takes, if it goes on as it began."""
        final = replay_steps(self._sequence.steps, self.job.task.length).final
        return self.seconds * len(final) / max(1, sum(final))

    def trace(self) -> Trace:
        """The trace of what was decoded so far."""
        return make_trace(self.job, self._sequence)

    def _new_words(self, steps: Sequence[Step]) -> Mapping[int, str] | None:
        if self._legend.vocabulary is None:
            return None
        new = collect_token_ids(steps) - self._named
        self._named |= new
        return self.job.drawing.make_legend({}, new).vocabulary if new else None

    def _picture(self) -> str | None:
        if self._legend.tiles or self._legend.vocabulary is not None:
            return None  # the viewer draws the tokens itself
        if self._drawing > DRAWING * self.seconds:
            return None  # the viewer keeps the picture before; the whole trace has them all
        begun = time.monotonic()
        frames = self.job.drawing.make_legend({self._num_sent: self._replay.state().tokens}).frames
        self._drawing += time.monotonic() - begun
        return frames[0].image if frames else None


class LiveRuns:
    """Decoders that alternate, so that a page can show them growing side by side.

    Each is timed by its own passes only.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Open the sessions. Raises ValueError for a prompt or setting that a model refuses."""
        self.runs = [LiveRun(job) for job in jobs]
        self.num_read = 0
        """Forward passes so far."""
        self._left = deque(self.runs)

    def passes(self) -> Iterator[None]:
        """Advance every unfinished decoder by one forward pass, in round robin."""
        while self._left:
            live = self._left.popleft()
            if live.advance():
                self._left.append(live)
                self.num_read += 1
                yield

    def estimate_seconds(self) -> float:
        """About how many seconds all runs take together, from their first passes."""
        begun = time.monotonic()
        for _ in islice(self.passes(), PROBE_PASSES):
            if time.monotonic() - begun > PROBE_SECONDS:
                break
        return sum(live.expected() for live in self.runs)

    def news(self) -> list[RunUpdate]:
        """Return what every unfinished decoder has done since the last call."""
        return [news for lane, live in enumerate(self.runs) if (news := live.news(lane)).steps]


def decode_interleaved(
    requests: Sequence[RunRequest], stopped: Callable[[], bool], seconds: float | None = None
) -> Iterator["RaceStarted | LiveRuns | RaceEnded"]:
    """Decode several runs alternately, and yield messages.

    `RaceStarted`, then the runs whenever they advance, `RaceEnded`.

    Args:
        requests: Runs, the baseline included.
        stopped: Checked after every pass; returns True to stop. Decoded tokens are kept.
        seconds: Time limit of all runs together, after the models are loaded.

    Raises:
        ValueError: For an invalid prompt or setting, and if the first passes show that the limit will be exceeded;
            before
            the first message.
        ModelError: If a model cannot be loaded; before the first message.
    """
    live = LiveRuns([request.job() for request in requests])
    deadline = Deadline(seconds, stopped)
    ended, reported_at = "", -math.inf
    if seconds is not None and (expected := live.estimate_seconds()) > REJECT_FACTOR * seconds:
        raise ConfigError(
            f"settings: this would take about {expected:.0f} s here, and the server gives {seconds:g} s a run; "
            "choose a shorter text, fewer steps, drafts or tries, or a smaller model."
        )
    yield RaceStarted(tuple(run.head() for run in live.runs))
    for _ in live.passes():
        if time.monotonic() - reported_at > _TELL_SECONDS:
            yield live
            reported_at = time.monotonic()
        if deadline():
            ended = deadline.reason
            break
    yield live
    traces = tuple(run.trace() for run in live.runs)
    ended = "" if all(trace.summary.complete for trace in traces) else ended
    if ended:
        traces = tuple(replace(trace, extensions={"draftscope": {"ended": ended}}) for trace in traces)
    yield RaceEnded(traces, ended)


class RaceStarted(NamedTuple):
    """Description of each run, which a viewer needs before the first step."""

    heads: tuple[dict[str, Any], ...]


class RaceEnded(NamedTuple):
    """The traces of what was decoded."""

    traces: tuple[Trace, ...]
    ended: str = ""
    """Why they are not whole, where they are not; their extensions say it, too."""


def decoded(
    requests: Sequence[RunRequest], stopped: Callable[[], bool], kind: str
) -> Iterator[RaceStarted | LiveRuns | RaceEnded]:
    """`race` within the time that this server gives, with its lines in the log."""
    run = requests[-1]
    about: dict[str, Any] = {"kind": kind, "method": run.method, "model": run.model, "seed": run.seed}
    begun = time.monotonic()
    log.event("run.begun", **about)
    ended, passes = "left", 0
    try:
        for message in decode_interleaved(requests, stopped, server_limits().run_seconds):
            if isinstance(message, RaceEnded):
                ended = message.ended or "done"
            elif isinstance(message, LiveRuns):
                passes = message.num_read
            yield message
    except Exception as error:
        ended = type(error).__name__
        raise
    finally:
        log.event("run.ended", **about, seconds=round(time.monotonic() - begun, 3), passes=passes, ended=ended)
