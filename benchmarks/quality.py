"""Whether accelerated pictures are as good: prompt agreement and likelihood under the model, against ordinary decoding.

Agreement is what a classifier trained apart reads off a picture. Likelihood is the mean number of bits per token that
the model itself gives to what was decoded: a method that sharpens the distribution shows in it first. All decoders get
the same prompts; differences are in standard errors of the difference.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmarks._image_quality import as_asked, quality_scores, sheet
from benchmarks._report_format import (
    Claim,
    Options,
    Row,
    finish,
    lower_limit,
    paired_z_score,
    standard_error,
    within_noise_claim,
)
from benchmarks._timing import NAMES, decode, jobs, prompts
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.bundled.image import FOLDER, ID, StudioImage, load
from draftscope.engines.models.bundled.manifest import entry_of
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.runtime.driver import Job, open_session
from draftscope.traces.labels import COUPLINGS

LOSSLESS: Final = tuple(COUPLINGS)
DECODERS: Final = ("ar", *LOSSLESS, "gsd")
MIN_AS_ASKED_PERCENT: Final = 90.0
WINDOW: Final = 32
BATCH: Final = 32
"""Sequences in lockstep."""


class Pictures(NamedTuple):
    """Pictures of a decoder for the prompts, and their scores."""

    pixels: Float[Tensor, "N 3 S S"]
    right: Bool[Tensor, "N 2"]
    """For thing and scene, whether the classifier reads what the prompt says."""
    bits: list[float]
    """A token, of each picture."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, grade and report."""
    chosen = Options("quality", __doc__, device=True, images=192, sheet=Path).read(arguments)
    model = load(device=chosen.device)
    captions, pictures = prompts(ID, chosen.images), dict[str, Pictures]()
    for decoder in DECODERS:
        window = {} if decoder == "ar" else {"window": WINDOW}
        pictures[decoder] = draw(jobs(decoder, model, captions, **dict(MODELS[ID].form_defaults), **window))
    rows = [row(decoder, pictures[decoder], pictures["ar"]) for decoder in DECODERS]
    if chosen.sheet:
        sheet(chosen.sheet, captions, {NAMES[name]: drawn.pixels for name, drawn in pictures.items()})
    title = "Studio image model, 96x96: prompt agreement and likelihood"
    finish(chosen, title, claims(rows), rows, model.device)


def draw(jobs: Sequence[Job]) -> Pictures:
    """Decode jobs, `BATCH` in lockstep, and mark every picture."""
    model = jobs[0].model
    assert isinstance(model, StudioImage)
    pixels, bits = list[Tensor](), list[float]()
    for first in range(0, len(jobs), BATCH):
        batch = jobs[first : first + BATCH]
        codes = torch.tensor(decode(batch).tokens)
        pixels.append(model.pixels(codes).float().cpu())
        bits += bits_per_token(batch, codes)
    stacked = torch.cat(pixels)
    return Pictures(stacked, as_asked(stacked, [one.prompt for one in jobs]), bits)


def bits_per_token(jobs: Sequence[Job], codes: Tensor) -> list[float]:
    """- log2 of the probability of each sequence [B, N] under its distribution without top-k, over its length."""
    first = jobs[0]
    session = open_session(jobs)
    tokens = codes.to(first.model.device)
    requests = {i: ProbsRequest(row, num_final=0, num_cached=0) for i, row in enumerate(tokens)}
    full = replace(first.config, top_k=0)  # a token at the border of top-k may fall outside it in another batch
    answers = session.forward(requests, full, lambda *_: None)
    probs = torch.stack([answers[i].value[: tokens.shape[1]] for i in requests])
    bits = -probs.gather(-1, tokens[..., None]).squeeze(-1).log2().mean(-1)
    return [float(value) for value in bits]


def row(decoder: str, graded: Pictures, ordinary: Pictures) -> Row:
    """The marks of one decoder with standard errors."""
    figures = {
        "method": decoder if decoder in ("ar", "gsd") else "scd",
        "decoder": NAMES[decoder],
        "pictures": len(graded.bits),
        **quality_scores(graded.right, ordinary.right),
        "bits_per_token": statistics.fmean(graded.bits),
        "bits_per_token_error": standard_error(graded.bits),
        "bits_off_errors": paired_z_score(graded.bits, ordinary.bits),
    }
    return {name: value for name, value in figures.items() if decoder != "ar" or not name.endswith("_off_errors")}


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Lossless decoders have to agree with ordinary decoding within the noise; GSD is reported."""
    by_name = {str(row["decoder"]): row for row in rows}
    vanilla, lossless = by_name[NAMES["ar"]], [by_name[NAMES[name]] for name in LOSSLESS]
    found = [together([vanilla, *lossless])]
    for figure, title, value in (
        ("as_asked", "prompt agreement", "as_asked_percent"),
        ("bits", "bits per token", "bits_per_token"),
    ):
        worst = max(lossless, key=lambda row: abs(row[f"{figure}_off_errors"]))
        found.append(
            within_noise_claim(
                f"SJD, MC-SJD and GS-SJD: {title} off ordinary decoding's, the worst of three",
                abs(worst[f"{figure}_off_errors"]),
                f"{worst['decoder']} {worst[value]:.3g} against {vanilla[value]:.3g}",
            )
        )
    return found


def together(rows: Sequence[Row]) -> Claim:
    """Pictures as asked by all decoders that follow one distribution: a smaller error than any of them has alone."""
    count = sum(row["pictures"] for row in rows)
    share = sum(row["pictures"] * row["as_asked_percent"] for row in rows) / count
    error = math.sqrt(share * (100 - share) / count)
    each = ", ".join(f"{row['decoder']} {row['as_asked_percent']:.1f}" for row in rows)
    readable = 100 * entry_of(FOLDER, "image-classifier", ID)["metrics"]["thing_accuracy_reconstructions"]
    return lower_limit(
        "The four decoders of one distribution together: pictures that are all as asked",
        share,
        MIN_AS_ASKED_PERCENT,
        "%",
        f"{each}; standard error {error:.1f} %, {count} pictures; of held-out composites that went through the "
        f"tokenizer the classifier reads {readable:.0f} % of the things aright",
    )


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
