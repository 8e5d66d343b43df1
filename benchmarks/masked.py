"""Masked generation: how much faster and worse pictures get with the tokens per step (CSpD, Table 9).

The marks are those of benchmarks.patches, and every number of tokens per step gets the same prompts.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks._image_quality import as_asked, features, kernel_test, quality_scores, sheet
from benchmarks._report_format import Options, Row, finish
from benchmarks._timing import jobs, processor_seconds, prompts
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.runtime.driver import sample_tokens

MODEL: Final = "patch-masked"
PER_STEP: Final = (1, 2, 4, 8, 16, 32, 64)


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, grade and report."""
    chosen = Options("masked", __doc__, device=True, images=128, batch=32, sheet=Path).read(arguments)
    model: Any = load_model(MODEL, chosen.device)
    captions, rows, drawn = prompts(MODEL, chosen.images), list[Row](), {}
    for parallel in PER_STEP:
        settings = dict(MODELS[MODEL].form_defaults) | {"tokens_per_step": parallel}
        all_jobs = jobs("continuous", model, captions, **settings)
        begun = processor_seconds()
        tokens = [sample_tokens(all_jobs[i : i + chosen.batch]) for i in range(0, len(all_jobs), chosen.batch)]
        seconds = (processor_seconds() - begun) / len(all_jobs)
        pixels = torch.cat([model.pixels(torch.tensor(codes)).float().cpu() for codes in tokens])
        drawn[f"{parallel} per step"] = pixels
        ordinary = drawn[f"{PER_STEP[0]} per step"]
        test = kernel_test(features(pixels), features(ordinary))
        rows.append(
            {
                "method": "continuous",
                "model": MODEL,
                "tokens_per_step": parallel,
                "pictures": len(captions),
                "seconds": seconds,
                "faster": float(rows[0]["seconds"]) / seconds if rows else 1.0,
                **quality_scores(as_asked(pixels, captions), as_asked(ordinary, captions)),
                "kernel_distance": test.distance,
                "kernel_p_value": test.p_value,
            }
        )
        print(f"{parallel} tokens per step: {len(captions)} pictures", file=sys.stderr, flush=True)
    if chosen.sheet:
        sheet(chosen.sheet, captions, drawn)
    finish(chosen, "Masked generation", [], rows, torch.device(chosen.device))


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
