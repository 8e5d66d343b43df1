"""Effects claimed by each paper, by section, of runs that are decoded here with several seeds."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import correlation, fmean
from typing import Final

from benchmarks._timing import decode, prompts
from benchmarks.claims.claim import NUMBERS, RESULTS, Effect, against, difference, runs, sweep, texts
from draftscope.analysis.block_stats import decode_order, local_ar_ness, router_decisions
from draftscope.analysis.prediction import contributions
from draftscope.analysis.seeds import Estimate
from draftscope.analysis.stats import acceptance_by_position, agreement_by_age, mean_difference, token_difference
from draftscope.engines.models.bundled.catalog import PATCHES
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.traces import read
from draftscope.traces.schema import Trace
from draftscope.visualizers.figures.acceptance import by_detail

WINDOW: Final = 64
YOUNG, OLD = 2, 8
"""Ages of drafts, in iterations, up to and from which acceptance is compared."""
_DRAWN: Final = "drawn: "
"""Prefix of the labels of sampled runs; all others are greedy."""
_OURS: Final = "S2D2, always, block 32"
QUARTER: Final = 0.25
MORE: Final = 3
"""Factor for the number of runs where effects are small: 2 standard errors become 3.5."""
TWICE, MANY, MOST = 2, 8, 16
"""Factors for the number of runs of which only one number is needed. 128 show how passes fall with the strength of
coupling, 1,024 that Gumbel and maximal coupling take about as many."""
IMAGE_MODEL: Final = "studio-image"
"""Bundled model that SCD's claims decode with."""
COMPARABLE: Final = 0.05
"""Share of the passes by which couplings may differ and be comparable; SCD's Table 1 has 567.7 and 568.0 (L = 64)."""
BATCH: Final = 64
"""Pictures that are decoded in lockstep where only their passes are counted."""
RECORDED: Final = Path(__file__).parents[2] / "assets" / "traces"


def scd(seeds: int) -> dict[str, list[Effect]]:
    """SCD, arXiv 2510.24211: Jacobi decoding with coupled drafts.

    Of pictures of `seeds` prompts, decoded with every coupling; numbers of passes are of more of them.
    """
    alone, maximal, gumbel = (_runs(seeds, coupling=name) for name in ("none", "maximal", "gumbel"))
    without = _passes(TWICE * seeds, coupling="none")
    halved = _passes(TWICE * seeds, coupling="maximal", alpha=0.5)
    all_full, all_unhalved = (_passes(MOST * seeds, coupling=name) for name in ("maximal", "gumbel"))
    margin = COMPARABLE * fmean(all_full)
    full, unhalved = all_full[: len(without)], all_unhalved[: len(without)]
    changed = [_changed(trace) for trace in alone]
    one = difference("share changed, one apart, GS-SJD over MC-SJD", map(_changed, gumbel), map(_changed, maximal))
    far, near = ([_changed(trace, 3) for trace in traces] for traces in (maximal, gumbel))
    count = len(changed)  # without correlation its standard error is 1 / sqrt(n - 1), as the spread of n values
    passes = [float(trace.summary.forwards) for trace in alone]
    related = Estimate(correlation(changed, passes), (count / (count - 1)) ** 0.5, count)
    return {
        "Fig. 2": [Effect("correlation", related)],
        "Fig. 3": [
            difference("rise of β, coupled over uncoupled", map(_rise, maximal), map(_rise, alone)),
            difference("β of old drafts, coupled over uncoupled", map(_old, maximal), map(_old, alone)),
        ],
        "Fig. 5": [
            difference("passes, α = 0.5 over 1", halved, full),
            difference("passes, α = 0 over 0.5", without, halved),
        ],
        "Fig. 6": [one, difference("three apart, MC-SJD over GS-SJD", far, near)],
        "Table 1": [
            difference("passes, SJD over MC-SJD", without, full),
            difference("passes, SJD over GS-SJD", without, unhalved),
        ],
        "Tables 1, 2": [
            difference(f"passes, MC-SJD over GS-SJD, with a margin of {margin:.1f}", all_full, all_unhalved, margin)
        ],
    }


def _runs(count: int, **values: object) -> list[Trace]:
    return runs("scd", IMAGE_MODEL, prompts(IMAGE_MODEL, count), window=WINDOW, **values)


def _passes(count: int, **values: object) -> list[float]:
    """Return the passes that each of `count` pictures took; the first have the prompts and seeds of `_runs`."""
    model, found = load_model(IMAGE_MODEL), list[float]()
    numbered = list(enumerate(prompts(IMAGE_MODEL, count)))
    for first in range(0, count, BATCH):
        requests = [
            RunRequest("scd", model, text, seed=seed, settings={"window": WINDOW, **values})
            for seed, text in numbered[first : first + BATCH]
        ]
        found += decode([request.job() for request in requests]).passes
    return found


def _changed(trace: Trace, iterations: int = 1) -> float:
    """Return the mean share of pending drafts that change within `iterations` iterations."""
    return mean_difference(token_difference(trace.steps, iterations)) or 0.0


def _old(trace: Trace) -> float:
    """Mean β of drafts that have been there for long."""
    return fmean(row.mean for row in agreement_by_age(trace.steps) if row.age >= OLD)


def _rise(trace: Trace) -> float:
    """How much larger it is than that of young ones."""
    return _old(trace) - fmean(row.mean for row in agreement_by_age(trace.steps) if row.age <= YOUNG)


def s2d2(seeds: int) -> dict[str, list[Effect]]:
    """S2D2, arXiv 2603.25702: a block-diffusion model that verifies its own drafts.

    Of the quickest settings in sweeps that ship, and of `seeds` problems that are decoded here.
    """
    return {
        "Fig. 3, Table 1, by passes": [
            _tuned("text", "per_pass", "tokens a pass, maths"),
            _tuned("tally", "per_pass", "tokens a pass, tally"),
        ],
        "Fig. 3, Table 1, by the clock": [
            _tuned("text", "per_second", "tokens a second, maths"),
            _tuned("tally", "per_second", "tokens a second, tally"),
        ],
        "Table 4": _estimators(texts("s2d2", MORE * seeds, block=32, mode="sample")),
        "Figs. 2, 5, 6": [_closeness(seeds)],
    }


def _tuned(task: str, number: str, what: str) -> Effect:
    """S2D2 over the quickest setting without verification that is as accurate as decoding token by token.

    As accurate is what is not worse by two standard errors of the difference, problem by problem.
    """
    more_solved = {
        label: against(task, (label, "ordinary"), "solved", "").size
        for label, rows in sweep(task).items()
        if rows[min(rows)].method == "blockwise" and not label.startswith(_DRAWN)
    }
    as_good = [label for label, size in more_solved.items() if size.mean >= -2 * (size.error or 0)]
    best = max(as_good, key=lambda label: fmean(map(NUMBERS[number], sweep(task)[label].values())))
    return against(task, (_OURS, best), number, f"{what}, over {best}")


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
    decisions = [[each for each in router_decisions(trace.steps) if each.accepted is not None] for trace in runs]

    def errors(name: str) -> list[float]:
        return [
            fmean(abs(each.estimates[name] - (each.accepted or 0)) for each in decisions)
            for decisions in decisions
            if decisions
        ]

    margin, entropy, chance = errors("margin"), errors("entropy"), errors("random")
    return [
        difference("error in tokens, entropy over margin", entropy, margin),
        difference("random over entropy", chance, entropy),
    ]


def psd(seeds: int) -> dict[str, list[Effect]]:
    """PSD, arXiv 2605.15609: parallel revealing and drafts of future steps.

    Of depths in a sweep that ships, and of `seeds` problems that are decoded here.
    """
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
    """Return what each mechanism adds to a block in its first and last quarter, in per cent of the block, by run."""

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


def simsd(seeds: int) -> dict[str, list[Effect]]:
    """SimSD, arXiv 2606.02544: how far drafting and verifying distributions are apart, from `benchmarks.verifiers`.

    Nothing is decoded here, whatever `seeds` is.
    """
    rows = json.loads((RESULTS / "verifiers.json").read_text(encoding="utf-8"))["rows"]

    def rises(drafter: str, reported: float) -> Effect:
        first, last = (
            next(row for row in rows if (row["drafter"], row["verifier"], row["draft"]) == (drafter, "eq1", draft))
            for draft in (1, 4)
        )
        blocks = min(first["blocks"], last["blocks"])
        error = math.hypot(first["kl_standard_error"], last["kl_standard_error"])
        rise = last["kl_of_draft"] - first["kl_of_draft"]
        return Effect("nats, fourth draft over first", Estimate(rise, error * blocks**0.5, blocks), reported)

    self_drafted = [row for row in rows if (row["drafter"], row["verifier"]) == ("itself", "eq1")]
    blocks, mean = min(row["blocks"] for row in self_drafted), fmean(row["kl_of_draft"] for row in self_drafted)
    error = math.hypot(*(row["kl_standard_error"] for row in self_drafted)) / len(self_drafted)
    divergence = Effect("nats, mean of four drafts", Estimate(mean, error * blocks**0.5, blocks), 0.089)
    return {"Fig. 3": [divergence, rises("itself", 0.165)], "Fig. 4": [rises("text-draft", 0.0)]}


def cspd(seeds: int) -> dict[str, list[Effect]]:
    """CSpD, arXiv 2411.11925: drafts of continuous tokens that a diffusion head draws.

    Of runs with and without one setting, on the field whose distribution is known and on patches of pictures.
    """
    wide = {"coupled_steps": 0, "last_timestep": 100}  # a last step as wide as MAR's; nothing is tied but the noise
    aligned, apart = (_acceptance(_field(seeds, same_noise_paths=align, **wide)) for align in (True, False))
    pictures = max(seeds // 8, 2)
    paper, loose = (_patches("cspd", pictures, mode="paper", same_noise_paths=align) for align in (True, False))
    whole_pictures = _pictures("cspd-block", pictures)
    whole_paths = _acceptance(whole_pictures)
    published = _patches("cspd", MANY * pictures, mode="paper", same_noise_paths=True)  # 8 pictures do not decide
    short, many = (_shares(_field(seeds, gamma=gamma)) for gamma in (2, 8))
    return {
        "Table 4": [
            difference("acceptance, closed-form field, γ = 4", aligned, apart),
            difference("patches, γ = 4", paper, loose),
        ],
        "Table 6": [
            difference("acceptance of patches, two aligned paths over whole paths", paper, whole_paths),
            difference("over two paths that are not aligned", paper, loose),
        ],
        "Table 1, acceptance": [
            difference("acceptance of patches, over a quarter", published, [0.25] * len(published))
        ],
        "Table 5, Fig. 9": [
            difference("acceptance of recorded patches, third quarter over first", _in_quarter(2), _in_quarter(0))
        ],
        "Fig. 8": [difference("share, γ = 2 over 8", short, many)],
        "Fig. 12": [
            difference("acceptance, whole paths, plainest fifth of a picture over busiest", *_by_detail(whole_pictures))
        ],
        "Table 9": [
            _masked("pictures as asked, %, one token per step over 64", 64),
        ],
    }


def _masked(of: str, per_step: int) -> Effect:
    """How much rarer pictures are as asked with several tokens per step than with one, prompt by prompt."""
    rows = {row["tokens_per_step"]: row for row in json.loads((RESULTS / "masked.json").read_text())["rows"]}
    row, baseline_row = rows[per_step], rows[1]
    worse = baseline_row["as_asked_percent"] - row["as_asked_percent"]
    error = abs(worse / row["as_asked_off_errors"])
    return Effect(of, Estimate(worse, error * row["pictures"] ** 0.5, row["pictures"]))


def _field(count: int, **values: object) -> list[Trace]:
    return runs("cspd", "toy-field", [None] * count, **{"gamma": 4, **values})


def _pictures(method: str, count: int, **values: object) -> list[Trace]:
    return runs(method, "patch-target", [None] * count, **{"gamma": 4, **dict(PATCHES), **values})


def _patches(method: str, count: int, **values: object) -> list[float]:
    return _acceptance(_pictures(method, count, **values))


def _by_detail(traces: Sequence[Trace]) -> tuple[list[float], list[float]]:
    """Return the acceptance rates in the fifth of each picture with the least detail, and in that with the most."""
    plain, busy = list[float](), list[float]()
    for trace in traces:
        tallies = sorted(by_detail(trace))
        fifth = len(tallies) // 5
        for found, part in ((plain, tallies[:fifth]), (busy, tallies[-fifth:])):
            found.append(sum(one.accepted for one in part) / sum(one.judged for one in part))
    return plain, busy


def _in_quarter(quarter: int) -> list[float]:
    """Return the acceptance rate of the drafts verified in a quarter of each recorded picture, from 0."""
    rates = []
    for trace in (read(RECORDED / f"cspd-patch{rule}.json.gz") for rule in ("", "-last", "-paper")):
        tallies = acceptance_by_position(trace.steps, len(trace.output.tokens))
        here = tallies[quarter * len(tallies) // 4 : (quarter + 1) * len(tallies) // 4]
        rates.append(sum(one.accepted for one in here) / max(1, sum(one.judged for one in here)))
    return rates


def _acceptance(traces: list[Trace]) -> list[float]:
    """Return the acceptance rates of verified drafts."""
    return [trace.summary.accepted / trace.summary.judged for trace in traces]


def _shares(traces: list[Trace]) -> list[float]:
    """Return the acceptance rates of all drafts, those after a rejection included."""
    verified = [[step for step in trace.steps if step.call.mode == "verify"] for trace in traces]
    return [
        sum(step.signals["accepted"] for step in steps) / sum(step.signals["window"] for step in steps)
        for steps in verified
    ]
