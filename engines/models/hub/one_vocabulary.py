"""Models that draw in the vocabulary they write in: a code is one of the tokens, and only codes may stand in a picture.

What a release does by masking all other logits is done by computing no others: the output layer keeps the rows of the
codes alone, which is the same distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from engines.models.hub import vq16
from engines.models.picture_model import Codebook, PictureModel, PictureShape
from traces.schema import ModelCard

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """What stands around the codes of a picture, in ids of the vocabulary."""

    ids: Int[Tensor, " K"]
    """The token of every code."""
    asked: Callable[[str], tuple[Ids, Ids]]
    """What stands before a picture with a prompt, and without."""
    line_end: int | None
    """The token that closes a row, where there is one."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """A tokenizer's way back."""

    network: nn.Module
    book: Float[Tensor, "K D"]
    draw: Callable[[Tensor], Tensor]
    """Codes [B, N] to pixels [B, 3, H, W]."""


class OneVocabulary(PictureModel):
    """A model around a native decoder without its output layer."""

    def __init__(
        self,
        body: Any,
        head: Float[Tensor, "V W"],
        script: Script,
        pixels: Pixels,
        shape: PictureShape,
        card: ModelCard,
    ) -> None:
        """Wrap a decoder that lies on its device, as all else does.

        Args:
            body: Called with ids of the vocabulary.
            head: The output layer.
            script: What stands around codes.
            pixels: Draws codes.
            shape: Of pictures.
            card: Who it is.
        """
        codes = Codebook(pixels.book.double(), vq16.digest(pixels.book))
        self._body: Any = body
        super().__init__(body, body, codes, shape, card)
        self._script, self._pixels = script, pixels
        self._ids = script.ids.to(head.device)
        self._head = head[self._ids]
        self.line_end = None if script.line_end is None else script.line_end + shape.codes

    @property
    def parameters(self) -> int:
        """See `engines.protocol.Model.parameters`; of the output layer, what is kept."""
        return super().parameters + self._head.numel()

    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        """See `PictureModel.prompts`."""
        asked, silent = self._script.asked(prompt)
        codes = self.shape.codes
        return tuple(i + codes for i in asked), tuple(i + codes for i in silent)

    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        """See `PictureModel.logits`."""
        codes = self.shape.codes
        words = torch.where(ids < codes, self._ids[ids.clamp(max=codes - 1)], ids - codes)
        out = self._body(
            input_ids=words,
            position_ids=positions,
            attention_mask=None if mask is None else mask.to(self.dtype),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return F.linear(out.last_hidden_state, self._head)

    def pixels(self, codes: Tensor) -> Tensor:
        """See `PictureModel.pixels`."""
        return self._pixels.draw(codes)
