"""How good the pictures of the patch models are, decoded the ordinary way and by each kind of CSpD.

    python -m benchmarks.patches [--json FILE] [--images N] [--sheet FILE.png] [--device D]

The marks are those of benchmarks.continuous: how many pictures show what was asked, by a classifier, and a distance of
all of them from real pictures on its features, as FID's (benchmarks/_pictures.py). As many real pictures have a
distance, too, by chance; it stands beside. All decoders get the same prompts.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks._pictures import SLOTS, features, frechet, reference, right, sheet
from benchmarks._results import Claim, Row, command, finish, off, parser, positive, result, standard_error
from benchmarks._runs import prompts
from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import load_model
from engines.models.devices import add_option
from engines.runtime.driver import Job, sample_tokens
from traces.streams import piped

TARGET: Final = "patch-target"
MOST_STANDARD_ERRORS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Decoder:
    """A way to decode pictures."""

    method: str = "continuous"
    settings: Mapping[str, object] = field(default_factory=dict)
    model: str = TARGET

    def job(self, model: Any, prompt: str, sample: int, guidance: float) -> Job:
        """A picture to decode."""
        method = METHODS[self.method]
        config = make_config(method.config, {"guidance": guidance, **self.settings})
        return Job(method, model, prompt, config, seed=0, sample=sample)


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
    """Decode, judge and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--images", type=positive, default=128, help="pictures of every decoder")
    options.add_argument("--batch", type=positive, default=32, help="sequences in lockstep")
    options.add_argument("--guidance", type=float, default=1.0, help="of the diffusion heads; a mixture has none")
    options.add_argument("--sheet", type=Path, help="also draw a few pictures of every decoder into this PNG")
    add_option(options)
    chosen = options.parse_args(given)
    asked = prompts(TARGET, chosen.images)
    drawn: dict[str, Tensor] = {}
    for name, decoder in DECODERS.items():
        model: Any = load_model(decoder.model, chosen.device)
        guidance = 1.0 if name == "mixture" else chosen.guidance
        jobs = [decoder.job(model, prompt, sample, guidance) for sample, prompt in enumerate(asked)]
        batches = [jobs[i : i + chosen.batch] for i in range(0, len(jobs), chosen.batch)]
        drawn[name] = torch.cat([model.pixels(torch.tensor(sample_tokens(batch))).float().cpu() for batch in batches])
        print(f"{name}: {len(asked)} pictures", file=sys.stderr, flush=True)
    rows = [row(name, pixels, asked, drawn["target"]) for name, pixels in drawn.items()]
    if chosen.sheet:
        chosen.sheet.parent.mkdir(parents=True, exist_ok=True)
        sheet(asked, drawn).save(chosen.sheet, optimize=True)
    title = "Studio patch models: what pictures show, and how far they lie from real ones"
    finish(result(title, command("patches", given), claims(rows), rows, torch.device(chosen.device)), chosen.json)


def row(name: str, pixels: Tensor, asked: Sequence[str], baseline: Tensor) -> Row:
    """The marks of one decoder with standard errors."""
    marks, theirs = (right(pictures, asked) for pictures in (pixels, baseline))
    whole = marks.all(1).double().tolist()
    figures: dict[str, Any] = {
        "method": DECODERS[name].method,
        "decoder": name,
        "model": DECODERS[name].model,
        "pictures": len(asked),
    }
    figures |= {f"{slot}_percent": 100 * float(marks[:, i].double().mean()) for i, slot in enumerate(SLOTS)}
    figures |= {"all_three_percent": 100 * statistics.fmean(whole), "all_three_error": 100 * standard_error(whole)}
    figures |= {"all_three_off_errors": off(whole, theirs.all(1).double().tolist())}
    figures |= {"frechet_like": frechet(features(pixels), reference())}
    if (floor := reference().floors.get(len(asked))) is not None:
        figures["frechet_like_real"] = floor
    return figures


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Exact decoding has to agree with ordinary decoding within the noise; the others are reported."""
    by_name: Mapping[str, Row] = {str(row["decoder"]): row for row in rows}
    vanilla = by_name["target"]
    others = [name for name in by_name if name != "target" and name not in EXACT]
    made = [
        Claim(
            name="Patch model, ordinary decoding: pictures whose garment, tint and background are all as asked",
            measured=vanilla["all_three_percent"],
            unit="%",
            reason=", ".join(f"{slot} {vanilla[f'{slot}_percent']:.0f} %" for slot in SLOTS)
            + f"; standard error {vanilla['all_three_error']:.1f} %, {vanilla['pictures']} pictures",
        ),
        *(
            Claim(
                name=f"{name}: prompt agreement off ordinary decoding's",
                measured=abs(by_name[name]["all_three_off_errors"]),
                unit="standard errors",
                bound="at most",
                target=MOST_STANDARD_ERRORS,
                reason=f"{by_name[name]['all_three_percent']:.0f} against {vanilla['all_three_percent']:.0f} %; "
                + ", ".join(f"{other} {by_name[other]['all_three_percent']:.0f} %" for other in others),
            )
            for name in EXACT
        ),
    ]
    real = f", real pictures {vanilla['frechet_like_real']:.0f}" if "frechet_like_real" in vanilla else ""
    made.append(
        Claim(
            name="Patch model, ordinary decoding: Frechet-like distance from real pictures",
            measured=vanilla["frechet_like"],
            reason=f"not FID: the features are a small classifier's; {vanilla['pictures']} pictures; "
            + ", ".join(f"{name} {one['frechet_like']:.0f}" for name, one in by_name.items() if name != "target")
            + real,
        )
    )
    return made


if __name__ == "__main__":
    sys.exit(piped(main))
