"""Forward passes, time and output of clips decoded by SJD, MC-SJD and GS-SJD, by window.

All decoders continue the same held-out clips. Pictures of the studio image model are decoded with the same settings,
for their passes and times alone. How likely a clip is cannot be tested with as few clips: that the couplings change no
distribution is proved on tables (`draftscope check scd`). Times are processor seconds of one thread, with decoders
alternating.
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import torch
from jaxtyping import Int, UInt8
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn.functional import pad

from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, standard_error
from benchmarks._timing import NAMES, decode, job, prompts
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.bundled.video import GIVEN, GIVEN_FRAMES, LENGTH, load
from draftscope.engines.models.catalog import load_model
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job
from draftscope.traces.labels import COUPLINGS

WINDOWS: Final = (16, 32, 64, 128)
TOP_P: Final = 0.8
MIN_FEWER: Final = 9.0
"""Passes of ordinary decoding over those of the best coupling, at the widest window."""
MIN_FASTER: Final = 2.0
"""Time of ordinary decoding over that of the fastest coupling and window."""
PICTURES: Final = "studio-image"
CHOICES: Final = (("ar", 0), *((coupling, window) for window in WINDOWS for coupling in COUPLINGS))
TOKENS: Final = LENGTH - GIVEN
SHEET_ROWS: Final = 8
GAP: Final = 8


Cell = tuple[str, int]
"""A decoder and its window, 0 for ordinary decoding."""


class Sequences(NamedTuple):
    """Clips of a decoder."""

    passes: tuple[int, ...]
    """Forward passes of each clip."""
    tokens: Int[Tensor, "N T"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode, compare and report."""
    options = Options("video", __doc__, clips=48, batch=24, timed=3, sheet=Path)
    chosen = options.read(arguments)
    model = load()
    if not 3 <= chosen.clips <= len(model.held_out.codes):
        options.error(f"--clips: {chosen.clips} is not possible; use 3 to {len(model.held_out.codes)}")
    clips = [f"clip {number}" for number in range(1, chosen.clips + 1)]
    sequences = every_window(model, clips, chosen.batch)
    codes, timed = model.held_out.codes[: chosen.clips], times(model, clips[: chosen.timed])

    if chosen.sheet:
        tokens = sequences["maximal", 32].tokens
        continued = model.decode(torch.cat([codes[:, :GIVEN], tokens.cpu()], 1))
        sheet(model.decode(codes), continued).save(chosen.sheet, optimize=True)
    rows: list[Row] = [{**row("video", *cell, one), **timed[cell]} for cell, one in sequences.items()]
    pictures, drawn = load_model(PICTURES), prompts(PICTURES, chosen.clips)
    timed = times(pictures, drawn[: chosen.timed])
    sequences = every_window(pictures, drawn, chosen.batch)
    rows += [{**row("picture", *cell, one), **timed[cell]} for cell, one in sequences.items()]
    finish(chosen, f"{model.card.title}: passes and times", claims(rows), rows, model.device)


def every_window(model: Model, prompts: Sequence[str], batch: int) -> dict[Cell, Sequences]:
    """Return the clips of the baseline and of every coupling at every window."""
    windows = {}
    for cell in CHOICES:
        windows[cell] = decode_all(jobs(model, cell, prompts), batch)
        print(model.card.id, *cell, statistics.fmean(windows[cell].passes), file=sys.stderr)
    return windows


def decode_all(jobs: Sequence[Job], batch: int) -> Sequences:
    """Decode in lockstep, `batch` at a time."""
    runs = [decode(jobs[first : first + batch]) for first in range(0, len(jobs), batch)]
    tokens = torch.tensor([row for run in runs for row in run.tokens])
    return Sequences(tuple(count for run in runs for count in run.passes), tokens)


def jobs(model: Model, cell: Cell, prompts: Sequence[str]) -> list[Job]:
    """A decoder on prompts."""
    decoder, window = cell
    settings = {"top_p": TOP_P, "window": window} if window else {"top_p": TOP_P}
    return [job(decoder, model, prompt, i, **settings) for i, prompt in enumerate(prompts, 1)]


def sheet(held_out: UInt8[Tensor, "N F S S 3"], continued: UInt8[Tensor, "N F S S 3"]) -> Image.Image:
    """A picture of the first clips, two rows each: held out, and continued from its first frames, which are framed."""
    pairs, side = torch.stack([held_out, continued], 1)[:SHEET_ROWS], held_out.shape[2]
    rows = pairs.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(1, 2)  # [N, 2 S, F S, 3]
    picture = Image.fromarray(pad(rows, (0, 0, 0, 0, 0, GAP), value=255).flatten(0, 1).numpy())
    for top in range(0, picture.height, 2 * side + GAP):
        box = (0, top, GIVEN_FRAMES * side - 1, top + 2 * side - 1)
        ImageDraw.Draw(picture).rectangle(box, outline="white", width=2)
    return picture


def row(kind: str, decoder: str, window: int, sequences: Sequences) -> Row:
    """The passes of one decoder."""
    tokens = sequences.tokens.shape[1]
    ratios = [tokens / passes for passes in sequences.passes]
    return {
        "method": "ar" if decoder == "ar" else "scd",
        "kind": kind,
        "decoder": NAMES[decoder],
        "window": window or None,
        "samples": len(sequences.passes),
        "forwards": statistics.fmean(sequences.passes),
        "forwards_error": standard_error(sequences.passes),
        "nfe_ratio": tokens / statistics.fmean(sequences.passes),
        "nfe_ratio_error": standard_error(ratios),
    }


def times(model: Model, prompts: Sequence[str]) -> dict[Cell, Row]:
    """Processor seconds of every decoder, prompt by prompt in turn."""
    torch.set_num_threads(1)
    decode(jobs(model, ("gumbel", WINDOWS[0]), prompts[:1]))  # kernels and memory pools
    spent: dict[Cell, list[float]] = {cell: [] for cell in CHOICES}
    for prompt in prompts:
        for cell, seconds in spent.items():
            seconds.append(decode(jobs(model, cell, [prompt])).seconds)
    return {cell: _timed(seconds, spent["ar", 0]) for cell, seconds in spent.items()}


def _timed(seconds: Sequence[float], ordinary: Sequence[float]) -> Row:
    ratios = [theirs / ours for theirs, ours in zip(ordinary, seconds, strict=True)]
    return {
        "timed": len(seconds),
        "cpu_seconds": statistics.fmean(seconds),
        "time_ratio": statistics.fmean(ratios),
        "time_ratio_error": standard_error(ratios),
    }


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The widest window's passes, and the time of the fastest."""
    by_name = {(row["decoder"], row["window"]): row for row in rows if row["kind"] == "video"}
    widest = {coupling: by_name[NAMES[coupling], WINDOWS[-1]] for coupling in COUPLINGS}
    fastest = max((row for row in by_name.values() if row["window"]), key=lambda row: float(row["time_ratio"]))
    best = max(widest["maximal"], widest["gumbel"], key=lambda one: float(one["nfe_ratio"]))
    return [
        lower_limit(
            f"Video: {best['decoder']}, L = {best['window']}, passes of ordinary decoding over its own",
            best["nfe_ratio"],
            MIN_FEWER,
            "×",
            f"{TOKENS} tokens, top-p {TOP_P}, error {best['nfe_ratio_error']:.2g} over {best['samples']} clips",
        ),
        lower_limit(
            f"Video: {fastest['decoder']}, L = {fastest['window']}, time of ordinary decoding over its own",
            fastest["time_ratio"],
            MIN_FASTER,
            "×",
            f"one thread, error {fastest['time_ratio_error']:.2g} over {fastest['timed']} clips",
        ),
    ]


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
