"""CSpD, arXiv 2411.11925: drafts of continuous tokens that a diffusion head draws."""

from benchmarks.claims.conclusion import Conclusion, difference, runs
from engines.models.catalog import MODELS
from traces.schema import Trace


def conclusions(seeds: int) -> list[Conclusion]:
    """Runs with and without one setting, on the field whose distribution is known and on patches of pictures."""
    wide = {"tied": 0, "last": 100}  # a last step as wide as MAR's; nothing is tied but the noise
    aligned, apart = (_acceptance(_field(seeds, align=align, **wide)) for align in (True, False))
    pictures = max(seeds // 8, 2)
    paper, loose = (_patches("cspd", pictures, mode="paper", align=align) for align in (True, False))
    whole = _patches("cspd-block", pictures)
    return [
        Conclusion(
            "Table 4",
            "Aligned noise makes more drafts pass",
            [
                difference("acceptance, closed-form field, γ = 4", aligned, apart),
                difference("patches, γ = 4", paper, loose),
            ],
        ),
        Conclusion(
            "Table 6",
            "Ratios of whole paths accept next to nothing, those of two aligned paths most",
            [
                difference("acceptance of patches, two aligned paths over whole paths", paper, whole),
                difference("over two paths that are not aligned", paper, loose),
            ],
        ),
        Conclusion(
            "Table 1, acceptance",
            "The paper's rule accepts a quarter to a third of drafts",
            [difference("acceptance of patches, over 0.1", paper, [0.1] * len(paper))],
        ),
        Conclusion(
            "Fig. 8",
            "The share of drafts that is accepted falls with γ",
            [
                difference(
                    "share, γ = 2 over 8",
                    _shares(_field(seeds, gamma=2)),
                    _shares(_field(seeds, gamma=8)),
                )
            ],
        ),
        Conclusion("Table 2", "Harmon gains 1.11 to 2.54 times", needs="Harmon-1.5B and a GPU"),
    ]


def _field(count: int, **values: object) -> list[Trace]:
    return runs("cspd", "toy-field", [None] * count, **{"gamma": 4, **values})


def _patches(method: str, count: int, **values: object) -> list[float]:
    opens = dict(MODELS["patch-target"].opens)
    return _acceptance(runs(method, "patch-target", [None] * count, **{"gamma": 4, **opens, **values}))


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
