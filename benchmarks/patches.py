"""How good the pictures of the patch models are, decoded the ordinary way and by each kind of CSpD.

    python -m benchmarks.patches [--json FILE] [--images N] [--guidance G ...] [--sheet FILE.png] [--device D]

Without guidance and with it, as MAR's pictures are drawn. The marks are those of benchmarks.continuous: how many
pictures show what was asked, by a classifier, and a distance of all of them from real pictures on its features, as
FID's (benchmarks/_pictures.py). As many real pictures have a distance, too, by chance; it stands beside. All decoders
get the same prompts.
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
GUIDANCE: Final = (1.0, 3.0)
LEAST_AS_ASKED_PERCENT: Final = 50.0
"""With guidance."""


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
    options.add_argument(
        "--guidance",
        type=float,
        nargs="+",
        default=GUIDANCE,
        help="scales, 1 for none; a sheet has pictures of the last",
    )
    options.add_argument("--sheet", type=Path, help="also draw a few pictures of every decoder into this PNG")
    add_option(options)
    chosen = options.parse_args(given)
    asked, rows, drawn = prompts(TARGET, chosen.images), list[Row](), dict[str, Tensor]()
    for guidance in chosen.guidance:
        drawn = pictures(asked, guidance, chosen.batch, chosen.device)
        rows += [row(name, pixels, asked, drawn["target"], guidance) for name, pixels in drawn.items()]
    if chosen.sheet:
        chosen.sheet.parent.mkdir(parents=True, exist_ok=True)
        sheet(asked, drawn).save(chosen.sheet, optimize=True)
    title = "Studio patch models: what pictures show, and how far they lie from real ones"
    finish(result(title, command("patches", given), claims(rows), rows, torch.device(chosen.device)), chosen.json)


def pictures(asked: Sequence[str], guidance: float, batch: int, device: str) -> dict[str, Tensor]:
    """What every decoder makes of the prompts; a mixture has no guidance."""
    drawn: dict[str, Tensor] = {}
    for name, decoder in DECODERS.items():
        if name == "mixture" and guidance != 1:
            continue
        model: Any = load_model(decoder.model, device)
        jobs = [decoder.job(model, prompt, sample, guidance) for sample, prompt in enumerate(asked)]
        batches = [jobs[i : i + batch] for i in range(0, len(jobs), batch)]
        drawn[name] = torch.cat([model.pixels(torch.tensor(sample_tokens(some))).float().cpu() for some in batches])
        print(f"{name}, guidance {guidance:g}: {len(asked)} pictures", file=sys.stderr, flush=True)
    return drawn


def row(name: str, pixels: Tensor, asked: Sequence[str], baseline: Tensor, guidance: float) -> Row:
    """The marks of one decoder with standard errors."""
    marks, theirs = (right(pictures, asked) for pictures in (pixels, baseline))
    whole = marks.all(1).double().tolist()
    figures: dict[str, Any] = {
        "method": DECODERS[name].method,
        "decoder": name,
        "model": DECODERS[name].model,
        "guidance": guidance,
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
    scales = dict.fromkeys(float(row["guidance"]) for row in rows)
    return [claim for scale in scales for claim in _claims([row for row in rows if row["guidance"] == scale], scale)]


def _claims(rows: Sequence[Row], guidance: float) -> list[Claim]:
    by_name: Mapping[str, Row] = {str(row["decoder"]): row for row in rows}
    vanilla, guided = by_name["target"], guidance != 1
    others = [name for name in by_name if name != "target" and name not in EXACT]
    how = f", guidance {guidance:g}" if guided else ""
    made = [
        Claim(
            name=f"Patch model, ordinary decoding{how}: pictures whose garment, tint and background are all as asked",
            measured=vanilla["all_three_percent"],
            unit="%",
            bound="at least" if guided else "",
            target=LEAST_AS_ASKED_PERCENT if guided else None,
            reason=", ".join(f"{slot} {vanilla[f'{slot}_percent']:.0f} %" for slot in SLOTS)
            + f"; standard error {vanilla['all_three_error']:.1f} %, {vanilla['pictures']} pictures",
        ),
        *(
            Claim(
                name=f"{name}{how}: prompt agreement off ordinary decoding's",
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
            name=f"Patch model, ordinary decoding{how}: Frechet-like distance from real pictures",
            measured=vanilla["frechet_like"],
            reason=f"not FID: the features are a small classifier's; {vanilla['pictures']} pictures; "
            + ", ".join(f"{name} {one['frechet_like']:.0f}" for name, one in by_name.items() if name != "target")
            + real,
        )
    )
    return made


if __name__ == "__main__":
    sys.exit(piped(main))
