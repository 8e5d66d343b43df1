"""CSpD, arXiv 2411.11925: drafts of continuous tokens that a diffusion head draws."""

import json

from benchmarks.claims.conclusion import RESULTS, Effect, difference, runs
from engines.models.catalog import MODELS
from traces.pairing import Estimate
from traces.schema import Trace


def effects(seeds: int) -> dict[str, list[Effect]]:
    """Of runs with and without one setting, on the field whose distribution is known and on patches of pictures."""
    wide = {"tied": 0, "last": 100}  # a last step as wide as MAR's; nothing is tied but the noise
    aligned, apart = (_acceptance(_field(seeds, align=align, **wide)) for align in (True, False))
    pictures = max(seeds // 8, 2)
    paper, loose = (_patches("cspd", pictures, mode="paper", align=align) for align in (True, False))
    whole = _patches("cspd-block", pictures)
    few, many = (_shares(_field(seeds, gamma=gamma)) for gamma in (2, 8))
    return {
        "Table 4": [
            difference("acceptance, closed-form field, γ = 4", aligned, apart),
            difference("patches, γ = 4", paper, loose),
        ],
        "Table 6": [
            difference("acceptance of patches, two aligned paths over whole paths", paper, whole),
            difference("over two paths that are not aligned", paper, loose),
        ],
        "Table 1, acceptance": [difference("acceptance of patches, over 0.1", paper, [0.1] * len(paper))],
        "Fig. 8": [difference("share, γ = 2 over 8", few, many)],
        "Table 9": [
            _masked("pictures as asked, %, one token per step over 64", "as_asked", 64),
            _masked("Fréchet-like distance, 64 tokens per step over one", "frechet_like", 64),
            _masked("16 over one", "frechet_like", 16),
        ],
    }


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
