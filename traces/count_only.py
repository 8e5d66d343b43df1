"""Traces that say less: steps with counts in place of positions, and runs without a summary; see docs/trace.md.

Such a step gets the entries that its signals `accepted`, `committed` and `window` imply, so that everything that reads
steps reads it, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from traces.errors import TraceError, quote
from traces.replay import Replay, canvas_size, replayed
from traces.schema import Canvas, Fate, Output, Step, Summary, Trace
from traces.stats import summarise


def filled(trace: Trace) -> Trace:
    """The trace with entries for the steps that have counts alone; the trace itself where there is none.

    A step that accepted A drafts and made C tokens final (`committed`; A where it is missing) fills the first C open
    positions: A are accepted, the others resampled where more drafts were judged (`window`) than accepted, else a bonus
    or, without drafts, sampled. Tokens come from the output where it has them. Raises TraceError without room for all.
    """
    if not any(map(counted, trace.steps)) and all(step.token or not step.position for step in trace.steps):
        return trace
    return replace(trace, steps=tuple(_filled(trace.steps, trace.canvas, trace.output)))


def summary_of(
    steps: Sequence[Step], canvas: Canvas, ends: Sequence[int] = (), *, complete: bool | None = None
) -> Summary:
    """The summary that follows from steps.

    Unless said otherwise a run is complete when its canvas is full, or a text is up to the first of `ends`.
    """
    size = canvas_size(canvas)
    if complete is None:
        state = replayed(steps, size)
        stop = size
        if canvas.kind == "text":
            stop = next((i + 1 for i, token in enumerate(state.tokens) if state.final[i] and token in ends), size)
        complete = all(state.final[:stop])
    return summarise(steps, size, complete, ends)


def counted(step: Step) -> int:
    """Tokens that a step without positions made final."""
    return 0 if step.position else int(step.signals.get("committed", step.signals.get("accepted", 0)))


def _filled(steps: Sequence[Step], canvas: Canvas, output: Output) -> Iterator[Step]:
    size = canvas_size(canvas)
    replay = Replay(size)
    still_open = (at for at in range(size) if not replay.final[at])  # looked at once, when its turn comes
    for index, step in enumerate(steps):
        if (count := counted(step)) > 0:
            positions = tuple(islice(still_open, count))
            if len(positions) < count:
                problem = f"make {quote(count)} tokens final where {len(positions)} positions are open"
                raise TraceError(f"steps[{index}].signals", problem, "give canvas.shape room for every token")
            accepted, window = (int(step.signals.get(name, 0)) for name in ("accepted", "window"))
            after = Fate.RESAMPLED if accepted < window else Fate.BONUS if window or accepted else Fate.SAMPLED
            fates = [*[Fate.ACCEPTED] * min(accepted, count), after, *[Fate.SAMPLED] * count]
            step = replace(step, position=positions, fate=tuple(fates[:count]))
        if step.position and not step.token and all(fate.final and fate is not Fate.EDITED for fate in step.fate):
            known = [output.tokens[at] if 0 <= at < len(output.tokens) else None for at in step.position]
            step = replace(step, token=tuple(token for token in known if token is not None))
            if len(step.token) < len(step.position):
                step = replace(step, token=())
        if len(step.position) == len(step.fate) and all(0 <= at < size for at in step.position):
            replay.apply(step)
        yield step
