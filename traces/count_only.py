"""Count-only traces: steps with counts instead of positions, and runs without a summary; see docs/trace.md.

Such a step gets the entries implied by its step measures `accepted`, `committed` and `window`, so that everything that
reads steps can read it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from draftscope.traces.errors import TraceError, format_value
from draftscope.traces.replay import CanvasReplay, canvas_size, replay_steps
from draftscope.traces.schema import Canvas, Fate, Output, Step, Summary, Trace
from draftscope.traces.stats import summarise, summarise_sums


def expand_counts(trace: Trace) -> Trace:
    """Return the trace with entries for count-only steps; the trace itself if there are none.

    A step that accepted A drafts and made C tokens final (`committed`; A if it is missing) fills the first C open
    positions: A are accepted, the others are resampled if more drafts were verified (`window`) than accepted, else a
    bonus or, without drafts, sampled. Tokens come from the output if it has them.

    Raises:
        TraceError: If the canvas has too few positions.
    """
    if not any(map(counted, trace.steps)) and all(step.token or not step.position for step in trace.steps):
        return trace
    return replace(trace, steps=tuple(_filled(trace.steps, trace.canvas, trace.output)))


def summary_of(
    steps: Sequence[Step], canvas: Canvas, ends: Sequence[int] = (), *, complete: bool | None = None
) -> Summary:
    """Return the summary of steps.

    Args:
        steps: Steps from the beginning of a run.
        canvas: Its canvas.
        ends: Ids that end a text.
        complete: Whether the run is complete; None if it is where its canvas is full, or a text is full up to its end.
    """
    size = canvas_size(canvas)
    if complete is None:
        state = replay_steps(steps, size)
        stop = size
        if canvas.kind == "text":
            stop = next((i + 1 for i, token in enumerate(state.tokens) if state.final[i] and token in ends), size)
        complete = all(state.final[:stop])
    return summarise(steps, size, complete, ends)


def derived_summary(trace: Trace) -> Summary:
    """Return the summary that follows from the sums of a trace, or else from its steps."""
    return summarise_sums(trace.sums) if trace.sums else summary_of(trace.steps, trace.canvas, trace.legend.ends)


def counted(step: Step) -> int:
    """Tokens that a step without positions made final."""
    return 0 if step.position else int(step.signals.get("committed", step.signals.get("accepted", 0)))


def _filled(steps: Sequence[Step], canvas: Canvas, output: Output) -> Iterator[Step]:
    size = canvas_size(canvas)
    replay = CanvasReplay(size)
    still_open = (at for at in range(size) if not replay.final[at])  # searched once, on first use
    for index, step in enumerate(steps):
        if (count := counted(step)) > 0:
            positions = tuple(islice(still_open, count))
            if len(positions) < count:
                problem = f"make {format_value(count)} tokens final where {len(positions)} positions are open"
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
