"""The way to a device for what the host has made."""

import torch
from torch import Tensor


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device, without waiting for the copy.

    Args:
        host: Tensor on the host, copied from pinned memory to a GPU; one that is on a GPU already is moved as usual.
        device: Device of the result.
    """
    if device.type != "cuda" or host.is_cuda:
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)
