"""What is asked of a device beyond arithmetic: to replay a pass, to copy without a wait, and to tell the time.

On a CUDA device a pass is captured as a graph, numbers go there from pinned memory without a wait, and stages are timed
by events in the stream, so that the host runs ahead until it reads a result. A CPU does what it is told at once:
there, replaying a pass is calling it.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Protocol, runtime_checkable

import torch
from torch import Tensor

Pass = Callable[[], Tensor]
"""Runs on buffers that stay where they are, and gives a tensor that the next call may write over."""


@runtime_checkable
class Accelerator(Protocol):
    """What sessions and the driver ask of a device."""

    def capture(self, run: Pass) -> Pass:
        """A pass that has been run before, in the form in which it costs the host one call.

        Raises:
            RuntimeError: where it cannot be captured.
        """
        ...

    def stage(self, host: Tensor) -> Tensor:
        """Numbers of the host where they can be copied from without a wait."""
        ...

    def fetch(self, made: Tensor) -> Tensor:
        """A tensor of the device on the host: the one wait of a pass."""
        ...

    def mark(self, made: Tensor | None = None) -> Any:
        """This moment of the device's work, behind what made a tensor."""
        ...

    def milliseconds(self, since: Any, until: Any) -> float:
        """What lies between two moments, of which the host has seen the end."""
        ...


class Host:
    """A device that the host waits for, as it does for a CPU."""

    def capture(self, run: Pass) -> Pass:
        """See `Accelerator.capture`."""
        return run

    def stage(self, host: Tensor) -> Tensor:
        """See `Accelerator.stage`."""
        return host

    def fetch(self, made: Tensor) -> Tensor:
        """See `Accelerator.fetch`."""
        return made.cpu()

    def mark(self, made: Tensor | None = None) -> float:
        """See `Accelerator.mark`; a tensor of another device is waited for, which reads nothing back."""
        if made is not None and made.is_cuda:
            torch.cuda.synchronize(made.device)
        return time.perf_counter()

    def milliseconds(self, since: float, until: float) -> float:
        """See `Accelerator.milliseconds`."""
        return 1000 * (until - since)


class Cuda:
    """A CUDA device. Graphs made by one instance share their memory, so what one gave is gone with the next replay."""

    _capturing: Final = Lock()
    """Captures take turns: each begins by giving back what memory torch has to spare."""

    def __init__(self, device: torch.device) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        self._pool: Any = None
        self._stream: Any = None
        """Where passes are captured; that of torch lies on one device, which may be another."""

    def capture(self, run: Pass) -> Pass:
        """See `Accelerator.capture`; other threads may go on using the device meanwhile."""
        with self._capturing, torch.cuda.device(self._device):
            graph, self._stream = torch.cuda.CUDAGraph(), self._stream or torch.cuda.Stream(self._device)
            usual = torch.cuda.stream(torch.cuda.current_stream(self._device))  # which a capture that fails leaves
            with usual, torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                out = run()
            self._pool = graph.pool()

        def replay() -> Tensor:
            with torch.cuda.device(self._device):
                graph.replay()
            return out

        return replay

    def stage(self, host: Tensor) -> Tensor:
        """See `Accelerator.stage`. torch keeps pinned memory until the copies from it are done."""
        return host.pin_memory()

    def fetch(self, made: Tensor) -> Tensor:
        """See `Accelerator.fetch`."""
        host = torch.empty(made.shape, dtype=made.dtype, pin_memory=True)
        host.copy_(made, non_blocking=True)
        self.mark().synchronize()
        return host

    def mark(self, made: Tensor | None = None) -> Any:
        """See `Accelerator.mark`; a tensor of another GPU is waited for."""
        if made is not None and made.is_cuda and made.device != self._device:
            torch.cuda.synchronize(made.device)
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def milliseconds(self, since: Any, until: Any) -> float:
        """See `Accelerator.milliseconds`."""
        until.synchronize()
        return float(since.elapsed_time(until))


def accelerator_for(device: torch.device) -> Accelerator:
    """What to ask for a device."""
    return Cuda(device) if device.type == "cuda" else Host()
