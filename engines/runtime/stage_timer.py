"""Timing of a device's work, stage by stage, and the one copy to the host that a pass ends with.

On a CUDA device stages are timed by events in the stream, so that the host runs ahead until it reads a result.
"""

import time
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor
from typing_extensions import override

from draftscope.traces.schema import Milliseconds

_STAGES: Final = ("prepare", "forward", "logits", "decide")


class Host:
    """A device that the host waits for, as it does for a CPU."""

    def fetch(self, result: Tensor) -> Tensor:
        """A tensor of the device on the host: the one wait of a pass."""
        return result.cpu()

    def mark(self, result: Tensor | None = None) -> Any:
        """Return a marker of the device's progress after it has computed `result`.

        Other devices' tensors are waited for.
        """
        if result is not None and result.is_cuda:
            torch.cuda.synchronize(result.device)
        return time.perf_counter()

    def milliseconds(self, since: Any, until: Any) -> float:
        """Return the time between two marks of `mark`.

        Args:
            since: Mark at the beginning.
            until: Mark at the end, which the host has passed.
        """
        return 1000 * float(until - since)


class Cuda(Host):
    """A CUDA device, whose marks are events."""

    def __init__(self, device: torch.device) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)

    @override
    def fetch(self, result: Tensor) -> Tensor:
        host = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        host.copy_(result, non_blocking=True)
        self.mark().synchronize()
        return host

    @override
    def mark(self, result: Tensor | None = None) -> Any:
        if result is not None and result.is_cuda and result.device != self._device:
            torch.cuda.synchronize(result.device)
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    @override
    def milliseconds(self, since: Any, until: Any) -> float:
        until.synchronize()
        return float(since.elapsed_time(until))


class StageTimer:
    """Notes when the stages of one round end, and waits for none of them."""

    def __init__(self, accelerator: Host) -> None:
        self._accelerator = accelerator
        self._marks: list[tuple[str, Any]] = [("", accelerator.mark())]

    def lap(self, stage: str, result: Tensor | None = None) -> None:
        """End a stage.

        Args:
            stage: Its name in the trace; the time since the last mark is added to it.
            result: Result of the stage, which exists once it has ended.
        """
        self._marks.append((stage, self._accelerator.mark(result)))

    def milliseconds(self) -> Milliseconds:
        """Return the durations of the stages, after the host has read the result of the last one."""
        spent = dict.fromkeys(_STAGES, 0.0)
        for (_, since), (stage, until) in pairwise(self._marks):
            spent[stage] += self._accelerator.milliseconds(since, until)
        return Milliseconds(**{stage: round(took, 4) for stage, took in spent.items()})
