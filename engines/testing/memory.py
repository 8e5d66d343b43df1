"""What a cache would do to a model that has none: tokens said to be cached are those that were fed, not those asked."""

from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from engines.ar.request import Forward
from engines.continuous.request import PathForward

R = TypeVar("R", Forward, PathForward)


class Memory:
    """The tokens that went through a model, by sequence."""

    def __init__(self) -> None:
        self._fed: dict[int, Tensor] = {}

    def seen(self, sequence: int, request: R) -> R:
        """The request as a cached model sees it: `cached` tokens are those it was fed before.

        Raises:
            ValueError: where fewer were fed than are said to be cached.
        """
        fed = self._fed.get(sequence, request.tokens[:0])
        if request.cached > len(fed):
            raise ValueError(f"cached: {request.cached} tokens are said to be cached, and {len(fed)} were fed.")
        tokens = torch.cat([fed[: request.cached], request.tokens[request.cached :]])
        self._fed[sequence] = tokens
        return replace(request, tokens=tokens)
