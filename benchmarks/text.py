"""Accuracy and speed of the text methods against ordinary decoding, block size 1, on the same problems.

    python -m benchmarks.text [--json FILE] [--problems N] [--lockstep N] [--device D]

Every run is timed next to one at block size 1 on the same problem, in alternating order; ratios are formed within such
a pair. Nothing is recorded while a pair is timed.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks import _pairs
from benchmarks._pairs import Pair, gathered, paired
from benchmarks._problems import Problem, held_out, solved
from benchmarks._results import Claim, Row, command, finish, parser, positive, result, spread, standard_error
from benchmarks._runs import Decoded, decode
from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model
from engines.models.devices import add_option
from engines.protocol import Model
from engines.runtime.driver import Job
from traces.streams import piped

MODEL: Final = "text-target"
LENGTH: Final = 96
MOST_OF_POLICY: Final = 1.0
POLICY: Final = "confidence 0.99, block 32"
PAYS: Final = "PSD 0.99, block 32, rows that pay"
ORDINARY: Final = "block size 1"
LARGE: Final = {"block": "32"}

DECODERS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    ORDINARY: ("blockwise", {"block": "1"}),
    "static, 2 a pass": ("blockwise", {"block": "8", "rule": "static", "steps": 4}),
    "dynamic": ("blockwise", {"block": "8", "rule": "dynamic", "steps": 8, "threshold": 0.9}),
    "confidence": ("blockwise", {"block": "8", "rule": "confidence", "threshold": 0.9}),
    "confidence, block 32": ("blockwise", {**LARGE, "rule": "confidence", "threshold": 0.9}),
    POLICY: ("blockwise", {**LARGE, "rule": "confidence", "threshold": 0.99}),
    "S2D2 A": ("s2d2", {**METHODS["s2d2"].presets["SDAR-8B A"], "verdict": "match"}),
    "S2D2 B": ("s2d2", {**METHODS["s2d2"].presets["SDAR-8B B"], "verdict": "match"}),
    "S2D2, block 32": ("s2d2", {**LARGE, "router": "always"}),
    "PSD 0.99, block 32": ("psd", {**METHODS["psd"].presets["PSD (Confidence)"], **LARGE, "tau": 0.99}),
    PAYS: (
        "psd",
        {**METHODS["psd"].presets["PSD (Confidence)"], **LARGE, "tau": 0.99, "row_cost": 0.35},
    ),
    "SimSD": ("simsd", {"block": "8", "gamma": 8}),
}
"""Decoders by label: a method and its settings."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--problems", type=positive, default=500)
    options.add_argument("--lockstep", type=positive, default=16, help="problems of the throughput part")
    add_option(options)
    chosen = options.parse_args(given)
    model = load_model(MODEL, chosen.device)
    problems = held_out()[: chosen.problems]
    for label in DECODERS:
        decode([job(label, model, problems[0])])  # load kernels and grow memory pools before anything is timed
    rows = table(model, problems)
    claims = [against_policy(model, problems), *lockstep(model, held_out()[: chosen.lockstep])]
    finish(result(f"{MODELS[MODEL].title}: speed", command("text", given), claims, rows, model.device), chosen.json)


def job(label: str, model: Model, problem: Problem, **more: object) -> Job:
    """A decoder of `DECODERS` on a problem."""
    name, settings = DECODERS[label]
    config: Any = make_config(METHODS[name].config, {**settings, "mode": "greedy", "length": LENGTH, **more})
    return Job(METHODS[name], model, problem.question, config)


def table(model: Model, problems: Sequence[Problem]) -> list[Row]:
    """Every decoder, each run paired with one at block size 1. Pairs of all decoders are interleaved."""
    others = [label for label in DECODERS if label != ORDINARY]
    pairs = gathered([
        paired(job(ORDINARY, model, problem), {label: job(label, model, problem) for label in others}, turn)
        for turn, problem in enumerate(problems)
    ])  # fmt: skip
    usual = {ORDINARY: [(run, run) for run, _ in pairs[others[0]]]}
    return [_row(label, model, problems, each) for label, each in (usual | pairs).items()]


def _row(label: str, model: Model, problems: Sequence[Problem], pairs: Sequence[Pair]) -> Row:
    right = [float(_right(model, run, problem)) for (_, run), problem in zip(pairs, problems, strict=True)]
    usual = statistics.fmean(baseline.forwards for baseline, _ in pairs)
    return {
        "method": DECODERS[label][0],
        "decoder": label,
        "problems": len(problems),
        "accuracy": statistics.fmean(right),
        "accuracy_standard_error": standard_error(right),
        "fewer_target_passes": usual / statistics.fmean(run.forwards - run.draft_forwards for _, run in pairs),
        **_pairs.speed(pairs),
    }


def _right(model: Model, run: Decoded, problem: Problem) -> bool:
    return solved(model.output(run.tokens[0]).text or "", problem.answer)


def against_policy(model: Model, problems: Sequence[Problem]) -> Claim:
    """PSD that feeds a row only where it pays, by the clock beside the policy that it speeds up."""
    pairs = [
        paired(job(POLICY, model, problem), {PAYS: job(PAYS, model, problem)}, turn)[PAYS]
        for turn, problem in enumerate(problems)
    ]
    ratios = [own.seconds / policy.seconds for policy, own in pairs]
    passes = (statistics.fmean(run.forwards for run in runs) for runs in zip(*pairs, strict=True))
    return Claim(
        name=f"Text, {PAYS}: time over that of {POLICY}",
        measured=statistics.median(ratios),
        bound="at most",
        target=MOST_OF_POLICY,
        reason=f"{' and '.join(f'{each:.2f}' for each in passes)} passes a text, the policy's first; where no further "
        f"row pays, what is left is to find that out; {spread(ratios)}",
    )


def lockstep(model: Model, problems: Sequence[Problem]) -> list[Claim]:
    """What decoding together gains."""
    return [
        _pairs.throughput([job(label, model, problem) for problem in problems], 3, f"Text, {label}", "answers")
        for label in (ORDINARY, "confidence", "S2D2, block 32")
    ]


if __name__ == "__main__":
    sys.exit(piped(main))
