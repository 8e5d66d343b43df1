"""Statistics of a run that belong to its record: cost, verdicts, and the summary.

Everything is a pure function of the steps and needs nothing but the standard library.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from math import fsum, sqrt
from typing import Final, NamedTuple

from draftscope.traces.replay import replay_steps
from draftscope.traces.schema import Fate, Milliseconds, Step, Summary, Sums

STAGES: Final = tuple(stage.name for stage in fields(Milliseconds))
"""Names of the stages of a step."""


class Cost(NamedTuple):
    """Total cost of some forward passes."""

    forwards: int
    row_forwards: int
    """Sum of rows over forward passes."""
    query_tokens: int
    milliseconds: Milliseconds
    """Sums, stage by stage."""


class Tally(NamedTuple):
    """Verdicts on some drafts, such as those of one position."""

    judged: int
    accepted: int

    @property
    def acceptance(self) -> float | None:
        """Acceptance rate of the verified drafts; None if none was verified."""
        return self.accepted / self.judged if self.judged else None

    @property
    def error(self) -> float:
        """Standard error of the acceptance, drafts taken for independent."""
        share = self.acceptance or 0.0
        return sqrt(share * (1 - share) / max(self.judged, 1))


def summarise(steps: Sequence[Step], positions: int, complete: bool, ends: Sequence[int] = ()) -> Summary:
    """Summarise a run.

    Args:
        steps: Steps of the run.
        positions: Positions of the canvas.
        complete: False if the run was stopped early.
        ends: End-of-sequence ids; final tokens after the first of them do not count.

    Returns:
        The summary. Times are those of the passes, even if several sequences shared them.
    """
    total = cost(steps)
    state = replay_steps(steps, positions)
    last = next((i for i, token in enumerate(state.tokens) if state.final[i] and token in ends), positions)
    tokens = sum(state.final[: last + 1])
    drafts = count_verdicts(fate for step in steps for fate in step.fate)
    return Summary(
        complete=complete,
        tokens=tokens,
        forwards=total.forwards,
        tokens_per_forward=tokens / total.forwards if total.forwards else 0.0,
        judged=drafts.judged,
        accepted=drafts.accepted,
        acceptance=drafts.acceptance,
        drafts=sum(evaluated_drafts(step) for step in steps),
        query_tokens=total.query_tokens,
        row_forwards=total.row_forwards,
        seconds=total.milliseconds.total / 1000,
        forward_seconds=total.milliseconds.forward / 1000,
    )


def summarise_sums(sums: Sums) -> Summary:
    """Summarise the counts of an engine; a pass is taken to be fed its drafts and one token."""
    judged = sum(sums.judged_by_position)
    return Summary(
        complete=True,
        tokens=sums.tokens,
        forwards=sums.forwards,
        tokens_per_forward=sums.tokens / sums.forwards if sums.forwards else 0.0,
        judged=judged,
        accepted=sums.accepted,
        acceptance=sums.accepted / judged if judged else None,
        drafts=sums.drafts,
        query_tokens=sums.forwards + sums.drafts,
        row_forwards=sums.forwards,
        seconds=sums.seconds,
        forward_seconds=sums.seconds,
    )


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Return the sums of several requests; a count that one of them lacks is unknown."""
    verified = [part.verifications for part in parts if part.verifications is not None]
    length = max(len(part.accepted_by_position) for part in parts)
    judged = [part.judged_by_position for part in parts]
    return Sums(
        tokens=sum(part.tokens for part in parts),
        forwards=sum(part.forwards for part in parts),
        verifications=sum(verified) if len(verified) == len(parts) else None,
        drafts=sum(part.drafts for part in parts),
        accepted=sum(part.accepted for part in parts),
        accepted_by_position=_column_sums([part.accepted_by_position for part in parts], length),
        judged_by_position=_column_sums(judged, length) if all(judged) else (),
        seconds=sum(part.seconds for part in parts),
    )


def _column_sums(columns: Sequence[Sequence[int]], length: int) -> tuple[int, ...]:
    return tuple(sum(column[at] for column in columns if at < len(column)) for at in range(length))


def evaluated_drafts(step: Step) -> int:
    """Return how many drafts a verifying pass evaluated; those it dropped or left pending count as well."""
    if not any(fate.judged for fate in step.fate):
        return 0
    return sum(fate.evaluated for fate in step.fate)


def cost(steps: Sequence[Step]) -> Cost:
    """Return the total cost of steps."""
    rows, fed = (sum(getattr(step.call, name) for step in steps) for name in ("rows", "query_tokens"))
    return Cost(len(steps), rows, fed, Milliseconds(**{name: fsum(stage_milliseconds(steps, name)) for name in STAGES}))


def stage_milliseconds(steps: Sequence[Step], name: str) -> list[float]:
    """Return the milliseconds that every step spent on one stage.

    Args:
        steps: Steps of a run.
        name: Field of `Milliseconds`.
    """
    return [getattr(step.call.milliseconds, name) for step in steps]


def draft_forwards(steps: Sequence[Step]) -> int:
    """Return the number of draft passes; all others are target passes."""
    return sum(step.call.role == "draft" for step in steps)


def cost_by_role(steps: Sequence[Step]) -> dict[str, Cost]:
    """Cost per role (draft, target, self), in order of first appearance."""
    return _grouped(steps, lambda step: step.call.role)


def cost_by_mode(steps: Sequence[Step]) -> dict[str, Cost]:
    """Cost per mode (causal, diffusion, verify ...), in order of first appearance."""
    return _grouped(steps, lambda step: step.call.mode)


def count_verdicts(fates: Iterable[Fate]) -> Tally:
    """How many of these fates are verdicts, and how many of them accept."""
    judged = [fate for fate in fates if fate.judged]
    return Tally(judged=len(judged), accepted=judged.count(Fate.ACCEPTED))


def _grouped(steps: Sequence[Step], key: Callable[[Step], str]) -> dict[str, Cost]:
    names = dict.fromkeys(map(key, steps))
    return {name: cost([step for step in steps if key(step) == name]) for name in names}
