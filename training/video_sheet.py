"""Draw held-out clips, their codes decoded, and how the model continues them.

    python -m training.video_sheet FILE.png [--clips N] [--first I]

Three rows a clip: its pixels, what is left of them in the codes, and a continuation by SCD of its first nine frames,
which are framed. Columns are frames 0, 4, 8, ... 32. Clips are taken in their order, none selected.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from engines.config import make_config
from engines.methods import METHODS
from engines.models.bundled.video import GIVEN_FRAMES, load
from engines.runtime.driver import Job, sample_tokens
from training import video_data

EVERY, SCALE, GAP = 4, 2, 8


def strip(clip: NDArray[np.uint8]) -> Image.Image:
    """Every fourth frame of a clip, side by side; those that are given are framed."""
    frames = list(clip[::EVERY])
    picture = Image.fromarray(np.concatenate(frames, 1))
    picture = picture.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.NEAREST)
    given = -(-GIVEN_FRAMES // EVERY) * frames[0].shape[1] * SCALE
    ImageDraw.Draw(picture).rectangle((0, 0, given - 1, picture.height - 1), outline="white", width=2)
    return picture


def main() -> None:
    """Decode and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--first", type=int, default=1)
    options = parser.parse_args()
    model, method = load(), METHODS["scd"]
    config = make_config(method.config, {"window": 64, "top_p": 0.8})
    numbers = range(options.first, options.first + options.clips)
    drawn = sample_tokens([Job(method, model, f"clip {number}", config, sample=number) for number in numbers])
    pixels = video_data.load("t10k", video_data.HELD_OUT_CLIPS).frames
    rows = []
    for number, tokens in zip(numbers, drawn, strict=True):
        decoded = model.decode(model.held_out.codes[number - 1][None])[0].numpy()
        continued = model.continued(f"clip {number}", torch.as_tensor(tokens).tolist()).numpy()
        rows.append([strip(np.asarray(clip)) for clip in (pixels[number - 1], decoded, continued)])
    width, height = rows[0][0].size
    page = Image.new("RGB", (width, len(rows) * (3 * height + GAP)), "white")
    for i, strips in enumerate(rows):
        for j, picture in enumerate(strips):
            page.paste(picture, (0, i * (3 * height + GAP) + j * height))
    page.save(options.file, optimize=True)


if __name__ == "__main__":
    main()
