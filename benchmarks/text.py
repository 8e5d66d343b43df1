"""Accuracy and speed of the text methods against ordinary decoding, block size 1, in pairs on the same problems."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks import _timing as _runs
from benchmarks._accuracy import accuracy
from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, spread, upper_limit
from benchmarks._timing import Pair, decode, paired
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.problems import Problem, problems_of

MODEL: Final = "tally-target"
LENGTH: Final = 160
POLICY: Final = "confidence 0.85, block 8"
PAYS: Final = "PSD 0.85, block 8, rows that pay (ours)"
ORDINARY: Final = "block size 1"

DECODERS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    ORDINARY: ("blockwise", {"block": "1"}),
    "static, 2 a pass": ("blockwise", {"block": "8", "rule": "static", "steps": 4}),
    "dynamic": ("blockwise", {"block": "8", "rule": "dynamic", "steps": 8, "threshold": 0.9}),
    "confidence 0.3, block 4": ("blockwise", {"block": "4", "rule": "confidence", "threshold": 0.3}),
    POLICY: ("blockwise", {"block": "8", "rule": "confidence", "threshold": 0.85}),
    "confidence 0.9, block 16": ("blockwise", {"block": "16", "rule": "confidence", "threshold": 0.9}),
    "S2D2, block 16": ("s2d2", {"block": "16", "router": "always"}),
    "S2D2, block 32": ("s2d2", {"block": "32", "router": "always"}),
    "PSD 0.9, block 16": ("psd", {"block": "16", "tau": 0.9}),
    PAYS: ("psd", {"block": "8", "tau": 0.85, "row_cost": 0.15}),
    "SimSD, one draft a pass": ("simsd", {"block": "8", "gamma": 8, "draft_threshold": 1.0}),
    "SimSD, shared passes (ours)": ("simsd", {"block": "8", "gamma": 8}),
}
"""Decoders by label: a method and its settings."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("text", __doc__, device=True, problems=60).read(arguments)
    model = load_model(MODEL, chosen.device)
    problems = problems_of(MODEL)[: chosen.problems]
    for label in DECODERS:
        decode([job(label, model, problems[0])])  # load kernels and grow memory pools before anything is timed
    rows = table(model, problems)
    claims = [speedup(rows), against_policy(model, problems)]
    finish(chosen, f"{MODELS[MODEL].title}: speed", claims, rows, model.device)


def job(label: str, model: Model, problem: Problem, **more: object) -> Job:
    """A decoder of `DECODERS` on a problem."""
    name, settings = DECODERS[label]
    settings = {**settings, "mode": "greedy", "length": LENGTH, **more}
    return RunRequest(name, model, problem.question, settings=settings).job()


def table(model: Model, problems: Sequence[Problem]) -> list[Row]:
    """Every decoder, each run paired with one at block size 1. Pairs of all decoders are interleaved."""
    others = [label for label in DECODERS if label != ORDINARY]
    pairs = paired(
        (job(ORDINARY, model, problem), {label: job(label, model, problem) for label in others}) for problem in problems
    )
    baseline_pairs = {ORDINARY: [(run, run) for run, _ in pairs[others[0]]]}
    return [_row(label, model, problems, each) for label, each in (baseline_pairs | pairs).items()]


def _row(label: str, model: Model, problems: Sequence[Problem], pairs: Sequence[Pair]) -> Row:
    baseline_forwards = statistics.fmean(baseline.forwards for baseline, _ in pairs)
    return {
        "method": DECODERS[label][0],
        "decoder": label,
        **accuracy(model, [run for _, run in pairs], problems),
        "fewer_target_passes": baseline_forwards
        / statistics.fmean(run.forwards - run.draft_forwards for _, run in pairs),
        **_runs.speed(pairs),
    }


def speedup(rows: Sequence[Row]) -> Claim:
    """How many times as fast as ordinary decoding PSD is, as the page opens it."""
    (row,) = (row for row in rows if row["decoder"] == PAYS)
    solved = f"{row['accuracy']:.1%} solved, at block size 1 {rows[0]['accuracy']:.1%}"
    return lower_limit(f"Text, {PAYS}: speed over {ORDINARY}", row["faster_median"], 2.0, "×", solved)


def against_policy(model: Model, problems: Sequence[Problem]) -> Claim:
    """Time of PSD that feeds a row only if it is expected to gain, over the time of its policy."""
    pairs = paired((job(POLICY, model, problem), {PAYS: job(PAYS, model, problem)}) for problem in problems)[PAYS]
    ratios = [method_run.seconds / policy.seconds for policy, method_run in pairs]
    passes = (statistics.fmean(run.forwards for run in runs) for runs in zip(*pairs, strict=True))
    return upper_limit(
        f"Text, {PAYS}: time over that of {POLICY}",
        statistics.median(ratios),
        1.0,
        reason=f"{' and '.join(f'{each:.2f}' for each in passes)} passes a text, the policy's first; where no further "
        f"row pays, what is left is to find that out; {spread(ratios)}",
    )


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
