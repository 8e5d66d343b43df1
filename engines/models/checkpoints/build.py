"""Building networks of transformers, diffusers and this project from weights."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from transformers.utils import is_accelerate_available, logging

from draftscope.engines.models.checkpoint_files import CheckpointDir, other_hashes, weight_hashes
from draftscope.engines.models.checkpoints.families import published_as
from draftscope.engines.models.devices import DISK, parse_devices
from draftscope.engines.models.memory import free_bytes
from draftscope.traces.schema import ModelCard

Network = TypeVar("Network", bound=nn.Module)
State = Mapping[str, Tensor]
"""Tensors by name."""
PIXELS: Final = "pixels"
"""Folder of a model's autoencoder, inside the model's."""
_MAX_LAYERS: Final = 1000
_FILLED: Final = 0.85
"""Share of the free memory of each of several devices that weights may use; the rest is for computations."""


def native_config(source: CheckpointDir, kind: type[Any], settings: Mapping[str, Any]) -> Any:
    """Return a config of transformers.

    Args:
        source: Folder that errors name.
        kind: Class of the config.
        settings: Fields of the class, as in config.json.

    Raises:
        ModelError: If the class refuses a value.
    """
    try:
        return kind.from_dict(dict(settings))
    except Exception as error:  # of many kinds, also of validators
        raise source.unsupported(f"config.json is refused: {error}") from error


def native_network(
    source: CheckpointDir, kind: type[Any], config: Any, state: State, dtype: torch.dtype, device: str = "cpu"
) -> Any:
    """Build a network of a class of transformers, for inference.

    Args:
        source: Folder that errors name.
        kind: Class of the network; a subclass defined here specifies what it omits and what stays in float32.
        config: Its config.
        state: Tensors by the names that the class has for them.
        dtype: Number format that they are converted to.
        device: Device, or several named with commas: then transformers spreads the layers, which requires accelerate.
            The last one may be the disk, where layers stay in temporary files until Python exits.

    Raises:
        ModelError: If the network cannot be built, or a tensor is missing, misshapen, or has no place in it.
    """
    network, unused = built_network(source, kind, config, state, dtype, device)
    if unused:
        raise source.unsupported(f"tensor {unused[0]!r} is in its weights, and {kind.__name__} has no place for it")
    return network


def built_network(
    source: CheckpointDir, kind: type[Any], config: Any, state: State, dtype: torch.dtype, device: str = "cpu"
) -> tuple[Any, list[str]]:
    """Build a network as `native_network` does, but accept tensors that it has no place for.

    Args:
        source: Folder that errors name.
        kind: Class of the network.
        config: Its config.
        state: Tensors by the names that the class has for them.
        dtype: Number format that they are converted to.
        device: Device, or several named with commas.

    Returns:
        The network, and the names of the tensors that were not used, sorted.

    Raises:
        ModelError: If the network cannot be built, or a tensor is missing or misshapen.
    """
    several = len(parse_devices(device)) > 1
    spread: dict[str, Any] = {"device_map": "auto", "max_memory": _shares(source, device)} if several else {}
    if DISK in parse_devices(device):
        spread["offload_folder"] = tempfile.mkdtemp(prefix="draftscope-weights-")
        atexit.register(shutil.rmtree, spread["offload_folder"], ignore_errors=True)
    depth = max(getattr(part, "num_hidden_layers", 0) for part in (config, getattr(config, "text_config", config)))
    if depth > len(state):
        raise source.unsupported(f"config.json has {depth} for 'num_hidden_layers', and there are {len(state)} tensors")
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # what is missing is said below
    logging.disable_progress_bar()
    options = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        network, report = kind.from_pretrained(
            None, config=config, state_dict=dict(state), dtype=dtype, **options, **spread
        )
    except Exception as error:  # invalid sizes fail in layers of all kinds
        raise source.unsupported(f"config.json asks for a network that cannot be built: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
    problems = [f"{name!r} is missing in its weights" for name in sorted(report["missing_keys"])]
    for name, shape, wanted in sorted(report["mismatched_keys"]):
        problems.append(f"{name!r} has shape {list(shape)}, and its config.json asks for {list(wanted)}")
    if problems:
        raise source.unsupported(f"tensor {problems[0]}; use the config.json that was published with these weights")
    network = network.eval().requires_grad_(False)
    return network if several else network.to(device), sorted(report["unexpected_keys"])


def _shares(source: CheckpointDir, device: str) -> dict[int | str, int]:
    """The bytes that transformers may fill of each of several devices."""
    if not is_accelerate_available():
        raise source.unsupported(f"runs on several devices, {device}, with accelerate; do: pip install accelerate")
    free = {one: int(_FILLED * (free_bytes(one) or 0)) for one in parse_devices(device) if one != DISK}
    return {one if one == "cpu" else torch.device(one).index or 0: number for one, number in free.items()}


def on_meta(build: Callable[[], Network]) -> Network:
    """A network without memory for its weights."""
    with torch.device("meta"):
        return build()


def load_state(source: CheckpointDir, network: Network, state: State, dtype: torch.dtype | None = None) -> Network:
    """Give a network its weights, and return it for inference.

    Args:
        source: Folder that errors name.
        network: Network; its own parameters are replaced, not copied to.
        state: A tensor for every parameter and buffer.
        dtype: Number format that they are converted to; by default they keep their own.

    Raises:
        ModelError: If a tensor is missing, misshapen, or has no place in the network.
    """
    try:
        network.load_state_dict({name: part.to(dtype or part.dtype) for name, part in state.items()}, assign=True)
    except RuntimeError as error:
        raise source.unsupported(str(error).partition(":")[2].replace(" in state_dict", " in its weights")) from None
    return network.eval().requires_grad_(False)


def meta_network(source: CheckpointDir, kind: type[Any], config: Any) -> Any:
    """Build a network on the meta device: its parameters have shapes and no memory, and no weights are read.

    Args:
        source: Folder that errors name.
        kind: Class of the network.
        config: Its config.

    Raises:
        ModelError: If the config has too many layers, or the network cannot be built.
    """
    depth = getattr(config, "num_hidden_layers", 0)
    if depth > _MAX_LAYERS:
        raise source.unsupported(f"config.json has {depth} for 'num_hidden_layers', which is not allowed")
    try:
        return on_meta(lambda: kind(config))
    except Exception as error:  # invalid sizes fail in layers of all kinds
        raise source.unsupported(f"config.json asks for a network that cannot be built: {error}") from error


def parameters(source: CheckpointDir, kind: type[Any], config: Any) -> int:
    """Return how many parameters a network has, by its config.

    Args:
        source: Folder that errors name.
        kind: Class of the network.
        config: Its config.

    Raises:
        ModelError: If the network cannot be built.
    """
    return sum(weight.numel() for weight in meta_network(source, kind, config).parameters())


def counted(names: Iterable[str], numbered: str) -> int:
    """Return how many tensors of a numbered series there are, from 0 up to the first gap.

    Args:
        names: Names of all tensors.
        numbered: Name of one of the series, with {} for its number.
    """
    present = set(names)
    return next(number for number in count() if numbered.format(number) not in present)


def renamed(name: str, names: Iterable[tuple[str, str]]) -> str:
    """Return a tensor's name with parts of it replaced.

    Args:
        name: Published name.
        names: Pairs of old and new parts, replaced one after the other, everywhere in the name.
    """
    for old, new in names:
        name = name.replace(old, new)
    return name


def part_of(state: State, prefix: str) -> dict[str, Tensor]:
    """Return the tensors of a part of a network, by their names inside it.

    Args:
        state: Tensors by name.
        prefix: Beginning of the part's names, which is removed.
    """
    return {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}


def card_of(source: CheckpointDir, title: str, *subfolders: CheckpointDir) -> ModelCard:
    """Return the card of a model, with the hashes of all files that were read.

    Args:
        source: Folder of the model.
        title: Family of models, which the card's title begins with.
        subfolders: Folders inside it that were read, too; their names precede those of their files.
    """
    row = published_as(source.name)
    weights = weight_hashes(source)
    for part in subfolders:
        folder = part.name.rpartition("/")[2]
        weights |= {f"{folder}/{name}": digest for name, digest in weight_hashes(part).items()}
    return ModelCard(
        id=source.name,
        title=f"{title}: {source.name.rpartition('/')[2]}",
        weights=weights,
        files=other_hashes(source),
        licence=row.licence if row else "",
    )
