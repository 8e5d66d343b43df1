"""Forward passes and wall-clock time against ordinary decoding, side by side on the same machine.

    python -m benchmarks.speed [--json FILE] [--images N] [--repeats R] [--guidance S ...] [--device D]

Every accelerated run is timed next to an ordinary one of the same prompt, so that whatever else the machine does falls
on both; ratios are formed within such a pair. The order within pairs alternates. Nothing is recorded while a pair is
timed. With guidance, what else a form opens with holds, too, such as top-k. A further part measures what lockstep
gains.
"""

import statistics
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks import _runs
from benchmarks._results import Claim, Options, Row, at_most, finish, positive, spread, standard_error
from benchmarks._runs import NAMES, SAME, Pair, decode, job, paired, prompts
from engines.models.catalog import MODELS, load_model
from engines.models.devices import add_option
from engines.protocol import Model
from engines.runtime.driver import Job
from traces.naming import COUPLINGS
from traces.streams import piped

WINDOWS: Final = (8, 16, 32, 64, 128)
MAIN_WINDOW: Final = 32
MOST_OF_SJD: Final = 0.75
MOST_OF_VANILLA: Final = 0.35


class Plan(NamedTuple):
    """What every part of the benchmark shares."""

    model: Model
    prompts: list[str]
    repeats: int
    windows: tuple[int, ...]
    together: list[str]
    """Prompts of the throughput part."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    options = Options("speed", __doc__)
    options.add_argument("--images", type=positive, default=12)
    options.add_argument("--repeats", type=positive, default=1)
    options.add_argument("--guidance", type=float, nargs="+", default=[1.0, 2.0], help="1 is off")
    options.add_argument("--windows", type=int, nargs="+", default=list(WINDOWS))
    options.add_argument("--lockstep", type=positive, default=16, help="sequences of the throughput part")
    options.add_argument("--model", choices=MODELS, default="studio-image")
    add_option(options)
    chosen = options.read(arguments)
    if MAIN_WINDOW not in chosen.windows:
        options.error(f"argument --windows: {chosen.windows} leaves out {MAIN_WINDOW}, which the targets speak of")
    model = load_model(chosen.model, chosen.device)
    alone, together = prompts(chosen.model, chosen.images), prompts(chosen.model, chosen.lockstep)
    plan = Plan(model, alone, chosen.repeats, tuple(chosen.windows), together)
    for decoder in ("ar", "maximal"):
        decode([job(decoder, model, alone[0], 0)])  # load kernels and grow memory pools before anything is timed
    rows = [row for guidance in chosen.guidance for row in table(plan, guidance)]
    claims = [*against_targets(rows, chosen.guidance[0]), *throughput(plan)]
    finish(chosen, f"{MODELS[chosen.model].title}: speed", claims, rows, model.device)


def table(plan: Plan, guidance: float) -> list[Row]:
    """Every decoder at one guidance, each paired with ordinary decoding. Pairs of all decoders are interleaved."""
    cells = [(coupling, window) for window in plan.windows for coupling in (*COUPLINGS, SAME)] + [("gsd", MAIN_WINDOW)]
    samples = list(enumerate(plan.prompts)) * plan.repeats
    opens = dict(MODELS[plan.model.card.id].opens) if guidance != 1 else {}

    def run(decoder: str, sample: int, prompt: str, **settings: object) -> Job:
        return job(decoder, plan.model, prompt, sample, **{**opens, "guidance": guidance, **settings})

    pairs = paired(
        (run("ar", *one), {(decoder, window): run(decoder, *one, window=window) for decoder, window in cells})
        for one in samples
    )
    baselines = [usual for each in pairs.values() for usual, _ in each]
    ordinary = {
        "method": "ar",
        "decoder": NAMES["ar"],
        "guidance": guidance,
        "nfe": statistics.fmean(run.forwards for run in baselines),
        "seconds_median": spread([run.seconds for run in baselines]).median,
    }
    return [ordinary, *(_row(cell, guidance, each, len(plan.prompts)) for cell, each in pairs.items())]


def _row(cell: tuple[str, int], guidance: float, pairs: Sequence[Pair], count: int) -> Row:
    """Passes and times of a decoder; the first `count` pairs are of different prompts, the others repeat them."""
    decoder, window = cell
    return {
        "method": decoder if decoder == "gsd" else "scd",
        "decoder": NAMES[decoder],
        "window": window,
        "guidance": guidance,
        "nfe_standard_error": standard_error([run.forwards for _, run in pairs[:count]]),
        **_runs.speed(pairs),
    }


def against_targets(rows: Sequence[Row], guidance: float) -> list[Claim]:
    """Forward passes of MC-SJD at the main window over those of SJD and of ordinary decoding."""
    here = {
        row["decoder"]: row for row in rows if row["guidance"] == guidance and row.get("window") in (None, MAIN_WINDOW)
    }
    plain, coupled, vanilla = (here[NAMES[name]] for name in ("none", "maximal", "ar"))
    counted = f"{coupled['nfe']:.1f} ± {coupled['nfe_standard_error']:.1f} (standard error)"
    window = f"L = {MAIN_WINDOW}"
    return [
        at_most(
            f"MC-SJD, {window}: forward passes over SJD's",
            coupled["nfe"] / plain["nfe"],
            MOST_OF_SJD,
            reason=f"{counted} against {plain['nfe']:.1f} ± {plain['nfe_standard_error']:.1f}",
        ),
        at_most(
            f"MC-SJD, {window}: forward passes over ordinary decoding's",
            coupled["nfe"] / vanilla["nfe"],
            MOST_OF_VANILLA,
            reason=f"{counted} against {vanilla['nfe']:.1f}",
        ),
    ]


def throughput(plan: Plan) -> list[Claim]:
    """See `_runs.throughput`, for ordinary decoding and at the main window."""
    claims = []
    for decoder in ("ar", "maximal"):
        settings = {} if decoder == "ar" else {"window": MAIN_WINDOW}
        jobs = [job(decoder, plan.model, prompt, sample, **settings) for sample, prompt in enumerate(plan.together)]
        claims.append(_runs.throughput(jobs, plan.repeats, NAMES[decoder], "pictures"))
    return claims


if __name__ == "__main__":
    sys.exit(piped(main))
