"""Forward passes and time of pictures against ordinary decoding, in pairs on the same machine.

With guidance the model's other default settings apply, too, such as top-k.
"""

import statistics
import sys
from collections.abc import Sequence
from math import hypot
from typing import Final

from benchmarks import _timing as _runs
from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, standard_error, upper_limit
from benchmarks._timing import NAMES, SAME, Pair, decode, job, paired, prompts
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job
from draftscope.traces.labels import COUPLINGS

WINDOWS: Final = (8, 16, 32, 64, 128)
MAIN_WINDOW: Final = 32
MIN_ERRORS: Final = 2.0
"""By which MC-SJD needs fewer passes than SJD, in standard errors: a difference that chance does not explain."""
MAX_OF_VANILLA: Final = 0.35
MODEL: Final = "studio-image"
GUIDANCE: Final = (1.0, 2.0)
"""Scales; 1 is off."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    options = Options("speed", __doc__, device=True, images=12, windows=WINDOWS)
    chosen = options.read(arguments)
    if MAIN_WINDOW not in chosen.windows:
        options.error(f"argument --windows: {chosen.windows} leaves out {MAIN_WINDOW}, which the targets speak of")
    model, captions = load_model(MODEL, chosen.device), prompts(MODEL, chosen.images)
    for decoder in ("ar", "maximal"):
        decode([job(decoder, model, captions[0], 0)])  # load kernels and grow memory pools before anything is timed
    rows = [row for guidance in GUIDANCE for row in table(model, captions, chosen.windows, guidance)]
    finish(chosen, f"{MODELS[MODEL].title}: speed", against_targets(rows, GUIDANCE[0]), rows, model.device)


def table(model: Model, prompts: Sequence[str], windows: Sequence[int], guidance: float) -> list[Row]:
    """Every decoder at one guidance, each paired with ordinary decoding. Pairs of all decoders are interleaved."""
    cells = [(coupling, window) for window in windows for coupling in (*COUPLINGS, SAME)] + [("gsd", MAIN_WINDOW)]
    opens = dict(MODELS[model.card.id].form_defaults) if guidance != 1 else {}

    def run(decoder: str, sample: int, **settings: object) -> Job:
        return job(decoder, model, prompts[sample], sample, **{**opens, "guidance": guidance, **settings})

    pairs = paired(
        (run("ar", sample), {(decoder, window): run(decoder, sample, window=window) for decoder, window in cells})
        for sample in range(len(prompts))
    )
    baselines = [baseline_run for each in pairs.values() for baseline_run, _ in each]
    ordinary = {
        "method": "ar",
        "decoder": NAMES["ar"],
        "guidance": guidance,
        "nfe": statistics.fmean(run.forwards for run in baselines),
        "seconds_median": statistics.median(run.seconds for run in baselines),
    }
    return [ordinary, *(_row(*cell, guidance, each) for cell, each in pairs.items())]


def _row(decoder: str, window: int, guidance: float, pairs: Sequence[Pair]) -> Row:
    return {
        "method": decoder if decoder == "gsd" else "scd",
        "decoder": NAMES[decoder],
        "window": window,
        "guidance": guidance,
        "nfe_standard_error": standard_error([run.forwards for _, run in pairs]),
        **_runs.speed(pairs),
    }


def against_targets(rows: Sequence[Row], guidance: float) -> list[Claim]:
    """Forward passes of MC-SJD at the main window over those of SJD and of ordinary decoding."""
    here = {
        row["decoder"]: row for row in rows if row["guidance"] == guidance and row.get("window") in (None, MAIN_WINDOW)
    }
    plain, coupled, vanilla = (here[NAMES[name]] for name in ("none", "maximal", "ar"))
    counted = f"{coupled['nfe']:.1f} ± {coupled['nfe_standard_error']:.1f} (standard error)"
    apart = (plain["nfe"] - coupled["nfe"]) / hypot(plain["nfe_standard_error"], coupled["nfe_standard_error"])
    against = f"{plain['nfe']:.1f} ± {plain['nfe_standard_error']:.1f}, {coupled['nfe'] / plain['nfe']:.2f} of them"
    name = f"MC-SJD, L = {MAIN_WINDOW}: forward passes"
    return [
        lower_limit(f"{name} fewer than SJD's", apart, MIN_ERRORS, "standard errors", f"{counted} against {against}"),
        upper_limit(
            f"{name} over ordinary decoding's",
            coupled["nfe"] / vanilla["nfe"],
            MAX_OF_VANILLA,
            reason=f"{counted} against {vanilla['nfe']:.1f}",
        ),
    ]


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
