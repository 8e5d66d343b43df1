"""SJD, MC-SJD and GS-SJD on the closed-form raster: the picture of the SCD paper without any weights.

The figures must come out within 5 % of REFERENCE: what another implementation of the same three methods, and for short
windows the released loops, gave on the same raster. Coupling then does here what it should.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from benchmarks._report_format import Claim, Options, finish, standard_error, upper_limit
from benchmarks._timing import NAMES, job
from draftscope.analysis.stats import mean_difference, measured, token_difference
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import run_batch
from draftscope.traces.schema import Trace

MODEL: Final = "toy-raster"
REFERENCE: Final = {
    1: {"none": 188.4},
    3: {"maximal": 136.1},
    7: {"maximal": 94.2, "gumbel": 95.2},
    16: {"none": 87.7, "maximal": 63.4, "gumbel": 63.2},
    32: {"none": 82.0, "maximal": 45.0, "gumbel": 45.5},
    64: {"none": 85.0, "maximal": 36.0, "gumbel": 36.6},
}
"""Drafts -> coupling -> forward passes, measured before: below 16 drafts with the samplers and loops that SJD and SCD
released, else with an independent implementation, 48 images."""
BAND_PERCENT: Final = 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, compare and report."""
    options = Options("toy", __doc__, images=192)
    options.add_argument("--drafts", type=int, nargs="+", choices=REFERENCE, default=list(REFERENCE))
    chosen = options.read(arguments)
    rows = [vanilla(chosen.images)]
    for drafts in chosen.drafts:
        rows += [coupled(coupling, drafts, chosen.images) for coupling in REFERENCE[drafts]]
    finish(chosen, "Toy raster, 16x16", [against_reference(rows)], rows)


def decoded(decoder: str, images: int, **settings: object) -> list[Trace]:
    """Traces of `images` rasters, decoded in lockstep."""
    model = load_model(MODEL, "cpu")  # passes are counted here, not timed
    return run_batch([job(decoder, model, "", sample, **settings) for sample in range(images)])


def vanilla(images: int) -> dict[str, Any]:
    """Ordinary decoding takes one pass a token, which is counted and not assumed."""
    forwards = [float(trace.summary.forwards) for trace in decoded("ar", images)]
    return {"method": "ar", "decoder": NAMES["ar"], "images": images, "nfe": statistics.fmean(forwards)}


def coupled(coupling: str, drafts: int, images: int) -> dict[str, Any]:
    """One cell of the table; a window is the last final token and the drafts."""
    traces = decoded(coupling, images, window=drafts + 1, initial_drafts="random")
    forwards = [float(trace.summary.forwards) for trace in traces]
    expected = REFERENCE[drafts][coupling]
    mean = statistics.fmean(forwards)
    return {
        "method": "scd",
        "decoder": NAMES[coupling],
        "drafts": drafts,
        "images": images,
        "nfe": mean,
        "nfe_standard_error": standard_error(forwards),
        "nfe_reference": expected,
        "off_percent": 100 * abs(mean / expected - 1),
        **changes(traces),
    }


def changes(traces: Sequence[Trace]) -> dict[str, float]:
    """How much windows change from pass to pass, averaged over the traces; of a short window no draft stays."""
    figures: dict[str, list[float]] = defaultdict(list)
    for steps in (trace.steps for trace in traces):
        for name, distance in (("token_difference", 1), ("hamming_2", 2), ("hamming_3", 3)):
            if (mean := mean_difference(token_difference(steps, distance))) is not None:
                figures[name].append(mean)
        if variation := [value for (value,) in measured(steps, "tv")]:
            figures["mean_total_variation"].append(statistics.fmean(variation))
    return {name: statistics.fmean(values) for name, values in figures.items()}


def against_reference(rows: Sequence[dict[str, Any]]) -> Claim:
    """The cell that lies farthest from the reference."""
    worst = max((row for row in rows if "off_percent" in row), key=lambda row: row["off_percent"])
    return upper_limit(
        "Toy raster: forward passes off the reference measured before, worst of all couplings and windows",
        worst["off_percent"],
        BAND_PERCENT,
        "%",
        f"{worst['decoder']}, {worst['drafts']} drafts: {worst['nfe']:.1f} ± {worst['nfe_standard_error']:.1f} "
        f"(standard error) against {worst['nfe_reference']}",
    )


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
