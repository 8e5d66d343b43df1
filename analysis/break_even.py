"""Whether drafting pays in a run, and if not, why: what verification costs, what drafts cost, and what they bring.

Costs are in passes of ordinary decoding, from the times of both runs. With v the cost of a target pass, c that of a
pass of the drafter and k of them for every target pass, a target pass has to yield v + k c tokens to break even.
"""

from collections.abc import Sequence
from typing import NamedTuple

from draftscope.analysis.seeds import target_forwards
from draftscope.traces.schema import Step, Trace
from draftscope.traces.stats import evaluated_drafts

_HALVINGS = 60


class BreakEven(NamedTuple):
    """Speed of a run compared with the baseline, and its break-even point."""

    speed: float
    """Times as fast, in tokens a second."""
    verifying: float
    """Cost of a target pass, in ordinary passes."""
    query_tokens: float
    """Tokens that a target pass is fed, over all its rows."""
    rows: float
    """Rows of a target pass."""
    ordinary_query_tokens: float
    draft_cost: float
    """Cost of a pass of the drafter, in ordinary passes; 0 where the drafts come with the verification."""
    draft_passes: float
    """Forward passes of the drafter per target pass."""
    tokens_per_target_pass: float
    """Tokens for every target pass."""
    break_even_tokens: float
    """Tokens for every target pass at which it would be as fast as ordinary decoding."""
    ordinary_yield: float
    """Tokens for every ordinary pass."""
    drafts: float
    """Drafts evaluated per verifying pass; 0 if none was verified."""
    acceptance: float | None
    """Acceptance rate of the verified drafts."""

    @property
    def break_even(self) -> float | None:
        """Acceptance rate at which drafting breaks even; None if no rate suffices, or no draft was verified."""
        return acceptance_for(self.break_even_tokens / self.ordinary_yield, self.drafts) if self.drafts else None

    @property
    def with_free_drafts(self) -> float:
        """Times as fast if drafts cost nothing."""
        return self.tokens_per_target_pass / (self.verifying * self.ordinary_yield)

    @property
    def with_cheap_verification(self) -> float:
        """Times as fast if a target pass cost no more than an ordinary one."""
        cost = min(self.verifying, 1.0) + self.draft_passes * self.draft_cost
        return self.tokens_per_target_pass / (cost * self.ordinary_yield)

    @property
    def with_all_accepted(self) -> float:
        """Speed-up if every draft were accepted; the measured one if none was verified."""
        return (
            max(self.tokens_per_target_pass, (self.drafts + 1) * self.ordinary_yield) / self.break_even_tokens
            if self.drafts
            else self.speed
        )


def break_even_analysis(run: Trace, ordinary: Trace) -> BreakEven | None:
    """Return the break-even analysis of a run and its baseline.

    Args:
        run: A run with drafts.
        ordinary: Ordinary decoding by the same model, on the same machine.

    Returns:
        Costs and yields in passes of the baseline; None if either was stopped or not timed.
    """
    target = [step for step in run.steps if step.call.role != "draft"]
    drafting = [step for step in run.steps if step.call.role == "draft"]
    accelerated, baseline_summary = run.summary, ordinary.summary
    ordinary_pass, verifying = _seconds(ordinary.steps), _seconds(target)
    is_complete = accelerated.complete and baseline_summary.complete and accelerated.tokens and baseline_summary.tokens
    if not (is_complete and ordinary_pass and verifying):
        return None
    passes, drafting_passes = target_forwards(run), len(drafting)
    judging = sum(evaluated_drafts(step) > 0 for step in run.steps)
    cost = verifying / ordinary_pass
    draft_cost = _seconds(drafting) / ordinary_pass
    ordinary_yield = baseline_summary.tokens / baseline_summary.forwards
    yielded = accelerated.tokens / passes
    needed = (cost + drafting_passes / passes * draft_cost) * ordinary_yield
    return BreakEven(
        speed=yielded / needed,
        verifying=cost,
        query_tokens=sum(step.call.query_tokens for step in target) / passes,
        rows=sum(step.call.rows for step in target) / passes,
        ordinary_query_tokens=baseline_summary.query_tokens / baseline_summary.forwards,
        draft_cost=draft_cost,
        draft_passes=drafting_passes / passes,
        tokens_per_target_pass=yielded,
        break_even_tokens=needed,
        ordinary_yield=ordinary_yield,
        drafts=sum(map(evaluated_drafts, run.steps)) / judging if judging else 0.0,
        acceptance=accelerated.acceptance,
    )


def tokens_of(acceptance: float, drafts: float) -> float:
    """Return the tokens that a pass yields on average (arXiv 2211.17192, equation 1).

    Args:
        acceptance: Acceptance rate, from 0 to 1, the same for every draft.
        drafts: Drafts of a pass (gamma).
    """
    return drafts + 1.0 if acceptance == 1 else (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def acceptance_for(tokens: float, drafts: float) -> float | None:
    """Return the acceptance rate at which a pass yields some tokens on average: the inverse of `tokens_of`.

    Args:
        tokens: Tokens to yield, the target's own included.
        drafts: Drafts of a pass (gamma).

    Returns:
        A rate from 0 to 1; None if even full acceptance yields fewer.
    """
    if tokens > drafts + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_of(middle, drafts) < tokens else (low, middle)
    return high


def _seconds(steps: Sequence[Step]) -> float:
    """Mean time of the passes."""
    return sum(step.call.milliseconds.total for step in steps) / 1000 / len(steps) if steps else 0.0
