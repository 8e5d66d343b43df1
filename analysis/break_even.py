"""Whether drafting pays in a run, and if not, why: what verification costs, what drafts cost, and what they bring.

Costs are in passes of ordinary decoding, from the times of both runs. With v the cost of a target pass, c that of a
pass of the drafter and k of them for every target pass, a target pass has to yield v + k c tokens to break even.
"""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.seeds import target_forwards
from traces.schema import Step, Trace
from traces.stats import evaluated_drafts

_HALVINGS = 60


class Account(NamedTuple):
    """A run beside ordinary decoding."""

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
    """Of the drafter, for every target pass."""
    yielded: float
    """Tokens for every target pass."""
    needed: float
    """Tokens for every target pass at which it would be as fast as ordinary decoding."""
    ordinary_yield: float
    """Tokens for every ordinary pass."""
    drafts: float
    """Drafts that a pass that judges evaluates; 0 where none was judged."""
    acceptance: float | None
    """Of judged drafts."""

    @property
    def break_even(self) -> float | None:
        """Acceptance at which drafts would pay; None where none is enough, or no draft was judged."""
        return acceptance_for(self.needed / self.ordinary_yield, self.drafts) if self.drafts else None

    @property
    def with_free_drafts(self) -> float:
        """Times as fast if drafts cost nothing."""
        return self.yielded / (self.verifying * self.ordinary_yield)

    @property
    def with_cheap_verification(self) -> float:
        """Times as fast if a target pass cost no more than an ordinary one."""
        cost = min(self.verifying, 1.0) + self.draft_passes * self.draft_cost
        return self.yielded / (cost * self.ordinary_yield)

    @property
    def with_all_accepted(self) -> float:
        """Times as fast if every draft were accepted; as it is where none was judged."""
        return max(self.yielded, (self.drafts + 1) * self.ordinary_yield) / self.needed if self.drafts else self.speed


def account(run: Trace, ordinary: Trace) -> Account | None:
    """What a run came to beside ordinary decoding; None where either was stopped or not timed."""
    target = [step for step in run.steps if step.call.role != "draft"]
    drafting = [step for step in run.steps if step.call.role == "draft"]
    own, usual = run.summary, ordinary.summary
    ordinary_pass, verifying = _seconds(ordinary.steps), _seconds(target)
    whole = own.complete and usual.complete and own.tokens and usual.tokens
    if not (whole and ordinary_pass and verifying):
        return None
    passes, drafting_passes = target_forwards(run), len(drafting)
    judging = sum(evaluated_drafts(step) > 0 for step in run.steps)
    cost = verifying / ordinary_pass
    draft_cost = _seconds(drafting) / ordinary_pass
    ordinary_yield = usual.tokens / usual.forwards
    yielded = own.tokens / passes
    needed = (cost + drafting_passes / passes * draft_cost) * ordinary_yield
    return Account(
        speed=yielded / needed,
        verifying=cost,
        query_tokens=sum(step.call.query_tokens for step in target) / passes,
        rows=sum(step.call.rows for step in target) / passes,
        ordinary_query_tokens=usual.query_tokens / usual.forwards,
        draft_cost=draft_cost,
        draft_passes=drafting_passes / passes,
        yielded=yielded,
        needed=needed,
        ordinary_yield=ordinary_yield,
        drafts=sum(map(evaluated_drafts, run.steps)) / judging if judging else 0.0,
        acceptance=own.acceptance,
    )


def tokens_of(acceptance: float, drafts: float) -> float:
    """Tokens that a pass with g drafts yields on average (arXiv 2211.17192, equation 1)."""
    return drafts + 1.0 if acceptance == 1 else (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def acceptance_for(tokens: float, drafts: float) -> float | None:
    """The acceptance at which a pass yields so many tokens; None where even all its drafts and one are too few."""
    if tokens > drafts + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_of(middle, drafts) < tokens else (low, middle)
    return high


def best_length(passed: Sequence[float], cost: float) -> tuple[int, float]:
    """The draft length that is the fastest, and how many times as fast as ordinary decoding it is reckoned to be.

    `passed` is the share of target passes that accepted a draft at the first place, the second ... of drafts as long as
    it. With its drafts such a pass came to `cost` ordinary passes; one with shorter drafts costs as much less of what
    it costs beyond 1. No length pays where it is 0 and 1.0.
    """
    best, yielded = (0, 1.0), 1.0
    for length, share in enumerate(passed, 1):
        yielded += share
        best = max(best, (length, yielded / (1 + (cost - 1) * length / len(passed))), key=lambda one: one[1])
    return best


def _seconds(steps: Sequence[Step]) -> float:
    """Mean time of the passes."""
    return sum(step.call.milliseconds.total for step in steps) / 1000 / len(steps) if steps else 0.0
