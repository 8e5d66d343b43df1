"""PSD, arXiv 2605.15609: parallel revealing and drafts of future steps."""

from collections.abc import Sequence
from typing import Final

from benchmarks.claims.conclusion import (
    Conclusion,
    Effect,
    against,
    difference,
    per_pass,
    per_second,
    solved,
    sweep,
    texts,
)
from traces.foresight import contributions
from traces.schema import Trace

QUARTER: Final = 0.25
_OURS, _POLICY = "PSD (Confidence), depth 3", "Confidence"
_TALLY, _TALLY_POLICY = "PSD, block 16, tau 0.9", "confidence, block 16, threshold 0.9"


def conclusions(seeds: int) -> list[Conclusion]:
    """Effects of the shipped sweeps, and of `seeds` problems that are decoded here, for Fig. 6."""
    depths = [sweep("psd")[f"PSD (Confidence), depth {depth}"] for depth in (1, 3, 7)]
    problems = sorted(set.intersection(*(set(rows) for rows in depths)))
    first, third, seventh = ([per_pass(rows[problem]) for problem in problems] for rows in depths)
    gained = [b - a for a, b in zip(first, third, strict=True)]
    more = [b - a for a, b in zip(third, seventh, strict=True)]
    return [
        Conclusion(
            "Fig. 2 to 4, by passes",
            "Drafts of future steps add to what the policy reveals in a pass",
            [
                against("psd", _OURS, _POLICY, per_pass, "tokens a pass, blocks of 16"),
                against(
                    "psd",
                    "PSD (Confidence), block 32, tau 0.99",
                    "Confidence, block 32, threshold 0.99",
                    per_pass,
                    "blocks of 32, threshold 0.99",
                ),
                against("tally", _TALLY, _TALLY_POLICY, per_pass, "tally, blocks of 16"),
            ],
        ),
        Conclusion(
            "Fig. 2 to 4, by the clock",
            "Drafts of future steps make decoding faster",
            [
                against("psd", _OURS, _POLICY, per_second, "tokens a second, blocks of 16"),
                against("tally", _TALLY, _TALLY_POLICY, per_second, "tally, blocks of 16"),
            ],
        ),
        Conclusion(
            "Fig. 2 to 4, accuracy",
            "PSD takes more tokens a pass than greedy decoding and loses no accuracy",
            [
                against("psd", _OURS, "Greedy", per_pass, "tokens a pass"),
                against("psd", _OURS, "Greedy", solved, "accuracy, with a margin of 0.05", margin=0.05),
            ],
        ),
        Conclusion(
            "Section 4.2",
            "Most is gained by depth 3",
            [difference("tokens a pass, depth 1 to 3 over 3 to 7", gained, more)],
        ),
        Conclusion(
            "Fig. 6",
            "Speculation adds most at the end of a block, revealing at its beginning",
            _mechanisms(texts("psd", seeds, block=32)),
        ),
        Conclusion(
            "Fig. 2 to 4, tally",
            "No accuracy is lost against the policy",
            [against("tally", _TALLY, _TALLY_POLICY, solved, "accuracy, with a margin of 0.05", margin=0.05)],
        ),
    ]


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
