"""PSD, arXiv 2605.15609: parallel revealing and drafts of future steps."""

from collections.abc import Sequence
from typing import Final

from benchmarks.claims.conclusion import NUMBERS, Effect, difference, sweep, texts
from traces.foresight import contributions
from traces.schema import Trace

QUARTER: Final = 0.25


def effects(seeds: int) -> dict[str, list[Effect]]:
    """Of depths in a sweep that ships, and of `seeds` problems that are decoded here."""
    depths = [sweep("psd")[f"PSD (Confidence), depth {depth}"] for depth in (1, 3, 7)]
    problems = sorted(set.intersection(*(set(rows) for rows in depths)))
    first, third, seventh = ([NUMBERS["per_pass"](rows[problem]) for problem in problems] for rows in depths)
    gained = [b - a for a, b in zip(first, third, strict=True)]
    more = [b - a for a, b in zip(third, seventh, strict=True)]
    return {
        "Section 4.2": [difference("tokens a pass, depth 1 to 3 over 3 to 7", gained, more)],
        "Fig. 6": _mechanisms(texts("psd", seeds, block=32)),
    }


def _mechanisms(runs: Sequence[Trace]) -> list[Effect]:
    """What each mechanism adds to a block in its first and last quarter, in per cent of the block, run by run."""

    def share(trace: Trace, mechanism: str, start: float) -> float:
        rows = contributions([trace.steps])
        blocks = len({row.stage for row in rows}) or 1
        here = (row for row in rows if row.mechanism == mechanism and start <= row.progress < start + QUARTER)
        return sum(row.percent for row in here) / blocks

    first, last = (
        {name: [share(trace, name, start) for trace in runs] for name in ("parallel", "speculative")}
        for start in (0.0, 1 - QUARTER)
    )
    return [
        difference(
            "per cent of a block, last quarter, speculation over revealing", last["speculative"], last["parallel"]
        ),
        difference("first quarter, revealing over speculation", first["parallel"], first["speculative"]),
    ]
