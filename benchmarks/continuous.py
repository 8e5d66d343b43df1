"""Continuous speculative decoding against the baseline: acceptance, passes, wall-clock time and quality.

Every drafter and verdict is measured up to four drafts, and the first of both at all draft lengths. Runs alternate with
baseline runs of the same batch; passes and acceptance come from recorded runs with the same seeds, which make the same
decisions. One batch is timed, or `--pictures` single pictures, because drafts for some are accepted more often.

Quality of the closed-form field is the spread of what its cells leave to chance over the exact spread. Quality of
pictures is the share that shows what was requested (benchmarks/_image_quality.py).
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks._image_quality import as_asked
from benchmarks._report_format import Options, Row, finish, spread
from benchmarks._timing import processor_seconds, prompts
from draftscope.analysis.break_even import acceptance_for, tokens_of
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.methods import METHODS, baseline
from draftscope.engines.models.bundled.catalog import PATCHES
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.models.toys.toy_field import ToyField
from draftscope.engines.runtime.driver import Job, run_batch, sample_tokens
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import config_values, settings
from draftscope.traces.schema import Trace
from draftscope.traces.stats import cost_by_role, draft_forwards

DRAFTING: Final = ("cspd-block", "cspd", "cspd-release")
"""Methods to choose from, the default first."""
MODEL: Final = "patch-target"
GAMMAS: Final = (1, 2, 3, 4, 8, 16)
BATCHES: Final = (1, 8)
PICTURES: Final = 6
DRAFTERS: Final = ("small", "mixture")
VERDICTS: Final[Mapping[str, tuple[str, ...]]] = {"verdict": ("block", "maximal"), "mode": ("paper", "exact")}
"""The setting that names a method's rule of acceptance, and its choices that are measured."""
FEW: Final = 4
"""Drafts up to which every drafter and verdict is measured."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    options = Options("continuous", __doc__, device=True, gammas=GAMMAS, batches=BATCHES, pictures=PICTURES)
    options.add_argument("--method", choices=DRAFTING, default=DRAFTING[0])
    chosen = options.read(arguments)
    model: Any = load_model(MODEL, chosen.device)
    opens, rows = dict(PATCHES), []
    for batch in chosen.batches:
        for k, way in enumerate(combinations(chosen.method, MODEL)):
            for gamma in [gamma for gamma in chosen.gammas if k == 0 or gamma <= FEW]:
                jobs = [
                    RunRequest(chosen.method, model, prompt, seed=seed, settings={**opens, "gamma": gamma, **way}).job()
                    for seed, prompt in enumerate(prompts(MODEL, chosen.pictures if batch == 1 else batch))
                ]
                rows.append(measure(jobs, batch))
                setting = ", ".join([f"gamma {gamma}", f"batch {batch}", *way.values()])
                print(f"{setting}: {rows[-1]['faster_median']:.2f} times", file=sys.stderr, flush=True)
    title = f"{MODELS[MODEL].title}: {METHODS[chosen.method].title}"
    finish(chosen, title, [], rows, model.device)


def combinations(method: str, model: str) -> list[dict[str, str]]:
    """Settings of drafter and verdict, as far as method and model have them."""
    known = {setting.name: setting.choices for setting in settings(METHODS[method].config)}
    drafters = [name for name in DRAFTERS if name in known["drafter"] and (name != "mixture" or MODELS[model].mixture)]
    (rule,) = VERDICTS.keys() & known.keys() or [""]
    return [
        {"drafter": drafter, **({rule: choice} if rule else {})}
        for drafter in drafters
        for choice in VERDICTS.get(rule, ("",))
        if (drafter, choice) != ("mixture", "paper")  # the paper's rule compares one Gaussian with one
    ]


def measure(jobs: Sequence[Job], batch: int) -> Row:
    """Speculative runs, `batch` at a time, compared with ordinary decoding of the same batches."""
    values = config_values(jobs[0].config)
    gamma = int(values["gamma"])
    method, config = baseline("continuous-ar", values)
    batches = [jobs[i : i + batch] for i in range(0, len(jobs), batch)]
    traces = [trace for batch in batches for trace in run_batch(batch)]
    seconds: dict[bool, list[float]] = {True: [], False: []}
    drawn: dict[bool, list[Tensor]] = {True: [], False: []}
    for turn, jobs_of_batch in enumerate(batches):
        baseline_jobs = [replace(one, method=method, config=config) for one in jobs_of_batch]
        for speculative in (True, False) if turn % 2 else (False, True):
            start = processor_seconds()
            drawn[speculative].append(torch.tensor(sample_tokens(jobs_of_batch if speculative else baseline_jobs)))
            seconds[speculative].append(processor_seconds() - start)
    judged = sum(trace.summary.judged for trace in traces)
    alpha = sum(trace.summary.accepted for trace in traces) / judged if judged else 1.0
    verified = [step for trace in traces for step in trace.steps if step.call.mode == "verify"]
    drafts = sum(step.signals["window"] for step in verified)
    spent, usually = statistics.fmean(seconds[True]), statistics.fmean(seconds[False])
    cost = {role: each * spent * jobs[0].task.length / usually for role, each in passes(traces).items()}
    needed = cost["verify"] + gamma * cost["draft"]
    return {
        "method": jobs[0].method.name,
        "model": jobs[0].model.card.id,
        "gamma": gamma,
        "drafter": str(values["drafter"]),
        "verdict": str(values.get("verdict", values.get("mode", ""))),
        "batch": batch,
        "acceptance": alpha,
        "accepted_of_drafted": sum(step.signals["accepted"] for step in verified) / drafts,
        "target_calls": statistics.fmean(sum(s.call.role == "target" for s in trace.steps) for trace in traces),
        "draft_calls": statistics.fmean(draft_forwards(trace.steps) for trace in traces),
        "tokens_per_verification": sum(sum(f.final for f in step.fate) for step in verified) / len(verified),
        "tokens_expected": tokens_of(alpha, gamma),
        "draft_cost": cost["draft"],
        "verify_cost": cost["verify"],
        "acceptance_to_break_even": acceptance_for(needed, gamma),
        "seconds_ordinary": usually,
        "seconds": spent,
        **shares(traces),
        **spread([a / b for a, b in zip(seconds[False], seconds[True], strict=True)]).row("faster"),
        **quality(jobs, torch.cat(drawn[True])),
        **{f"{name}_ordinary": value for name, value in quality(jobs, torch.cat(drawn[False])).items()},
    }


def passes(traces: Sequence[Trace]) -> dict[str, float]:
    """Share of the time of a run that one draft takes, and one verification."""
    calls = [step.call for trace in traces for step in trace.steps]
    seconds = {mode: [c.milliseconds.total / c.batch for c in calls if c.mode == mode] for mode in ("draft", "verify")}
    total = sum(call.milliseconds.total / call.batch for call in calls)
    return {mode: len(traces) * statistics.fmean(each) / total for mode, each in seconds.items()}


def shares(traces: Sequence[Trace]) -> dict[str, float]:
    """Shares of the time: both networks, the heads that denoise, and all else, the replacement of drafts included."""
    costs = [cost_by_role(trace.steps) for trace in traces]
    spent = {role: [cost[role].milliseconds for cost in costs if role in cost] for role in ("draft", "target")}
    everything = [times for each in spent.values() for times in each]
    parts = {
        **{role: sum(times.forward for times in each) for role, each in spent.items()},
        "head": sum(times.logits for times in everything),
        "deciding": sum(times.prepare + times.decide for times in everything),
    }
    total = sum(times.total for times in everything)
    return {f"share_{name}": part / total for name, part in parts.items()}


def quality(jobs: Sequence[Job], tokens: Tensor) -> dict[str, float]:
    """Return the spread of decoded `tokens` [B, N, D], or the share of pictures that match their prompts."""
    model: Any = jobs[0].model
    if isinstance(model, ToyField):
        return {"spread": model.spread(tokens.double())}
    pixels = model.pixels(tokens).float().cpu()  # where the classifier is
    agree = as_asked(pixels, [one.prompt for one in jobs]).all(1).double()
    return {"prompt_agreement_percent": 100 * float(agree.mean())}


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
