"""The way to a device for what the host has made."""

import torch
from torch import Tensor


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. The host goes on meanwhile: to a GPU it is copied from pinned memory, without a wait."""
    if device.type != "cuda" or host.is_cuda:
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)
