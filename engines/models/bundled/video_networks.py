"""The transformer of the studio video model: over the codes of clips, which the image model's tokenizer makes."""

from typing import Final, cast

from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.cache_utils import Cache

from engines.models.bundled.networks import CODES, GRID, TransformerSize, backbone
from engines.models.networked import hidden_states

FRAMES: Final = 9
GIVEN_FRAMES: Final = 2
"""From two frames on, one sees what moves and where to."""
PLANE: Final = GRID**2
LENGTH: Final = FRAMES * PLANE
GIVEN: Final = GIVEN_FRAMES * PLANE


class VideoTransformer(nn.Module):
    """p(next code | codes so far), frame by frame, each in raster order: transformers' Qwen3Model.

    Time, row and column of the slot that is predicted are added to the input, each from a table of its own.
    """

    def __init__(self, size: TransformerSize | None = None) -> None:
        super().__init__()
        size = size or TransformerSize()
        self.backbone = backbone(CODES, LENGTH, size)
        self.time = nn.Embedding(FRAMES, size.width)
        self.row = nn.Embedding(GRID, size.width)
        self.column = nn.Embedding(GRID, size.width)
        self.head = nn.Linear(size.width, CODES, bias=False)
        for table in (self.time, self.row, self.column, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(
        self,
        ids: Int[Tensor, "B N"],
        positions: Int[Tensor, "B N"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 N S"] | None = None,
    ) -> Float[Tensor, "B N K"]:
        """Logits of the code after each input. See `networks.Transformer.forward`."""
        slot = (positions + 1).clamp(max=LENGTH - 1)
        place = self.time(slot // PLANE) + self.row(slot // GRID % GRID) + self.column(slot % GRID)
        embedded = self.backbone.embed_tokens(ids) + place
        return cast(Tensor, self.head(hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded)))
