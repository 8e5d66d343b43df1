"""What tests of models that draw by KL-16 have in common: runs, and their pictures."""

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from engines.runtime.driver import Job, Run

CSPD = [
    ("cspd", {"mode": "exact"}),
    pytest.param("cspd", {"mode": "paper"}, marks=pytest.mark.slow),
    pytest.param("cspd", {"mode": "distance-only"}, marks=pytest.mark.slow),
    pytest.param("cspd-block", {}, marks=pytest.mark.slow),
    pytest.param("cspd-release", {}, marks=pytest.mark.slow),
]
"""Methods and settings that draft."""


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


def raster(order: tuple[int, ...], tokens: Any, side: int) -> Tensor:
    """Tokens of a trace in raster order [1, N, D]."""
    found = torch.zeros(1, side**2, len(tokens[0]), dtype=torch.float64)
    found[0, list(order)] = torch.tensor(tokens, dtype=torch.float64)
    return found
