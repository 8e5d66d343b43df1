"""Prediction of later passes by one pass over a block, and which mechanism reveals which tokens.

Formulas are those of PSD (arXiv 2605.15609), Fig. 5 and 6, as interpreted in docs/methods/psd.md; draft graphs are
calibrated on the rank sequences. Everything is a pure function of the steps.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product, takewhile
from math import ceil
from statistics import fmean
from typing import Final, NamedTuple

from draftscope.analysis.block_stats import decode_order
from draftscope.analysis.seeds import estimate
from draftscope.traces.replay import PENDING, position_updates
from draftscope.traces.schema import Fate, Step, Token

MECHANISMS: Final = {
    "parallel": frozenset({Fate.UNMASKED}),
    "speculative": frozenset({Fate.ACCEPTED}),
    "corrected": frozenset({Fate.RESAMPLED, Fate.BONUS}),
    "fallback": frozenset({Fate.FALLBACK}),
}
"""How a token came to be final -> its fates."""
_SHARES: Final = ("precision", "precision_best", "coverage", "coverage_best")
STAGES: Final = ("early", "middle", "late")
"""Blocks that are compared: the first, the middle one, the last that is complete."""


class Forecast(NamedTuple):
    """A pass that left positions open, and when they became final."""

    step: int
    candidates: tuple[int, ...]
    """Open positions after the pass, the most confident first."""
    tokens: tuple[Token, ...]
    """Tokens that the pass would have revealed."""
    decoded: tuple[int | None, ...]
    """Passes later in which each became final; None where it never did."""
    unchanged: tuple[bool, ...]
    """Whether it became final with that token."""
    turn: tuple[int | None, ...]
    """Place of each among the candidates by the time it became final, from 0."""


class Foresight(NamedTuple):
    """How well the `size` most confident candidates predict what the next `horizon` passes reveal (PSD Fig. 5)."""

    size: int
    horizon: int
    runs: int
    precision: float
    """Candidates revealed by then, over `size`; rises with the horizon."""
    precision_best: float
    """Precision of candidates chosen with knowledge of the run."""
    coverage: float
    """Candidates revealed by then, over all positions revealed by then; falls with the horizon."""
    coverage_best: float
    precision_error: float
    """Standard errors over runs; 0 for a single one."""
    coverage_error: float


class Contribution(NamedTuple):
    """Tokens of one mechanism at one stage of a block's decoding (PSD Fig. 6)."""

    stage: str
    mechanism: str
    progress: float
    """Middle of the bin, from 0, the block's first pass, to 1, its last."""
    percent: float
    """Tokens in the bin in per cent of the block, averaged over blocks; passes are shared out over bins."""
    error: float
    """Standard error of it over runs; 0 for a single one."""
    blocks: int


def forecasts(steps: Sequence[Step]) -> tuple[Forecast, ...]:
    """The passes that ranked open positions by confidence and left some open."""
    final, order = _final(steps), {position: turn for turn, position in enumerate(decode_order(steps))}
    found = []
    for index, step in enumerate(steps):
        confidence = step.numbers.get("confidence")
        if confidence is None:
            continue
        left = {
            position: (-(confidence[outcome.entry] or 0.0), outcome.token)
            for position, outcome in position_updates(step).items()
            if outcome.fate in PENDING and outcome.token is not None
        }
        candidates = sorted(left, key=lambda position: (left[position][0], position))
        if not candidates:
            continue
        turns = sorted(order[position] for position in candidates if position in final)
        tokens = tuple(left[p][1] for p in candidates)
        decoded = tuple(final[p][0] - index if p in final else None for p in candidates)
        unchanged = tuple(p in final and final[p][1] == left[p][1] for p in candidates)
        turn = tuple(turns.index(order[p]) if p in final else None for p in candidates)
        found.append(Forecast(index, tuple(candidates), tokens, decoded, unchanged, turn))
    return tuple(found)


def rank_sequences(steps: Sequence[Step], max_length: int) -> list[tuple[int, ...]]:
    """Return, for every forecast, the ranks of the next positions to become final, in that order.

    A sequence ends before the first position whose token is another than predicted.

    Args:
        steps: Steps of a run.
        max_length: Longest sequence.

    Returns:
        Ranks from 1, a sequence per forecast.
    """
    sequences = []
    for forecast in forecasts(steps):
        by_turn = {turn: i for i, turn in enumerate(forecast.turn) if turn is not None}
        following = (by_turn[turn] for turn in range(min(max_length, len(by_turn))))
        sequences.append(tuple(i + 1 for i in takewhile(forecast.unchanged.__getitem__, following)))
    return sequences


def foresight(runs: Iterable[Sequence[Step]], sizes: Sequence[int], horizons: Sequence[int]) -> tuple[Foresight, ...]:
    """Return precision and coverage of forecasts: means over the passes of a run, then over runs.

    Args:
        runs: Steps of each run.
        sizes: Numbers of candidates; passes with fewer left are skipped.
        horizons: Numbers of passes to look ahead; passes whose block ends before are skipped.
    """
    records = [forecasts(steps) for steps in runs]
    rows = []
    for size, horizon in product(sizes, horizons):
        scores = [_scores(one, size, horizon) for one in records]
        means = [[fmean(column) for column in zip(*each, strict=True)] for each in scores if each]
        if means:
            shares = dict(zip(_SHARES, map(estimate, zip(*means, strict=True)), strict=True))
            numbers = {name: share.mean for name, share in shares.items()}
            errors = {f"{name}_error": shares[name].error or 0.0 for name in ("precision", "coverage")}
            rows.append(Foresight(size=size, horizon=horizon, runs=len(means), **numbers, **errors))
    return tuple(rows)


def contributions(runs: Iterable[Sequence[Step]], bins: int = 20) -> tuple[Contribution, ...]:
    """Return the tokens of every mechanism along the passes over an early, a middle and a late block of each run.

    Blocks count in per cent of the positions that were open when their decoding began. Pass i of n spans the progress
    from i / n to (i + 1) / n, so that the bins add up to the block however few passes it took.

    Args:
        runs: Steps of each run.
        bins: Intervals of progress.
    """
    tokens: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for steps in runs:
        for stage, passes in _stages(steps).items():
            size = sum(sum(fate.final for fate in step.fate) for step in passes)
            here = {(name, at): 0.0 for name in MECHANISMS for at in range(bins)}
            for index, step in enumerate(passes):
                for name, fates in MECHANISMS.items():
                    percent = 100 * sum(fate in fates for fate in step.fate) / size
                    for at, share in _shares(index, len(passes), bins):
                        here[name, at] += percent * share
            for (name, at), percent in here.items():
                tokens[stage, name, at].append(percent)
    occur = {name for (_, name, _), percents in tokens.items() if any(percents)}
    means = {key: estimate(percents) for key, percents in tokens.items()}
    return tuple(
        Contribution(stage, name, (at + 0.5) / bins, mean.mean, mean.error or 0.0, mean.runs)
        for stage in STAGES
        for name in MECHANISMS
        if name in occur
        for at in range(bins)
        if (mean := means.get((stage, name, at))) is not None
    )


def _shares(index: int, passes: int, bins: int) -> Iterator[tuple[int, float]]:
    """Yield the bins that a pass spans, with the share of the pass in each."""
    start, end = index / passes, (index + 1) / passes
    for at in range(int(start * bins), min(bins, ceil(end * bins))):
        overlap = min(end, (at + 1) / bins) - max(start, at / bins)
        if overlap > 0:
            yield at, overlap * passes


def _final(steps: Sequence[Step]) -> dict[int, tuple[int, Token]]:
    """Position -> the pass in which it became final first, and with which token."""
    first: dict[int, tuple[int, Token]] = {}
    for index, step in enumerate(steps):
        for position, token, fate in zip(step.position, step.token, step.fate, strict=False):
            if fate.final:
                first.setdefault(position, (index, token))
    return first


def _scores(forecasts: Sequence[Forecast], size: int, horizon: int) -> list[tuple[float, float, float, float]]:
    """Return the values named in `_SHARES`, for every pass."""
    scores = []
    for one in forecasts:
        known = [at for at in one.decoded if at is not None]
        if len(one.candidates) < size or not known or max(known) < horizon:
            continue
        revealed = sum(at <= horizon for at in known)
        hits = sum(at is not None and at <= horizon for at in one.decoded[:size])
        best = min(size, revealed)
        if revealed:
            scores.append((hits / size, best / size, hits / revealed, best / revealed))
    return scores


def _stages(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """The passes over an early, a middle and a late block, where each is another one."""
    blocks: dict[float, list[Step]] = defaultdict(list)
    for step in steps:
        if "block" in step.signals and any(fate.final for fate in step.fate):
            blocks[step.signals["block"]].append(step)
    numbers = sorted(blocks)
    if not numbers:
        return {}
    # The last block is left out where the text ended inside it: it may never have been filled.
    indices = {"early": 0, "middle": len(numbers) // 2, "late": len(numbers) - (2 if len(numbers) > 2 else 1)}
    chosen: dict[int, str] = {}
    for stage, index in indices.items():
        chosen.setdefault(index, stage)
    return {stage: blocks[numbers[index]] for index, stage in chosen.items()}
