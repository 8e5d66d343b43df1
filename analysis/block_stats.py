"""Statistics of runs that decode text in blocks: routing, decoding order, confidence, verified drafts.

Formulas are those of S2D2 (arXiv 2603.25702), SimSD (arXiv 2606.02544) and, for AR-ness, DiffuCoder (Gong et al. 2025).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Final, TypeAlias

from draftscope.analysis.seeds import Estimate, estimate, over_runs
from draftscope.traces.replay import PENDING, position_updates
from draftscope.traces.schema import Fate, Step

ESTIMATORS: Final = ("random", "entropy", "power", "renyi", "hard_entropy", "margin")
"""Endings of the signals `expected_accepted_*`, in the order of S2D2's Table 4."""
Samples: TypeAlias = defaultdict[int, defaultdict[str, defaultdict[int, list[float]]]]
"""Number of a step -> measure -> run -> the numbers measured."""
SPECULATIVE: Final = frozenset({Fate.ACCEPTED, Fate.RESAMPLED, Fate.BONUS})
"""Fates of tokens that verification made final; they are decoded one after the other, not at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDecision:
    """Decision of the router in a step, and its outcome."""

    step: int
    span: float | None
    """Length of the first run of open positions."""
    expected: float | None
    """Drafts that the router expected to pass."""
    estimates: Mapping[str, float]
    """Estimates of all recorded estimators, by the suffix of their measure."""
    score: float | None
    verify: bool | None
    accepted: int | None = None
    """Drafts that passed; None where nothing was verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorError:
    """Error of an estimator of the accepted prefix over verified steps: expected less accepted (S2D2 Table 4)."""

    name: str
    """Ending of the signal, or "router" for the estimate that the router used."""
    count: int
    mean: float
    deviation: float
    """Standard deviation of the error, of the sample."""
    mean_absolute: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftStep:
    """Draft number `order` of every verification, together (SimSD Fig. 3 and 4)."""

    order: int
    count: int
    means: Mapping[str, float]
    """Measure -> mean over verifications, for those of `kl`, `cross_entropy`, `agrees` that were recorded."""
    errors: Mapping[str, float]
    """Measure -> standard error of that mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoisingStep:
    """The verified drafts of denoising step `number` of all blocks."""

    number: int
    """Counted from 1."""
    drafts: int
    beta: Estimate
    """1 minus the total variation between the distributions that drafted and that verified."""
    kl: Estimate | None
    """KL divergence of the verifying distribution from the drafting one, in nats, where it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The tokens that a step made final, and how sure the model was of them."""

    step: int
    tokens: int
    confidence: float | None
    """Mean probability by which the tokens were chosen, where it is known."""


def router_decisions(steps: Sequence[Step]) -> tuple[RouterDecision, ...]:
    """Return the router's decisions, each with the result of the next verifying pass.

    One pass may decide and verify.
    """
    decisions: list[RouterDecision] = []
    for index, step in enumerate(steps):
        decision = _decision(step, index)
        if decision is not None:
            decisions.append(decision)
        judged = any(fate.judged for fate in step.fate)
        if judged and decisions and decisions[-1].accepted is None and decisions[-1].verify is not False:
            decisions[-1] = replace(decisions[-1], accepted=step.fate.count(Fate.ACCEPTED))
    return tuple(decisions)


def estimator_errors(runs: Iterable[Sequence[Step]]) -> tuple[EstimatorError, ...]:
    """Return the error of every recorded estimator over the verified steps of all runs.

    Only accepted drafts count, without the corrected sample after them.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for steps in runs:
        for decision in router_decisions(steps):
            if decision.accepted is None:
                continue
            for name, expected in decision.estimates.items():
                errors[name].append(expected - decision.accepted)
            if decision.expected is not None and not decision.estimates:
                errors["router"].append(decision.expected - decision.accepted)
    order = {name: index for index, name in enumerate(ESTIMATORS)}
    decisions = []
    for name, values in sorted(errors.items(), key=lambda pair: (order.get(pair[0], len(order)), pair[0])):
        mean, deviation, count = estimate(values)
        absolute = fmean(map(abs, values))
        decisions.append(EstimatorError(name=name, count=count, mean=mean, deviation=deviation, mean_absolute=absolute))
    return tuple(decisions)


def decode_order(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the positions in the order in which they became final, without later edits.

    Tokens of one step are ordered as follows: verified ones in the order of verification or, in a draft graph, by
    level; the others by falling confidence and, if that ties or is unknown, by position.
    """
    order: dict[int, None] = {}
    for step in steps:
        for position in _flattened(step):
            order.setdefault(position)
    return tuple(order)


def local_ar_ness(order: Sequence[int], k: int) -> float:
    """Return the share of tokens that end a run of neighbours decoded from left to right: `local@k` of DiffuCoder.

    Args:
        order: Positions in the order in which they were decoded.
        k: A run has k + 1 tokens.
    """
    follows = [later == earlier + 1 for earlier, later in pairwise(order)]
    runs = [all(follows[start : start + k]) for start in range(len(order) - k)]
    return fmean(runs) if runs else 0.0


def global_ar_ness(order: Sequence[int], k: int) -> float:
    """Return the share of tokens among the leftmost open positions when they were decoded: `global@k` of DiffuCoder.

    Args:
        order: Positions in the order in which they were decoded.
        k: Number of leftmost open positions that count.
    """
    left = sorted(order)
    hits = []
    for position in order:
        hits.append(position in left[:k])
        left.remove(position)
    return fmean(hits) if hits else 0.0


def decoded_by_step(steps: Sequence[Step]) -> tuple[Decoded, ...]:
    """Tokens and confidence of every step that made tokens final (S2D2 Fig. 2, 5, 6).

    The confidence of a token is the measure of that name, else, for a draft that was kept, the probability it was drawn
    with (q), else the confidence of the pending draft before it. A corrected draw has none.
    """
    decoded = []
    pending: dict[int, float] = {}
    for index, step in enumerate(steps):
        known: list[float] = []
        tokens = 0
        for position, outcome in position_updates(step).items():
            confidence = _measure(step, "confidence", outcome.entry)
            if confidence is None and step.q is not None:
                confidence = step.q[outcome.entry]
            if outcome.fate in PENDING and confidence is not None:
                pending[position] = confidence
            if not outcome.fate.final or outcome.fate is Fate.EDITED:
                continue
            tokens += 1
            if confidence is None and outcome.fate is Fate.ACCEPTED:
                confidence = pending.get(position)
            if confidence is not None and outcome.fate is not Fate.RESAMPLED:
                known.append(confidence)
        if tokens:
            decoded.append(Decoded(step=index, tokens=tokens, confidence=fmean(known) if known else None))
    return tuple(decoded)


def by_draft_step(runs: Iterable[Sequence[Step]]) -> tuple[DraftStep, ...]:
    """Return how the verifying distribution differs from the drafting one, by index of the draft in its verification.

    The index counts from 0. It is the measure `order`, or the index of the entry in the step if that is missing.
    """
    values: Samples = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for run, steps in enumerate(runs):
        for step in steps:
            order = step.numbers.get("order", tuple(range(len(step.position))))
            for name in ("kl", "cross_entropy", "agrees"):
                for position, value in zip(order, step.numbers.get(name, ()), strict=False):
                    if position is not None and value is not None:
                        values[round(position)][name][run].append(value)
    return tuple(
        DraftStep(
            order=order,
            count=max(sum(map(len, by_run.values())) for by_run in columns.values()),
            means={name: over_runs([*by_run.values()]).mean for name, by_run in columns.items()},
            errors={name: over_runs([*by_run.values()]).error or 0.0 for name, by_run in columns.items()},
        )
        for order, columns in sorted(values.items())
    )


def agreement_by_denoising_step(runs: Iterable[Sequence[Step]]) -> tuple[DenoisingStep, ...]:
    """Return how near the distributions that draft and that verify are, along the decoding of a block.

    A denoising step of a block is a pass that makes tokens of it final; steps count from 1. Drafts that were dropped
    without a verdict are left out. Empty without verified drafts in blocks whose total variation was recorded.
    """
    values: Samples = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for run, steps in enumerate(runs):
        number: Counter[float] = Counter()
        for step in (step for step in steps if "block" in step.signals and any(fate.final for fate in step.fate)):
            number[step.signals["block"]] += 1
            here = values[number[step.signals["block"]]]
            for name in ("tv", "kl"):
                for fate, value in zip(step.fate, step.numbers.get(name, ()), strict=False):
                    if fate.judged and value is not None:
                        here[name][run].append(value if name == "kl" else 1 - value)
    return tuple(
        DenoisingStep(
            number=number,
            drafts=sum(map(len, columns["tv"].values())),
            beta=over_runs([*columns["tv"].values()]),
            kl=over_runs([*columns["kl"].values()]) if columns.get("kl") else None,
        )
        for number, columns in sorted(values.items())
        if columns.get("tv")
    )


def _decision(step: Step, index: int) -> RouterDecision | None:
    signals = step.signals
    prefix = "expected_accepted_"
    estimates = {name.removeprefix(prefix): value for name, value in signals.items() if name.startswith(prefix)}
    expected, score, verify = (signals.get(name) for name in ("expected_accepted", "score", "verify"))
    if expected is None and score is None and verify is None and not estimates:
        return None
    span, verified = signals.get("span"), None if verify is None else bool(verify)
    return RouterDecision(step=index, span=span, expected=expected, estimates=estimates, score=score, verify=verified)


def _flattened(step: Step) -> Iterator[int]:
    """Positions that the step made final, verified ones first."""
    final = [(position, outcome) for position, outcome in position_updates(step).items() if outcome.fate.final]
    order = "order" if "order" in step.numbers else "level"
    ranked = [
        (False, _measure(step, order, entry) or 0.0, position)
        if fate in SPECULATIVE
        else (True, -(_measure(step, "confidence", entry) or 0.0), position)
        for position, (_, fate, entry) in final
        if fate is not Fate.EDITED
    ]
    yield from (position for *_, position in sorted(ranked))


def _measure(step: Step, name: str, entry: int) -> float | None:
    column = step.numbers.get(name)
    return None if column is None else column[entry]
