"""CSpD, arXiv 2411.11925: drafts of continuous tokens that a diffusion head draws."""

import json

from benchmarks.claims.conclusion import RESULTS, Conclusion, Effect, difference, runs
from engines.models.catalog import MODELS
from traces.pairing import Estimate
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
        Conclusion(
            "Table 9",
            "Masked generation with more tokens per step costs quality",
            [
                _masked("pictures as asked, %, one token per step over 64", "as_asked", 64),
                _masked("Fréchet-like distance, 64 tokens per step over one", "frechet_like", 64),
                _masked("16 over one", "frechet_like", 16),
            ],
        ),
        Conclusion("Table 2", "Harmon gains 1.11 to 2.54 times", needs="Harmon-1.5B and a GPU"),
    ]


def _masked(of: str, mark: str, per_step: int) -> Effect:
    """How much worse a mark of masked generation is with several tokens per step than with one, prompt by prompt."""
    rows = {row["tokens_per_step"]: row for row in json.loads((RESULTS / "masked.json").read_text())["rows"]}
    row, usual = rows[per_step], rows[1]
    if mark == "as_asked":
        worse = usual["as_asked_percent"] - row["as_asked_percent"]
        error = abs(worse / row["as_asked_off_errors"])
    else:
        worse, error = row["frechet_like_more"], row["frechet_like_more_error"]
    return Effect(of, Estimate(worse, error * row["pictures"] ** 0.5, row["pictures"]))


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
