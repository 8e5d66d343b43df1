"""Rotary positions from a table, for models whose tokens stand in a picture or a clip."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class PlaceRotary(nn.Module):
    """Rotary positions from a table, in the place of a native class's own."""

    cos: Tensor
    sin: Tensor

    def __init__(self, turned: Float[Tensor, "T D"], silent: int = 0) -> None:
        """Make a table.

        Args:
            turned: Angle of every rotation at every position; the second half of a head repeats the first.
            silent: Positions before the table's, at which queries and keys become 0.
        """
        super().__init__()
        none = turned.new_zeros(silent, turned.shape[1])
        self.register_buffer("cos", torch.cat([none, turned.cos()]), persistent=False)
        self.register_buffer("sin", torch.cat([none, turned.sin()]), persistent=False)

    def forward(
        self, x: Float[Tensor, "B N W"], position_ids: Int[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N D"]]:
        """Cosines and sines of the positions, in the format of `x`."""
        cos, sin = self.cos[position_ids], self.sin[position_ids]
        return cos.to(x.dtype), sin.to(x.dtype)
