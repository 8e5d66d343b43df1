"""Passes of few shapes, so that each can be captured once and replayed: for devices that wait for the host's calls.

A pass as wide as what is asked for has another shape nearly every time. Here widths and rows go up to the next of a few
sizes, and the cache is looked at as a whole, with a mask. What pads a pass is written to a spare slot that nobody sees.
"""

import logging
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import torch
from torch import Tensor

from engines.config import ConfigError, shown
from engines.models.accelerator import Accelerator, Pass, accelerator_for

VARIABLE: Final = "DRAFTSCOPE_SHAPES"
SHAPES: Final = ("exact", "fixed")
HELP: Final = (
    "exact (passes as wide as what is asked) or fixed (padded to a few sizes, and on CUDA replayed as graphs); "
    f"default: {VARIABLE}, or exact"
)
_WIDTHS: Final = (1, 8, 16, 32, 64, 128)
_LOG: Final = logging.getLogger(__name__)
_asked: ContextVar[str] = ContextVar("shapes", default="")


def resolve(asked: str = "") -> str:
    """One of `SHAPES`: what is asked for, else what the variable says, else exact.

    Raises:
        ConfigError: for anything else.
    """
    name, said = ("shapes", asked) if asked else (VARIABLE, os.environ.get(VARIABLE) or "exact")
    if said not in SHAPES:
        raise ConfigError(f"{name}: {shown(said)} is not allowed; use {' or '.join(SHAPES)}.")
    return said


@contextmanager
def shapes(asked: str) -> Iterator[None]:
    """Sessions that are opened meanwhile have passes of these shapes.

    Raises:
        ConfigError: see `resolve`.
    """
    token = _asked.set(resolve(asked))
    try:
        yield
    finally:
        _asked.reset(token)


def graphs_on(device: torch.device) -> "Graphs | None":
    """Who runs a session's passes at fixed shapes; None where they are exact."""
    return Graphs(device, accelerator_for(device)) if resolve(_asked.get()) == "fixed" else None


def padded_width(width: int) -> int:
    """The width of a pass that has room for `width` tokens a row."""
    most = _WIDTHS[-1]
    return next((size for size in _WIDTHS if width <= size), -(-width // most) * most)


def padded_rows(rows: int) -> int:
    """The next power of two."""
    return 1 << (rows - 1).bit_length()


@dataclass(slots=True)
class _Shape:
    """Passes of one shape."""

    buffers: tuple[Tensor, ...]
    """What they read; it stays where it is."""
    replay: Pass | None = field(default=None)


class Graphs:
    """Runs the passes of one session: the first of a shape as it is, the second captured, and from then on replayed.

    The first one brings the libraries' workspaces and the session's caches into being, which a graph must find ready. A
    pass may run twice on the same buffers, so doing it again must change nothing.
    """

    def __init__(self, device: torch.device, accelerator: Accelerator) -> None:
        self.accelerator, self._device = accelerator, device
        self._shapes: dict[Hashable, _Shape] = {}
        self._captures = True

    def run(self, key: Hashable, work: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Run `work` on inputs that are copied to buffers of the device.

        Args:
            key: Names the shapes of the inputs and whatever else sets one pass apart from another.
            work: Reads nothing that changes but the buffers, and asks nothing of the host.
            inputs: Of the device, or staged on the host.

        Returns:
            What `work` gives; the next run may write over it.
        """
        shape = self._shapes.get(key)
        first = shape is None
        if shape is None:
            empty = (torch.empty(given.shape, dtype=given.dtype, device=self._device) for given in inputs)
            shape = self._shapes[key] = _Shape(tuple(empty))
        for buffer, given in zip(shape.buffers, inputs, strict=True):
            buffer.copy_(given, non_blocking=True)
        if first:
            return work(*shape.buffers)
        if shape.replay is None:
            shape.replay = self._captured(key, partial(work, *shape.buffers))
        return shape.replay()

    def _captured(self, key: Hashable, run: Pass) -> Pass:
        """The graph of a pass, if it can be had and gives what the pass gives; else the pass."""
        if not self._captures:
            return run
        try:
            replay = self.accelerator.capture(run)
            if replay is not run and not _agree(replay().clone(), run()):
                raise RuntimeError("its replay does not give what the pass gives")
        except RuntimeError as error:
            self._captures = False
            why = str(error).strip().partition("\n")[0]
            _LOG.warning("No graph of the pass %s, so this run goes on without graphs: %s", key, why)
            return run
        return replay


def _agree(replayed: Tensor, plain: Tensor) -> bool:
    """Whether two results differ by rounding at most."""
    close = max(1e-3, 8 * torch.finfo(plain.dtype).eps)
    most = float(torch.where(plain.isfinite(), plain, 0).abs().max())
    return torch.allclose(replayed, plain, rtol=close, atol=close * most)
