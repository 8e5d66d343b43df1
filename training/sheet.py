"""Draw a sheet of held-out clips and their continuations.

    python -m training.sheet FILE.png

It has two rows a clip: what was held out, as its codes show it, and a continuation by SCD of its first two frames,
which are framed. Clips are taken in their order, none selected.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from engines.models.bundled.video import load
from engines.models.bundled.video_networks import GIVEN_FRAMES
from engines.runtime.driver import sample_tokens
from engines.runtime.request import Request

GAP = 8
CLIPS = 8
SETTINGS = {"window": 32, "top_p": 0.8}


def continued() -> Image.Image:
    """The sheet."""
    model, numbers = load(), range(1, CLIPS + 1)
    requests = [Request("scd", model, f"clip {number}", settings=SETTINGS, sample=number) for number in numbers]
    rows = []
    for number, tokens in zip(numbers, sample_tokens([one.job() for one in requests]), strict=True):
        held_out = model.decode(model.held_out.codes[number - 1][None])[0]
        whole = model.continued(f"clip {number}", torch.as_tensor(tokens).tolist())
        row = np.concatenate([np.concatenate(list(clip.numpy()), 1) for clip in (held_out, whole)])
        picture = Image.fromarray(np.pad(row, ((0, GAP), (0, 0), (0, 0)), constant_values=255))
        box = (0, 0, len(row) // 2 * GIVEN_FRAMES - 1, len(row) - 1)
        ImageDraw.Draw(picture).rectangle(box, outline="white", width=2)
        rows.append(np.asarray(picture))
    return Image.fromarray(np.concatenate(rows))


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    continued().save(parser.parse_args().file, optimize=True)


if __name__ == "__main__":
    main()
