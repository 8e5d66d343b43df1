"""Forward passes and wall-clock time against ordinary decoding, side by side on the same machine.

    python -m benchmarks.speed [--json FILE] [--images N] [--repeats R] [--guidance S ...] [--device D]

Every accelerated run is timed next to an ordinary one of the same prompt, so that whatever else the machine does falls
on both; ratios are formed within such a pair. The order within pairs alternates. Nothing is recorded while a pair is
timed. Further parts measure what the engine adds to the network, what recording adds, and what lockstep gains.
"""

import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from benchmarks import _parts
from benchmarks._results import Claim, Row, command, finish, parser, positive, result, spread, standard_error
from benchmarks._runs import NAMES, Decoded, decode, job, prompts
from engines.models.catalog import MODELS, load_model
from engines.models.devices import add_option
from engines.protocol import Model
from engines.runtime.driver import Job
from traces.streams import piped

COUPLINGS: Final = ("none", "maximal", "gumbel")
WINDOWS: Final = (8, 16, 32, 64)
MAIN_WINDOW: Final = 32
MOST_OF_SJD: Final = 0.75
MOST_OF_VANILLA: Final = 0.35


@dataclass(frozen=True, slots=True)
class Plan:
    """What every part of the benchmark shares."""

    model: Model
    prompts: list[str]
    repeats: int
    windows: tuple[int, ...]
    together: list[str]
    """Prompts of the throughput part."""

    def pairs(self) -> list[tuple[int, str, bool]]:
        """Sample, prompt and whether the baseline goes first, for every repetition."""
        every = [(sample, prompt) for _ in range(self.repeats) for sample, prompt in enumerate(self.prompts)]
        return [(sample, prompt, i % 2 == 0) for i, (sample, prompt) in enumerate(every)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--images", type=positive, default=12)
    options.add_argument("--repeats", type=positive, default=1)
    options.add_argument("--guidance", type=float, nargs="+", default=[1.0, 3.0], help="1 is off")
    options.add_argument("--windows", type=int, nargs="+", default=list(WINDOWS))
    options.add_argument("--lockstep", type=positive, default=16, help="sequences of the throughput part")
    options.add_argument("--model", choices=MODELS, default="studio-image")
    add_option(options)
    chosen = options.parse_args(given)
    if MAIN_WINDOW not in chosen.windows:
        options.error(f"argument --windows: {chosen.windows} leaves out {MAIN_WINDOW}, which the targets speak of")
    model = load_model(chosen.model, chosen.device)
    asked, together = prompts(chosen.model, chosen.images), prompts(chosen.model, chosen.lockstep)
    plan = Plan(model, asked, chosen.repeats, tuple(chosen.windows), together)
    warm_up(plan)
    rows: list[Row] = []
    for guidance in chosen.guidance:
        rows += table(plan, guidance)
    claims = [*against_targets(rows, chosen.guidance[0])]
    for part in (overhead, tracing, throughput, threads):
        claims += part(plan)
    title = f"{MODELS[chosen.model].title}: speed"
    finish(result(title, command("speed", given), claims, rows, model.device), chosen.json)


def warm_up(plan: Plan) -> None:
    """Load kernels and grow memory pools before anything is timed."""
    for decoder in ("ar", "maximal"):
        decode([job(decoder, plan.model, plan.prompts[0], 0)])


def table(plan: Plan, guidance: float) -> list[Row]:
    """Every decoder at one guidance, each paired with ordinary decoding. Pairs of all decoders are interleaved."""
    cells = [(coupling, window) for window in plan.windows for coupling in COUPLINGS] + [("gsd", MAIN_WINDOW)]
    measured: dict[tuple[str, int], list[tuple[Decoded, Decoded]]] = {cell: [] for cell in cells}
    for sample, prompt, first in plan.pairs():
        ordinary = job("ar", plan.model, prompt, sample, guidance=guidance)
        for cell in cells:
            other = job(cell[0], plan.model, prompt, sample, window=cell[1], guidance=guidance)
            pair = [decode([one]) for one in ((ordinary, other) if first else (other, ordinary))]
            measured[cell].append((pair[0], pair[1]) if first else (pair[1], pair[0]))
    baselines = [baseline for pairs in measured.values() for baseline, _ in pairs]
    rows: list[Row] = [_baseline_row(baselines, guidance)]
    count = len(plan.prompts)
    return rows + [_row(cell, guidance, pairs, count) for cell, pairs in measured.items()]


def _baseline_row(runs: Sequence[Decoded], guidance: float) -> Row:
    seconds = spread([run.seconds for run in runs])
    return {
        "method": "ar",
        "decoder": NAMES["ar"],
        "guidance": guidance,
        "nfe": statistics.fmean(run.forwards for run in runs),
        "seconds_median": seconds.median,
    }


def _row(cell: tuple[str, int], guidance: float, pairs: Sequence[tuple[Decoded, Decoded]], count: int) -> Row:
    """Passes of the first `count` pairs, since repetitions decode the same tokens again; times of all."""
    decoder, window = cell
    forwards = [float(run.forwards) for _, run in pairs[:count]]
    faster = spread([baseline.seconds / run.seconds for baseline, run in pairs])
    fewer = statistics.fmean(baseline.forwards for baseline, _ in pairs) / statistics.fmean(forwards)
    return {
        "method": decoder if decoder == "gsd" else "scd",
        "decoder": NAMES[decoder],
        "window": window,
        "guidance": guidance,
        "nfe": statistics.fmean(forwards),
        "nfe_standard_error": standard_error(forwards),
        "fewer_passes": fewer,
        "seconds_median": spread([run.seconds for _, run in pairs]).median,
        "faster_median": faster.median,
        "faster_low_quartile": faster.low,
        "faster_high_quartile": faster.high,
    }


def against_targets(rows: Sequence[Row], guidance: float) -> list[Claim]:
    """MC-SJD at the main window against SJD and ordinary decoding: passes, and what became of them in time."""
    here = {
        row["decoder"]: row for row in rows if row["guidance"] == guidance and row.get("window") in (None, MAIN_WINDOW)
    }
    plain, coupled, vanilla = (here[NAMES[name]] for name in ("none", "maximal", "ar"))
    counted = f"{coupled['nfe']:.1f} ± {coupled['nfe_standard_error']:.1f} (standard error)"
    quartiles = f"quartiles {coupled['faster_low_quartile']:.2f} to {coupled['faster_high_quartile']:.2f}"
    window = f"L = {MAIN_WINDOW}"
    return [
        Claim(
            name=f"MC-SJD, {window}: forward passes over SJD's",
            measured=coupled["nfe"] / plain["nfe"],
            bound="at most",
            target=MOST_OF_SJD,
            reason=f"{counted} against {plain['nfe']:.1f} ± {plain['nfe_standard_error']:.1f}",
        ),
        Claim(
            name=f"MC-SJD, {window}: forward passes over ordinary decoding's",
            measured=coupled["nfe"] / vanilla["nfe"],
            bound="at most",
            target=MOST_OF_VANILLA,
            reason=f"{counted} against {vanilla['nfe']:.1f}",
        ),
        Claim(
            name=f"MC-SJD, {window}: times faster than ordinary decoding, in time",
            measured=coupled["faster_median"],
            unit="×",
            reason=f"{coupled['fewer_passes']:.2f} times fewer passes of up to {MAIN_WINDOW} tokens each; {quartiles}",
        ),
    ]


def overhead(plan: Plan) -> list[Claim]:
    """See `_parts.overhead`, at the main window."""
    return _parts.overhead(_coupled(plan), f"L = {MAIN_WINDOW}")


def tracing(plan: Plan) -> list[Claim]:
    """See `_parts.tracing`, at the main window."""
    what = f"distances and collisions of {MAIN_WINDOW - 1} pairs of distributions"
    return [_parts.tracing(_coupled(plan), f"L = {MAIN_WINDOW}", what)]


def throughput(plan: Plan) -> list[Claim]:
    """See `_parts.throughput`, for ordinary decoding and at the main window."""
    claims = []
    for decoder in ("ar", "maximal"):
        settings = {} if decoder == "ar" else {"window": MAIN_WINDOW}
        jobs = [job(decoder, plan.model, prompt, sample, **settings) for sample, prompt in enumerate(plan.together)]
        claims.append(_parts.throughput(jobs, plan.repeats, NAMES[decoder], "pictures"))
    return claims


def threads(plan: Plan) -> list[Claim]:
    """What a second thread is worth to one run, by the wall clock; importing `engines` leaves torch with one."""
    usual, claims = torch.get_num_threads(), []
    if plan.model.device.type != "cpu" or (os.cpu_count() or 1) < 2:
        return []
    for decoder in ("ar", "maximal"):
        settings = {} if decoder == "ar" else {"window": MAIN_WINDOW}
        ratios = []
        for sample, prompt, first in plan.pairs():
            one, seconds = job(decoder, plan.model, prompt, sample, **settings), {}
            for count in (1, 2) if first else (2, 1):
                torch.set_num_threads(count)
                begun = time.perf_counter()
                decode([one])
                seconds[count] = time.perf_counter() - begun
            ratios.append(seconds[2] / seconds[1])
        name = NAMES[decoder] if decoder == "ar" else f"{NAMES[decoder]}, L = {MAIN_WINDOW}"
        found = spread(ratios)
        claims.append(
            Claim(name=f"{name}: time with two threads over one", measured=found.median, reason=f"wall clock; {found}")
        )
    torch.set_num_threads(usual)
    return claims


def _coupled(plan: Plan) -> list[Job]:
    return [job("maximal", plan.model, prompt, sample, window=MAIN_WINDOW) for sample, prompt, _ in plan.pairs()]


if __name__ == "__main__":
    sys.exit(piped(main))
