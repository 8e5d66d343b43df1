"""A language model over several devices: layers lie on one after the other, everything else on the first.

A layer brings what it is given to its own device: states where a border is crossed, positions and masks each time.
Keys and values lie where their layer does. Each device is filled as far as its memory goes, so that what fits on the
first crosses no border; which order layers have is no choice, since a pass goes through all of them in turn.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from engines.models.memory import Room, cached_numbers, free_bytes

_FILLED: Final = 0.85
"""Of what is free on a device; the rest is for what a pass computes."""


def spread(network: Any, devices: Sequence[torch.device], room: Room) -> None:
    """Put a causal-LM network of transformers on several devices.

    Args:
        network: With its layers in `model.layers` and the last norm in `model.norm`.
        devices: The first one has embedding, norm and head, too.
        room: What is to be decoded, for its keys and values.
    """
    layers, network.model.layers = network.model.layers, nn.ModuleList()
    rest = size_of(network)
    network.to(devices[0])
    network.model.layers = layers
    cache = room.lanes * room.length * cached_numbers(network.config) * network.dtype.itemsize // len(layers)
    homes = shares([size_of(layer) + cache for layer in layers], rest, [free_bytes(str(device)) for device in devices])
    for layer, home in zip(layers, homes, strict=True):
        layer.to(devices[home])
        layer.register_forward_pre_hook(partial(_bring, devices[home]), with_kwargs=True)
    network.model.norm.register_forward_pre_hook(partial(_bring, devices[0]), with_kwargs=True)


def shares(layers: Sequence[int], rest: int, free: Sequence[int | None]) -> list[int]:
    """The number of the device of every layer.

    Args:
        layers: Bytes of each.
        rest: Bytes that the first device has besides.
        free: Bytes that are free on each device; where one is unknown, all have the same number of layers.

    Returns:
        Numbers that never fall; the last device takes what is left, whether there is room or not.
    """
    known = [own for own in free if own is not None]
    if len(known) < len(free):
        return [i * len(free) // len(layers) for i in range(len(layers))]
    left = [_FILLED * own for own in known]
    left[0] -= rest
    homes: list[int] = []
    for size in layers:
        home = homes[-1] if homes else 0
        while home < len(left) - 1 and left[home] < size:
            home += 1
        left[home] -= size
        homes.append(home)
    return homes


def size_of(module: nn.Module) -> int:
    """Bytes of the parameters of a part; shared ones count once."""
    return sum(weight.numel() * weight.itemsize for weight in module.parameters())


def _bring(device: torch.device, _: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What a layer is given, on its device."""
    return _on(device, args), {name: _on(device, value) for name, value in kwargs.items()}


def _on(device: torch.device, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    return tuple(_on(device, part) for part in value) if isinstance(value, tuple) else value
