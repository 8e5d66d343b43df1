"""Timing of a device's work, and the one copy to the host that a pass ends with.

On a CUDA device stages are timed by events in the stream, so that the host runs ahead until it reads a result.
"""

import time
from typing import Any

import torch
from torch import Tensor


class Host:
    """A device that the host waits for, as it does for a CPU."""

    def fetch(self, result: Tensor) -> Tensor:
        """A tensor of the device on the host: the one wait of a pass."""
        return result.cpu()

    def mark(self, result: Tensor | None = None) -> Any:
        """This moment of the device's work, behind what computed `result`; another device's tensor is waited for."""
        if result is not None and result.is_cuda:
            torch.cuda.synchronize(result.device)
        return time.perf_counter()

    def milliseconds(self, since: Any, until: Any) -> float:
        """The time between two marks, of which the host has seen the end."""
        return 1000 * float(until - since)


class Cuda(Host):
    """A CUDA device, whose marks are events."""

    def __init__(self, device: torch.device) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)

    def fetch(self, result: Tensor) -> Tensor:
        """See `Host.fetch`."""
        host = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        host.copy_(result, non_blocking=True)
        self.mark().synchronize()
        return host

    def mark(self, result: Tensor | None = None) -> Any:
        """See `Host.mark`."""
        if result is not None and result.is_cuda and result.device != self._device:
            torch.cuda.synchronize(result.device)
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def milliseconds(self, since: Any, until: Any) -> float:
        """See `Host.milliseconds`."""
        until.synchronize()
        return float(since.elapsed_time(until))
