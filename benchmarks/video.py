"""How many forward passes and how much time a clip takes by SJD, MC-SJD and GS-SJD, by window, and what comes out.

    python -m benchmarks.video [--json FILE] [--clips N] [--timed N]

All decoders continue the same held-out clips. Pictures of the studio image model are decoded under the same settings
beside them, for their passes and times alone. Sets of clips are compared by the Fréchet distance of two features: what
the studio image model's classifier sees in every predicted frame, and how that changes from the frame before. This is
no FVD, which has a network of its own. Standard errors of distances come from leaving out one clip at a time. Times
are processor seconds of one thread, decoders taking turns.
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from benchmarks._pictures import Reference, features, frechet
from benchmarks._results import Claim, Row, command, finish, parser, positive, result, standard_error
from benchmarks._runs import NAMES, job
from benchmarks._runs import prompts as picture_prompts
from engines.models.bundled.video import GIVEN_FRAMES, StudioVideo, load
from engines.models.bundled.video_networks import GIVEN, LENGTH, to_floats
from engines.models.catalog import load_model
from engines.protocol import Model
from engines.runtime.driver import Job, RunningSequence, drive, open_session
from traces.measures import COUPLINGS

WINDOWS: Final = (16, 32, 64, 128)
TOP_P: Final = 0.8
LEAST_FEWER: Final = 8.0
"""Passes of ordinary decoding over those of the best coupling, at the widest window."""
PICTURES: Final = "studio-image"
CHOICES: Final = (("ar", 0), *((coupling, window) for window in WINDOWS for coupling in COUPLINGS))
AGAIN: Final = 2
"""Further sets of clips by ordinary decoding, which show how far chance alone moves the distances."""
FEATURES: Final = ("frames", "changes")
TOKENS: Final = LENGTH - GIVEN


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder made of the clips."""

    passes: tuple[int, ...]
    """Forward passes of each clip."""
    tokens: Int[Tensor, "N T"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, compare and report."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--clips", type=positive, default=48, help="held-out clips that every decoder continues")
    options.add_argument("--batch", type=positive, default=24, help="clips in lockstep")
    options.add_argument("--timed", type=positive, default=3, help="clips that are decoded one by one and timed")
    chosen = options.parse_args(given)
    model = load()
    if not 3 <= chosen.clips <= len(model.held_out.codes):
        options.error(f"--clips: {chosen.clips} is not possible; use 3 to {len(model.held_out.codes)}")
    clips = [f"clip {number}" for number in range(1, chosen.clips + 1)]
    made = every_window(model, clips, chosen.batch)
    again = [decode_all("ar", model, clips, chosen.batch, draw) for draw in range(1, 1 + AGAIN)]
    judge, timed = Judge(model, chosen.clips, made["ar", 0].tokens), times(model, clips[: chosen.timed])
    rows: list[Row] = [{**row("video", *key, one), **judge(one.tokens), **timed[key]} for key, one in made.items()]
    drawn_anew = {"decoder": f"{NAMES['ar']}, drawn anew"}
    rows += [{**row("video", "ar", 0, one), **drawn_anew, **judge(one.tokens)} for one in again]
    pictures, asked = load_model(PICTURES), picture_prompts(PICTURES, chosen.clips)
    timed = times(pictures, asked[: chosen.timed])
    made = every_window(pictures, asked, chosen.batch)
    rows += [{**row("picture", *key, one), **timed[key]} for key, one in made.items()]
    content = result(
        f"{model.card.title}: passes, times and likeness", command("video", given), claims(rows), rows, model.device
    )
    finish(content, chosen.json)


def every_window(model: Model, prompts: Sequence[str], batch: int) -> dict[tuple[str, int], Decoded]:
    """What ordinary decoding, at window 0, and every coupling at every window make of the prompts."""
    made = {}
    for decoder, window in CHOICES:
        made[decoder, window] = decode_all(decoder, model, prompts, batch, window=window)
        print(model.card.id, decoder, window, statistics.fmean(made[decoder, window].passes), file=sys.stderr)
    return made


def decode_all(
    decoder: str, model: Model, prompts: Sequence[str], batch: int, draw: int = 0, window: int = 0
) -> Decoded:
    """Decode prompts in lockstep, `batch` at a time; every `draw` is another one. Ordinary decoding has window 0."""
    passes: list[int] = []
    tokens: list[Tensor] = []
    samples = [sample + 1000 * draw for sample in range(1, 1 + len(prompts))]
    for first in range(0, len(prompts), batch):
        those = slice(first, first + batch)
        jobs = [_job(decoder, model, window, *one) for one in zip(prompts[those], samples[those], strict=True)]
        sequences, counts = [RunningSequence(one.decoder()) for one in jobs], Counter[int]()
        for took_part in drive(sequences, open_session(jobs), jobs[0].config, record=False):
            counts.update(took_part)
        passes += [counts[i] for i in range(len(sequences))]
        tokens += [sequence.result[0] for sequence in sequences]
    return Decoded(tuple(passes), torch.stack(tokens))


def _job(decoder: str, model: Model, window: int, prompt: str, sample: int) -> Job:
    own = {"window": window} if window else {}
    return job(decoder, model, prompt, sample, top_p=TOP_P, **own)


class Judge:
    """Compares what was decoded with how the clips really went on, and with ordinary decoding."""

    def __init__(self, model: StudioVideo, clips: int, ordinary: Int[Tensor, "N T"]) -> None:
        self._codes = model.held_out.codes[:clips]
        self._model = model
        self._real = seen(model.decode(self._codes))
        self._ordinary = self.features(ordinary)

    def features(self, tokens: Int[Tensor, "N T"]) -> dict[str, Float[Tensor, "N F D"]]:
        """Features of the predicted frames, and their changes, of every clip."""
        return seen(self._model.decode(torch.cat([self._codes[:, :GIVEN], tokens.cpu()], 1)))

    def __call__(self, tokens: Int[Tensor, "N T"]) -> dict[str, float]:
        """Distances to the real clips with standard errors, and how far they are off ordinary decoding's."""
        found, said = self.features(tokens), dict[str, float]()
        for name in FEATURES:
            own, ordinary, real = found[name], self._ordinary[name], self._real[name]
            said[f"{name}_distance"] = distance(own, real)
            said[f"{name}_distance_error"] = jackknife(lambda k: distance(own[k], real[k]), len(own))  # noqa: B023
            off = distance(own, real) - distance(ordinary, real)
            error = jackknife(lambda k: distance(own[k], real[k]) - distance(ordinary[k], real[k]), len(own))  # noqa: B023
            said |= {f"{name}_off_ordinary": off, f"{name}_off_ordinary_error": error}
        return said


def seen(clips: UInt8[Tensor, "N F S S 3"]) -> dict[str, Float[Tensor, "N F D"]]:
    """The classifier's features of the predicted frames, and by how much they change from frame to frame."""
    frames = to_floats(clips[:, GIVEN_FRAMES - 1 :])
    found = torch.stack([features(clip) for clip in frames])
    return {"frames": found[:, 1:], "changes": found.diff(dim=1)}


def distance(found: Float[Tensor, "N F D"], real: Float[Tensor, "N F D"]) -> float:
    """Fréchet distance of Gaussians with the moments of two sets of features."""
    flat = real.flatten(0, 1)
    return frechet(found.flatten(0, 1), Reference(flat.mean(0), flat.T.cov()))


def jackknife(figure: Callable[[Tensor], float], count: int) -> float:
    """Standard error of a figure that is computed from rows of `count`, by leaving out one at a time."""
    every = torch.arange(count)
    values = [figure(every[every != left_out]) for left_out in range(count)]
    return float(((count - 1) * statistics.pvariance(values)) ** 0.5)


def row(kind: str, decoder: str, window: int, made: Decoded) -> Row:
    """The passes of one decoder."""
    tokens = made.tokens.shape[1]
    ratios = [tokens / passes for passes in made.passes]
    return {
        "method": "ar" if decoder == "ar" else "scd",
        "kind": kind,
        "decoder": NAMES[decoder],
        "window": window or None,
        "samples": len(made.passes),
        "forwards": statistics.fmean(made.passes),
        "forwards_error": standard_error(made.passes),
        "nfe_ratio": tokens / statistics.fmean(made.passes),
        "nfe_ratio_error": standard_error(ratios),
    }


def times(model: Model, prompts: Sequence[str]) -> dict[tuple[str, int], Row]:
    """Processor seconds of every decoder, prompt by prompt in turn."""
    torch.set_num_threads(1)
    decode_all("gumbel", model, prompts[:1], 1, window=WINDOWS[0])  # kernels and memory pools
    spent: dict[tuple[str, int], list[float]] = {key: [] for key in CHOICES}
    for prompt in prompts:
        for (decoder, window), seconds in spent.items():
            since = time.process_time()
            decode_all(decoder, model, [prompt], 1, window=window)
            seconds.append(time.process_time() - since)
    return {key: _timed(seconds, spent["ar", 0]) for key, seconds in spent.items()}


def _timed(seconds: Sequence[float], ordinary: Sequence[float]) -> Row:
    ratios = [theirs / own for theirs, own in zip(ordinary, seconds, strict=True)]
    return {
        "timed": len(seconds),
        "cpu_seconds": statistics.fmean(seconds),
        "time_ratio": statistics.fmean(ratios),
        "time_ratio_error": standard_error(ratios),
    }


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The widest window's passes, and that likeness is unchanged."""
    by_name = {(row["decoder"], row["window"]): row for row in rows if row["kind"] == "video"}
    widest = {coupling: by_name[NAMES[coupling], WINDOWS[-1]] for coupling in COUPLINGS}
    best = max(widest["maximal"], widest["gumbel"], key=lambda one: float(one["nfe_ratio"]))
    return [
        Claim(
            name=f"Video: {best['decoder']}, L = {best['window']}, passes of ordinary decoding over its own",
            measured=best["nfe_ratio"],
            unit="×",
            bound="at least",
            target=LEAST_FEWER,
            reason=f"{TOKENS} tokens, top-p {TOP_P}, error {best['nfe_ratio_error']:.2g} over {best['samples']} clips",
        ),
        *(_likeness(name, list(widest.values())) for name in FEATURES),
    ]


def _likeness(name: str, rows: Sequence[Row]) -> Claim:
    def errors(row: Mapping[str, float]) -> float:
        return abs(row[f"{name}_off_ordinary"]) / max(row[f"{name}_off_ordinary_error"], 1e-12)

    worst = max(rows, key=errors)
    return Claim(
        name=f"Video: distance of {name} to real clips, off ordinary decoding's, the worst at L = {WINDOWS[-1]}",
        measured=errors(worst),
        unit="standard errors",
        bound="at most",
        target=3.0,
        reason=f"{worst['decoder']}: {worst[f'{name}_distance']:.3g}, {worst[f'{name}_off_ordinary']:+.2g} off; "
        f"Fréchet distance on a small classifier's features, {worst['samples']} clips",
    )


if __name__ == "__main__":
    main()
