"""Whether accelerated pictures are as good: prompt agreement and likelihood under the model, against ordinary decoding.

    python -m benchmarks.quality [--json FILE] [--images N] [--sheet FILE.png] [--device D]

A classifier that was trained apart from the model reads garment, tint and background off every picture. The second
figure is the mean number of bits per token that the model itself gives to what was decoded: for a lossless method it is
the same as for ordinary decoding, and a method that sharpens the distribution shows in it first. All decoders get the
same prompts; differences from ordinary decoding are given in standard errors of the difference.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from benchmarks._pictures import SLOTS, right, sheet
from benchmarks._results import Claim, Row, command, finish, off, parser, positive, result, standard_error
from benchmarks._runs import NAMES, decode, job, prompts
from engines.ar.request import Forward
from engines.models.devices import add_option
from engines.models.shipped import entry_of
from engines.models.studio.image import FOLDER, ID, StudioImage, load
from engines.runtime.driver import Job, open_session
from traces.streams import piped

LOSSLESS: Final = ("none", "maximal", "gumbel")
MOST_STANDARD_ERRORS: Final = 3.0
LEAST_AS_ASKED_PERCENT: Final = 70.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One decoded picture and its marks."""

    prompt: str
    pixels: Tensor
    """[3, 96, 96] in [-1, 1]."""
    right: tuple[bool, ...]
    """For each of SLOTS, whether the classifier reads what the prompt says."""
    bits_per_token: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, judge and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--images", type=positive, default=192, help="pictures of every decoder")
    options.add_argument("--batch", type=positive, default=32, help="sequences in lockstep")
    options.add_argument("--window", type=positive, default=32)
    options.add_argument("--guidance", type=float, default=1.0)
    options.add_argument("--sheet", type=Path, help="also draw a few pictures of every decoder into this PNG")
    add_option(options)
    chosen = options.parse_args(given)
    model = load(device=chosen.device)
    samples: dict[str, list[Sample]] = {}
    for decoder in NAMES:
        settings = {"guidance": chosen.guidance} | ({} if decoder == "ar" else {"window": chosen.window})
        asked = prompts(ID, chosen.images)
        jobs = [job(decoder, model, prompt, sample, **settings) for sample, prompt in enumerate(asked)]
        samples[decoder] = [
            one for i in range(0, len(jobs), chosen.batch) for one in judged(jobs[i : i + chosen.batch])
        ]
    rows = [row(decoder, samples[decoder], samples["ar"]) for decoder in NAMES]
    if chosen.sheet:
        chosen.sheet.parent.mkdir(parents=True, exist_ok=True)
        columns = {NAMES[name]: torch.stack([sample.pixels for sample in own]) for name, own in samples.items()}
        sheet(prompts(ID, chosen.images), columns).save(chosen.sheet, optimize=True)
    title = "Studio image model, 96x96: prompt agreement and likelihood"
    finish(result(title, command("quality", given), claims(rows), rows, model.device), chosen.json)


def judged(jobs: Sequence[Job]) -> list[Sample]:
    """Decode jobs in lockstep and mark every picture."""
    model = jobs[0].model
    assert isinstance(model, StudioImage)
    codes = torch.tensor(decode(jobs).tokens)
    pixels = model.pixels(codes).float().cpu()
    marks = right(pixels, [one.prompt for one in jobs])
    return [
        Sample(one.prompt, picture, tuple(mark.tolist()), bits)
        for one, picture, mark, bits in zip(jobs, pixels, marks, bits_per_token(jobs, codes), strict=True)
    ]


def bits_per_token(jobs: Sequence[Job], codes: Tensor) -> list[float]:
    """- log2 of the probability of each sequence [B, N] under the distribution it was decoded from, over its length."""
    first = jobs[0]
    session = open_session(jobs)
    tokens = codes.to(first.model.device)
    requests = {lane: Forward(row, done=0, cached=0) for lane, row in enumerate(tokens)}
    answers = session.answer(requests, first.config, lambda *_: None)
    probs = torch.stack([answers[lane][: tokens.shape[1]] for lane in requests])
    bits = -probs.gather(-1, tokens[..., None]).squeeze(-1).log2().mean(-1)
    return [float(value) for value in bits]


def row(decoder: str, samples: Sequence[Sample], baseline: Sequence[Sample]) -> Row:
    """The marks of one decoder with standard errors."""
    marks = {slot: [float(sample.right[i]) for sample in samples] for i, slot in enumerate(SLOTS)}
    bits = [sample.bits_per_token for sample in samples]
    whole = [float(all(sample.right)) for sample in samples]
    figures: dict[str, object] = {
        "method": decoder if decoder in ("ar", "gsd") else "scd",
        "decoder": NAMES[decoder],
        "pictures": len(samples),
    }
    figures |= {f"{slot}_percent": 100 * statistics.fmean(values) for slot, values in marks.items()}
    figures |= {"all_three_percent": 100 * statistics.fmean(whole), "all_three_error": 100 * standard_error(whole)}
    figures |= {"bits_per_token": statistics.fmean(bits), "bits_per_token_error": standard_error(bits)}
    if decoder != "ar":
        theirs = [float(all(sample.right)) for sample in baseline]
        figures["all_three_off_errors"] = off(whole, theirs)
        figures["bits_off_errors"] = off(bits, [sample.bits_per_token for sample in baseline])
    return figures


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Lossless decoders have to agree with ordinary decoding within the noise; GSD is reported."""
    by_name = {str(row["decoder"]): row for row in rows}
    vanilla = by_name[NAMES["ar"]]
    made = [
        Claim(
            name="Ordinary decoding: pictures whose garment, tint and background are all as asked",
            measured=vanilla["all_three_percent"],
            unit="%",
            reason=", ".join(f"{slot} {vanilla[f'{slot}_percent']:.0f} %" for slot in SLOTS)
            + f"; standard error {vanilla['all_three_error']:.1f} %, {vanilla['pictures']} pictures",
        ),
        together([vanilla, *(by_name[NAMES[name]] for name in LOSSLESS)]),
    ]
    for figure, title, value in (
        ("all_three", "prompt agreement", "all_three_percent"),
        ("bits", "bits per token", "bits_per_token"),
    ):
        worst = max((by_name[NAMES[name]] for name in LOSSLESS), key=lambda row: abs(row[f"{figure}_off_errors"]))
        lossy = by_name[NAMES["gsd"]]
        made.append(
            Claim(
                name=f"SJD, MC-SJD and GS-SJD: {title} off ordinary decoding's, the worst of three",
                measured=abs(worst[f"{figure}_off_errors"]),
                unit="standard errors",
                bound="at most",
                target=MOST_STANDARD_ERRORS,
                reason=f"{worst['decoder']} {worst[value]:.3g} against {vanilla[value]:.3g}; the lossy GSD has "
                f"{lossy[value]:.3g}, {abs(lossy[f'{figure}_off_errors']):.1f} standard errors off",
            )
        )
    return made


def together(rows: Sequence[Row]) -> Claim:
    """Pictures as asked by all decoders that follow one distribution: a smaller error than any of them has alone."""
    count = sum(row["pictures"] for row in rows)
    share = sum(row["pictures"] * row["all_three_percent"] for row in rows) / count
    error = math.sqrt(share * (100 - share) / count)
    each = ", ".join(f"{row['decoder']} {row['all_three_percent']:.1f}" for row in rows)
    readable = 100 * entry_of(FOLDER, "image-classifier", ID)["metrics"]["garment_accuracy_reconstructions"]
    return Claim(
        name="The four decoders of one distribution together: pictures that are all as asked",
        measured=share,
        unit="%",
        bound="at least",
        target=LEAST_AS_ASKED_PERCENT,
        reason=f"{each}; standard error {error:.1f} %, {count} pictures; of held-out composites that went through the "
        f"tokenizer the classifier reads {readable:.0f} % of the garments aright",
    )


if __name__ == "__main__":
    sys.exit(piped(main))
