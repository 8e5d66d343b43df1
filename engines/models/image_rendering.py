"""Pictures of a canvas, as a trace holds them."""

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from draftscope.traces.schema import Frame, Legend, Output, Token


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How much of a canvas a trace holds as pictures."""

    max_patches: int | None = None
    """Pictures of the canvas, spread evenly over the passes of a run; None is one a step."""
    together: int = 64
    """Canvases that are decoded at once for them."""
    longest: int | None = None
    """Pixels of the longer side that larger ones are shrunk to; None leaves all as they are."""
    kind: str = "WEBP"
    """How they are stored; see `as_uri`."""


def as_uri(picture: Image.Image, kind: str) -> str:
    """Return a picture as a data URI.

    Args:
        picture: Picture of any mode that the format stores.
        kind: WEBP, which is lossy and small, or PNG, which is exact.
    """
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 90} if kind == "WEBP" else {"optimize": True}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def frames(
    canvases: Mapping[int, Sequence[Any]],
    draw: Callable[[Sequence[Sequence[Any]]], Sequence[Image.Image]],
    limits: ImageLimits,
) -> tuple[Frame, ...]:
    """Return pictures of the canvas at steps that are spread evenly over a run.

    Args:
        canvases: Number of the step -> tokens of the canvas after it.
        draw: Draws canvases, `limits.together` of them at once.
        limits: How many pictures there are, their size and their format.
    """
    steps = sorted(canvases)
    if limits.max_patches is not None and len(steps) > limits.max_patches:
        steps = [steps[round(i)] for i in np.linspace(0, len(steps) - 1, limits.max_patches)]
    chunks = [steps[i : i + limits.together] for i in range(0, len(steps), limits.together)]
    pictures = (shrunk(one, limits) for chunk in chunks for one in draw([canvases[step] for step in chunk]))
    return tuple(Frame(step=step, image=as_uri(one, limits.kind)) for step, one in zip(steps, pictures, strict=True))


def shrunk(picture: Image.Image, limits: ImageLimits) -> Image.Image:
    """Return a picture that is no larger than a trace may hold.

    Args:
        picture: Picture, which is shrunk in place.
        limits: `longest` is the maximum of its longer side, in pixels.
    """
    if limits.longest is not None and max(picture.size) > limits.longest:
        picture.thumbnail((limits.longest, limits.longest), Image.Resampling.BOX)
    return picture


class RendersImages(ABC):
    """A model that shows its canvas as pictures."""

    limits = ImageLimits()

    @abstractmethod
    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Float[Tensor, "B 3 H W"]:
        """Pictures of canvases in [-1, 1], which may be overstepped."""

    def make_legend(self, canvases: Mapping[int, Sequence[Token | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, drafts included; viewers mark open positions."""
        return Legend(frames=frames(canvases, self._draw, self.limits))

    def render_output(self, tokens: Sequence[Token | None]) -> Output:
        """The finished picture."""
        return Output(tokens=tuple(tokens), image=as_uri(self._draw([tokens])[0], "PNG"))

    @torch.inference_mode()
    def _draw(self, canvases: Sequence[Sequence[Token | None]]) -> list[Image.Image]:
        pixels = (self.pixels_of(canvases).float().clamp(-1, 1) + 1) * 127.5
        return [Image.fromarray(picture) for picture in pixels.round().byte().permute(0, 2, 3, 1).cpu().numpy()]
