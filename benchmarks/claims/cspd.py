"""CSpD, arXiv 2411.11925: drafts of continuous tokens that a diffusion head draws."""

from benchmarks.claims.conclusion import Conclusion, difference, runs
from engines.models.catalog import MODELS
from traces.schema import Trace


def conclusions(seeds: int) -> list[Conclusion]:
    """Runs with and without one setting, on the field whose distribution is known and on patches of pictures."""
    wide = {"tied": 0, "last": 100}  # a last step as wide as MAR's; nothing is tied but the noise
    aligned, apart = (_acceptance(_runs("toy-field", seeds, align=align, **wide)) for align in (True, False))
    paper = _runs("patch-target", max(seeds // 8, 2), mode="paper", **dict(MODELS["patch-target"].opens))
    return [
        Conclusion(
            "Table 4",
            "Aligned noise makes more drafts pass",
            [difference("acceptance, closed-form field, γ = 4", aligned, apart)],
        ),
        Conclusion(
            "Table 1, acceptance",
            "The paper's rule accepts a quarter to a third of drafts",
            [difference("acceptance of patches, over 0.1", _acceptance(paper), [0.1] * len(paper))],
        ),
        Conclusion(
            "Fig. 8",
            "The share of drafts that is accepted falls with γ",
            [
                difference(
                    "share, γ = 2 over 8",
                    _shares(_runs("toy-field", seeds, gamma=2)),
                    _shares(_runs("toy-field", seeds, gamma=8)),
                )
            ],
        ),
        Conclusion("Table 2", "Harmon gains 1.11 to 2.54 times", needs="Harmon-1.5B and a GPU"),
    ]


def _runs(name: str, count: int, **values: object) -> list[Trace]:
    return runs("cspd", name, [None] * count, **{"gamma": 4, **values})


def _acceptance(traces: list[Trace]) -> list[float]:
    """Of the drafts that were judged."""
    return [trace.summary.accepted / trace.summary.judged for trace in traces]


def _shares(traces: list[Trace]) -> list[float]:
    """Of all drafts, those behind a rejection included."""
    verified = [[step for step in trace.steps if step.call.mode == "verify"] for trace in traces]
    return [
        sum(step.signals["accepted"] for step in steps) / sum(step.signals["window"] for step in steps)
        for steps in verified
    ]
