"""Draw a sheet of what training sees, or of what comes of it.

    python -m training.sheet scenes|clips|continued FILE.png [--clips N] [--first I]

`scenes` and `clips`, a row each, are held-out data as `training.scenes_data` and `training.video_data` compose it.
`continued` has two rows a clip: what was held out, as its codes show it, and a continuation by SCD of its first two
frames, which are framed. Clips are taken in their order, none selected.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from engines.models.bundled.networks import SIZE
from engines.models.bundled.video import load
from engines.models.bundled.video_networks import FRAMES, GIVEN_FRAMES
from engines.runtime.driver import sample_tokens
from engines.runtime.request import Request
from training import scenes_data, video_data

GAP = 8
SETTINGS = {"window": 32, "top_p": 0.8}


def scenes() -> Image.Image:
    """Eight rows of twelve pictures."""
    pictures = scenes_data.build(96, scenes_data.TEST, 0)[0].reshape(8, 12, SIZE, SIZE, 3)
    return Image.fromarray(pictures.swapaxes(1, 2).reshape(8 * SIZE, 12 * SIZE, 3))


def clips(count: int) -> Image.Image:
    """A row of frames for each clip."""
    frames = video_data.build(count, scenes_data.TEST, 0)[0]
    return Image.fromarray(frames.swapaxes(1, 2).reshape(-1, FRAMES * SIZE, 3))


def continued(first: int, count: int) -> Image.Image:
    """Held-out clips and their continuations."""
    model, numbers = load(), range(first, first + count)
    requests = [Request("scd", model, f"clip {number}", settings=SETTINGS, sample=number) for number in numbers]
    rows = []
    for number, tokens in zip(numbers, sample_tokens([one.job() for one in requests]), strict=True):
        held_out = model.decode(model.held_out.codes[number - 1][None])[0]
        whole = model.continued(f"clip {number}", torch.as_tensor(tokens).tolist())
        rows.append(np.concatenate([np.concatenate(list(clip.numpy()), 1) for clip in (held_out, whole)]))
    high, wide = rows[0].shape[:2]
    page = Image.new("RGB", (wide, len(rows) * (high + GAP)), "white")
    for i, row in enumerate(rows):
        page.paste(Image.fromarray(row), (0, i * (high + GAP)))
        box = (0, i * (high + GAP), high // 2 * GIVEN_FRAMES - 1, i * (high + GAP) + high - 1)
        ImageDraw.Draw(page).rectangle(box, outline="white", width=2)
    return page


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("scenes", "clips", "continued"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--first", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.what == "continued":
        page = continued(chosen.first, chosen.clips)
    else:
        page = scenes() if chosen.what == "scenes" else clips(chosen.clips)
    page.save(chosen.file, optimize=True)


if __name__ == "__main__":
    main()
