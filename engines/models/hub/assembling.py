"""Networks of native parts, filled with tensors that were read and checked before."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final, Protocol, TypeVar

import torch
from torch import Tensor, nn

from engines.config import shown
from engines.models.memory import Needs
from engines.models.weights import Source, number_of, other_hashes, shapes_in, tensor_heads, weight_hashes
from engines.protocol import Model
from traces.schema import ModelCard

Network = TypeVar("Network", bound=nn.Module)
PIXELS: Final = "pixels"
"""Folder of what draws a picture's tokens, inside the model's."""


class Loader(Protocol):
    """How a module of this package reads the model of a folder."""

    def __call__(self, source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> Model:
        """The model of a folder.

        Args:
            source: Where it is.
            settings: Its config.json.
            device: cpu, cuda, ...
            dtype: Of the transformer's weights, where the model can be held in more than one.

        Raises:
            ModelError: when it is not whole, or asks for another network.
        """
        ...


class Measure(Protocol):
    """How a module of this package tells what the model of a folder takes, before a tensor of it is read."""

    def __call__(self, source: Source, settings: Mapping[str, Any]) -> Needs:
        """What it takes.

        Args:
            source: Where it is.
            settings: Its config.json.

        Raises:
            ModelError: when it is not whole, or asks for another network.
        """
        ...


def outlined(build: Callable[[], Network]) -> Network:
    """A network without memory for its weights, to be filled."""
    with torch.device("meta"):
        return build()


def shapes_of(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def filled(network: Network, state: Mapping[str, Tensor], dtype: torch.dtype, exact: tuple[str, ...] = ()) -> Network:
    """The network with its weights, all of them.

    Args:
        network: As `outlined` makes it.
        state: Tensors by the network's own names.
        dtype: What they become.
        exact: How names of what stays in float32 begin.
    """
    made = {name: part.to(torch.float32 if name.startswith(exact) else dtype) for name, part in state.items()}
    network.load_state_dict(made, assign=True)
    return network.eval().requires_grad_(False)


def check_whole(network: nn.Module) -> None:
    """See that nothing was left without memory."""
    left = [name for name, part in chain(network.named_parameters(), network.named_buffers()) if part.is_meta]
    assert not left, left


def stored(source: Source, ignored: tuple[str, ...] = (), prefix: str = "", tables: tuple[str, ...] = ()) -> int:
    """How many parameters the tensors of a folder hold.

    Args:
        source: The folder.
        ignored: How names begin of what is not built.
        prefix: How names begin of what is counted.
        tables: How names end of what is no parameter.

    Raises:
        ModelError: for files that are missing or broken.
    """
    return sum(
        math.prod(shape)
        for name, shape in shapes_in(tensor_heads(source)).items()
        if name.startswith(prefix) and not name.startswith(ignored) and not name.endswith(tables)
    )


def counted(shapes: Mapping[str, Sequence[int]], named: Callable[[int], str]) -> int:
    """How many of a numbered tensor there are, from 0 on; `named` is what each is called."""
    return next(number for number in count() if named(number) not in shapes)


def renamed(name: str, names: Sequence[tuple[str, str]]) -> str:
    """A tensor's name with parts of it replaced, in this order."""
    for native, published in names:
        name = name.replace(native, published)
    return name


def section(source: Source, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object inside config.json, without what is null.

    Raises:
        ModelError: where there is none.
    """
    found = settings.get(name)
    if not isinstance(found, dict):
        raise source.lacks(f"config.json has {shown(found)} for {name!r}; it is an object")
    return {key: value for key, value in found.items() if value is not None}


def numbers(source: Source, said: Mapping[str, Any], defaults: Mapping[str, int | float]) -> dict[str, int | float]:
    """Numbers of config.json, or what the release has where it is silent; whole ones unless the default is not.

    Raises:
        ModelError: for what is no positive number.
    """
    full = {**defaults, **said}
    return {name: number_of(source, full, name, isinstance(usual, float)) for name, usual in defaults.items()}


def check_fixed(source: Source, said: Mapping[str, Any], fixed: Mapping[str, object], title: str) -> None:
    """See that fields which are there have the one value that was built.

    Raises:
        ModelError: for the first that has another.
    """
    for name, value in fixed.items():
        if said.get(name, value) != value:
            raise source.lacks(f"config.json has {shown(said[name])} for {name!r}; {title} is built for {value!r}")


def card_of(source: Source, title: str, *beside: Source, licence: str = "") -> ModelCard:
    """Who a model is: its name, and the hashes of all that was read.

    Args:
        source: Where it is.
        title: Of its family.
        beside: Folders inside that one, or others that it needs, with weights of their own.
        licence: Of the weights of that family, as far as it was seen.
    """
    weights = weight_hashes(source)
    for part in beside:
        own = part.name.rpartition("/")[2]
        weights |= {f"{own}/{name}": digest for name, digest in weight_hashes(part).items()}
    return ModelCard(
        id=source.name,
        title=f"{title}: {source.name.rpartition('/')[2]}",
        weights=weights,
        files=other_hashes(source),
        licence=licence,
    )


def folder_in(source: Source, name: str) -> Source:
    """A folder inside a checkpoint's."""
    return replace(source, folder=source.folder / name, name=f"{source.name}/{name}")
