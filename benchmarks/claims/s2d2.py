"""S2D2, arXiv 2603.25702: a block-diffusion model that verifies its own drafts."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from benchmarks.claims.conclusion import NUMBERS, Effect, against, difference, sweep, texts
from traces.schema import Trace
from traces.text_stats import decisions, decode_order, local_ar_ness

_DRAWN = "drawn: "
"""What the labels of runs begin with that draw tokens, where all others take the likeliest."""
_OURS: Final = "S2D2, always, block 32"


def effects(seeds: int) -> dict[str, list[Effect]]:
    """Of the quickest settings in sweeps that ship, and of `seeds` problems that are decoded here."""
    return {
        "Fig. 3, Table 1, by passes": [
            _tuned("text", "per_pass", "tokens a pass, maths"),
            _tuned("tally", "per_pass", "tokens a pass, tally"),
        ],
        "Fig. 3, Table 1, by the clock": [
            _tuned("text", "per_second", "tokens a second, maths"),
            _tuned("tally", "per_second", "tokens a second, tally"),
        ],
        "Table 4": _estimators(texts("s2d2", seeds, block=32, mode="sample")),
        "Figs. 2, 5, 6": [_closeness(seeds)],
    }


def _tuned(task: str, number: str, what: str) -> Effect:
    """S2D2 over the quickest setting without verification that is as accurate as decoding token by token.

    As accurate is what is not worse by two standard errors of the difference, problem by problem.
    """
    usual = [
        label
        for label, rows in sweep(task).items()
        if rows[min(rows)].method == "blockwise" and not label.startswith(_DRAWN)
    ]
    as_good = []
    for label in usual:
        size = against(task, label, "ordinary", "solved", "").size
        if size.mean >= -2 * (size.error or 0):
            as_good.append(label)
    best = max(as_good, key=lambda label: fmean(map(NUMBERS[number], sweep(task)[label].values())))
    return against(task, _OURS, best, number, f"{what}, over {best}")


def _closeness(count: int) -> Effect:
    """Local AR-ness @2 of two tasks, decoded by confidence in blocks of 32."""
    dynamic = {"rule": "confidence", "threshold": 0.9, "block": 32}
    maths, tallies = (
        [
            local_ar_ness(decode_order(trace.steps), 2)
            for trace in texts("blockwise", count, model, length=length, **dynamic)
        ]
        for model, length in (("text-target", 64), ("tally-target", 160))
    )
    return difference("local AR-ness @2, maths over tallies", maths, tallies)


def _estimators(runs: Sequence[Trace]) -> list[Effect]:
    """Differences of mean absolute errors of the accepted prefix, problem by problem."""
    made = [[each for each in decisions(trace.steps) if each.accepted is not None] for trace in runs]

    def errors(name: str) -> list[float]:
        return [fmean(abs(each.estimates[name] - (each.accepted or 0)) for each in some) for some in made if some]

    margin, entropy, chance = errors("margin"), errors("entropy"), errors("random")
    return [
        difference("error in tokens, entropy over margin", entropy, margin),
        difference("random over entropy", chance, entropy),
    ]
