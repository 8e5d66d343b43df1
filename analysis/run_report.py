"""The report of a run: what it took, and how that compares with another run.

Every sentence, card, table and film about a run takes its numbers and words from here, so that no two of them disagree.
Time per token comes first, then tokens per target pass; both ratios are per token, as runs may differ in length. Times
of different hardware are not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from draftscope.traces.labels import NAMES, is_baseline, labels
from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards

Fidelity = Literal["exact", "lossy", "unknown"]
"""Whether a run follows the distribution of ordinary decoding."""
EVEN: Final = 1.05
"""Ratios up to this, and down to its inverse, are called about equal."""
_METHODS: Final = frozenset(method for method, _, _ in NAMES)
_EXACT: Final = (
    "A draft is accepted with just the probability that makes the tokens follow the model's own distribution, and a "
    "rejected one is drawn again from the residual. So nothing is lost by drafting: both runs are draws from one "
    "distribution. Their random numbers differ, and so the outcome may. Learn has the formulas."
)
_SAME: Final = (
    "Both runs pick by the same rule and the same random numbers at every position, and a draft is accepted only if it "
    "is the token picked there. So drafting changes the number of passes, and nothing else. Learn has the rule."
)


@dataclass(frozen=True)
class RunReport:
    """A run, and the run that it is compared with.

    Args:
        trace: The run.
        base: The run to compare with; None for a run alone.
    """

    trace: Trace
    base: Trace | None = None

    @cached_property
    def passes(self) -> int:
        """Forward passes of the target."""
        return _target_passes(self.trace)

    @cached_property
    def draft_passes(self) -> int:
        """Forward passes of the drafter."""
        return draft_forwards(self.trace.steps)

    @cached_property
    def tokens_per_pass(self) -> float | None:
        """Tokens for every target pass; None for a run without passes."""
        return self.trace.summary.tokens / self.passes if self.passes else None

    @cached_property
    def fidelity(self) -> Fidelity:
        """Whether the run follows the distribution of ordinary decoding; "unknown" for runs of other software."""
        if self.trace.method not in _METHODS or not self.trace.environment.libraries:
            return "unknown"
        return "lossy" if self.trace.note else "exact"

    @cached_property
    def comparable(self) -> bool:
        """Whether there is another run, and both ended by themselves with at least one token."""
        runs = [self.trace, self.base]
        return all(run and run.summary.complete and run.summary.tokens and _target_passes(run) for run in runs)

    @cached_property
    def time_ratio(self) -> float | None:
        """Times as fast per token as the other run; None without times, or if they were taken on different hardware."""
        if not (self.base and self.comparable):
            return None
        run, base = self.trace, self.base
        if (run.environment.device, run.environment.threads) != (base.environment.device, base.environment.threads):
            return None
        return _ratio(run.summary.seconds, base.summary.seconds, run, base)

    @cached_property
    def pass_ratio(self) -> float | None:
        """Tokens for every target pass, over those of the other run."""
        if not (self.base and self.comparable):
            return None
        return _ratio(self.passes, _target_passes(self.base), self.trace, self.base)

    @cached_property
    def query_token_ratio(self) -> float | None:
        """Tokens for every query token, over those of the other run: below 1 where speculation computes more."""
        if not (self.base and self.comparable):
            return None
        return _ratio(self.trace.summary.query_tokens, self.base.summary.query_tokens, self.trace, self.base)

    @property
    def truth(self) -> str:
        """A clause about the output, such as "the same tokens"; empty if nothing is known about it."""
        if self.fidelity == "unknown" or (self.base and is_baseline(self.trace)):
            return ""
        if self.fidelity == "lossy":
            return "not the model's own distribution"
        if self.base is None or not is_baseline(self.base):
            return "the model's own distribution"
        same = self.base.output.tokens == self.trace.output.tokens
        return "the same tokens" if same else "same distribution, another draw"

    @property
    def reason(self) -> str:
        """Why that is so, in one or two sentences; empty where `truth` is."""
        if not self.truth:
            return ""
        if self.fidelity == "lossy":
            return self.trace.note
        return _SAME if self.truth == "the same tokens" else _EXACT

    def counts(self) -> str:
        """Return the target passes, compared with those of the other run; of runs that differ in length, the rates."""
        if self.base is None or not self.comparable:
            return f"{self.passes:,} {self._pass_name()}"
        if self._same_length() and self.passes == _target_passes(self.base):
            return f"{self.passes:,} {self._pass_name()} each"
        if self._same_length():
            return f"{self.passes:,} {self._pass_name()} instead of {_target_passes(self.base):,}"
        base_rate = RunReport(self.base).tokens_per_pass or 0
        is_one = is_baseline(self.base) and base_rate == 1  # the ordinary way, which needs no words
        other = "" if is_one else f" instead of {base_rate:.2f}"
        return f"{self.tokens_per_pass or 0:.2f} tokens per {self._pass_name(1)}{other}"

    def headline(self, than: str = "", computed: tuple[float, float] | None = None) -> str:
        """Return what the run gained over the other one, in one sentence; empty if they cannot be compared.

        Args:
            than: Name of the other run, for a reader who does not see which one it is.
            computed: Times of the other run and of this one on other hardware, in place of those measured.
        """
        if not self.comparable or self.base is None:
            return ""
        counts = self.counts()
        ratio = self.time_ratio if computed is None else _ratio(computed[1], computed[0], self.trace, self.base)
        if ratio is None:
            return f"{counts[:1].upper()}{counts[1:]}{f'; compared with {than}' if than else ''}."
        if 1 / EVEN <= ratio <= EVEN:
            base_name = "ordinary decoding" if is_baseline(self.base) else "the first run"
            speed = f"About as fast as {than or base_name} ({times(ratio)} times)"
        else:
            speed = f"{'Only ' if ratio < 1 else ''}{times(ratio)} times as fast{f' as {than}' if than else ''}"
        return f"{speed}{', computed' if computed else ''}: {counts}."

    def card(self) -> list[tuple[str, str]]:
        """Return the numbers of the headline, each with what it is, and whether the output is exact."""
        rows = list[tuple[str, str]]()
        if self.time_ratio is not None:
            rows.append((f"{times(self.time_ratio)}×", "as fast, measured"))
        tokens = "" if self._same_length() or not self.tokens_per_pass else f" for {self.trace.summary.tokens} tokens"
        rows.append((f"{self.passes:,}", f"{self._pass_name()}{tokens}"))
        if self.truth:
            rows.append((self.fidelity.capitalize(), self.truth.partition(",")[0]))
        return rows

    def message(self, than: str = "") -> dict[str, Any]:
        """Return the record as the player reads it: plain data."""
        return {
            "headline": self.headline(),
            "lead": self.headline(than),
            "card": self.card(),
            "fidelity": self.fidelity,
            "truth": self.truth,
            "reason": self.reason,
        }

    def _same_length(self) -> bool:
        return self.base is not None and self.base.summary.tokens == self.trace.summary.tokens

    def _pass_name(self, count: int | None = None) -> str:
        name = "target pass" if self.draft_passes else "pass"
        return name if (self.passes if count is None else count) == 1 else f"{name}es"


def run_reports(traces: Sequence[Trace]) -> list[RunReport]:
    """Return the report of every run, compared with the first one."""
    return [RunReport(trace, traces[0] if number else None) for number, trace in enumerate(traces)]


def report_messages(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Return the report of every run as the player reads it, compared with the first one."""
    first = labels(traces)[0].replace("Ordinary", "ordinary", 1) if traces else ""
    return [report.message(first) for report in run_reports(traces)]


def times(ratio: float) -> str:
    """Return a ratio with two digits: a third one differs from run to run."""
    return f"{ratio:,.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2f}"


def _target_passes(trace: Trace) -> int:
    return trace.summary.forwards - draft_forwards(trace.steps)


def _ratio(cost: float, base_cost: float, run: Trace, base: Trace) -> float | None:
    if not (cost and base_cost):
        return None
    return (base_cost / base.summary.tokens) / (cost / run.summary.tokens)
