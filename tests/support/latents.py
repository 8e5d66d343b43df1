"""What tests of models that draw by KL-16 have in common: runs, their pictures, and folders with something wrong."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from engines.runtime.driver import Job, Run


def finished(job: Job) -> Any:
    """The trace of a run."""
    running = Run(job)
    for _ in running:
        pass
    return running.trace()


def picture(address: str) -> np.ndarray[Any, Any]:
    """The pixels of a picture of a trace."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def shown(pixels: Tensor) -> np.ndarray[Any, Any]:
    """Pixels [3, H, W] in [-1, 1] as a picture has them."""
    seen = ((pixels.clamp(-1, 1) + 1) * 127.5).permute(1, 2, 0)
    assert seen.std() > 10, "too flat to tell"
    return seen.numpy()


def weighted(name: str, tensor: Tensor | None, file: str = "model.safetensors") -> Callable[[Path], None]:
    """Put a tensor into a folder's file, or take it out."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / file)
        tensors.pop(name, None)
        save_file(tensors | ({} if tensor is None else {name: tensor}), folder / file)

    return change


def reworded(old: str, new: str) -> Callable[[Path], None]:
    """Write something else into a folder's config.json."""

    def change(folder: Path) -> None:
        text = (folder / "config.json").read_text()
        assert old in text
        (folder / "config.json").write_text(text.replace(old, new))

    return change


def raster(order: tuple[int, ...], tokens: Any, side: int) -> Tensor:
    """Tokens of a trace in raster order [1, N, D]."""
    found = torch.zeros(1, side**2, len(tokens[0]), dtype=torch.float64)
    found[0, list(order)] = torch.tensor(tokens, dtype=torch.float64)
    return found
