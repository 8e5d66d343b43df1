"""Quality of the pictures of the patch models, decoded by the baseline and by each kind of CSpD.

Without guidance, or with the given scales; all decoders get the same prompts. The scores are those of
benchmarks.continuous, and a kernel distance with a permutation test compares with ordinary decoding's pictures.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks._image_quality import as_asked, features, kernel_test, quality_scores, sheet
from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, within_noise_claim
from benchmarks._timing import jobs, prompts
from benchmarks.quality import MIN_AS_ASKED_PERCENT
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.bundled.catalog import PATCHES
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import sample_tokens

TARGET: Final = "patch-target"
GUIDANCE: Final = (1.0,)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A way to decode pictures."""

    method: str = "continuous"
    settings: Mapping[str, object] = field(default_factory=dict)
    model: str = TARGET


DECODERS: Final = {
    "target": Decoder(),
    "CSpD whole paths": Decoder("cspd-block"),
    **{f"CSpD {mode}": Decoder("cspd", {"mode": mode}) for mode in ("exact", "paper", "distance-only")},
    "CSpD as released": Decoder("cspd-release"),
    "draft": Decoder(model="patch-draft"),
    "mixture": Decoder(model="patch-mixture"),
}
"""The first is what drafting is compared with; the last two show what drafts are like."""
EXACT: Final = ("CSpD whole paths", "CSpD exact")


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, grade and report."""
    options = Options("patches", __doc__, device=True, images=128, batch=32, guidance=GUIDANCE, sheet=Path)
    chosen = options.read(arguments)
    captions, rows, drawn = prompts(TARGET, chosen.images), list[Row](), dict[str, Tensor]()
    for guidance in chosen.guidance:
        drawn = pictures(captions, guidance, chosen.batch, chosen.device)
        rows += [row(name, pixels, captions, drawn["target"], guidance) for name, pixels in drawn.items()]
    if chosen.sheet:
        sheet(chosen.sheet, captions, drawn)
    title = "Studio patch models: what pictures show, and how far they are from those of ordinary decoding"
    finish(chosen, title, claims(rows), rows, torch.device(chosen.device))


def pictures(captions: Sequence[str], guidance: float, batch: int, device: str) -> dict[str, Tensor]:
    """Return the pictures of every decoder for the prompts; a mixture has no guidance."""
    drawn: dict[str, Tensor] = {}
    for name, decoder in DECODERS.items():
        if name == "mixture" and guidance != 1:
            continue
        model: Any = load_model(decoder.model, device)
        settings = {**dict(PATCHES), "guidance": guidance, **decoder.settings}
        all_jobs = jobs(decoder.method, model, captions, **settings)
        batches = [all_jobs[i : i + batch] for i in range(0, len(all_jobs), batch)]
        drawn[name] = torch.cat([model.pixels(torch.tensor(sample_tokens(codes))).float().cpu() for codes in batches])
        print(f"{name}, guidance {guidance:g}: {len(captions)} pictures", file=sys.stderr, flush=True)
    return drawn


def row(name: str, pixels: Tensor, captions: Sequence[str], baseline: Tensor, guidance: float) -> Row:
    """The marks of one decoder with standard errors."""
    test = kernel_test(features(pixels), features(baseline))
    return {
        "method": DECODERS[name].method,
        "decoder": name,
        "model": DECODERS[name].model,
        "guidance": guidance,
        "pictures": len(captions),
        **quality_scores(as_asked(pixels, captions), as_asked(baseline, captions)),
        "kernel_distance": test.distance,
        "kernel_p_value": test.p_value,
    }


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Exact decoding agrees with ordinary decoding within the noise, and pictures are what was asked."""
    found = []
    for guidance in dict.fromkeys(float(row["guidance"]) for row in rows):
        by_name: Mapping[str, Row] = {str(row["decoder"]): row for row in rows if row["guidance"] == guidance}
        baseline_pictures, how = by_name["target"], f", guidance {guidance:g}"
        found.append(
            lower_limit(
                f"Patch model, ordinary decoding{how}: pictures that are all as asked",
                baseline_pictures["as_asked_percent"],
                MIN_AS_ASKED_PERCENT,
                "%",
                f"standard error {baseline_pictures['as_asked_error']:.1f} %, {baseline_pictures['pictures']} pictures",
            )
        )
        found += [
            within_noise_claim(
                f"{name}{how}: prompt agreement off ordinary decoding's",
                abs(by_name[name]["as_asked_off_errors"]),
                f"{by_name[name]['as_asked_percent']:.0f} against {baseline_pictures['as_asked_percent']:.0f} %",
            )
            for name in EXACT
        ]
    return found


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
