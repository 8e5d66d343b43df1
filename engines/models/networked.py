"""What models around a network of torch say of it."""

from abc import ABC, abstractmethod

import torch
from torch import nn


class Networked(ABC):
    """A model around one network."""

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The transformer."""

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""
        return next(self.network.parameters()).dtype

    @property
    def parameters(self) -> int:
        """See `engines.protocol.Model.parameters`."""
        return sum(weight.numel() for weight in self.network.parameters())
