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
    """A config of transformers."""
    try:
        return kind.from_dict(dict(settings))
    except Exception as error:  # of many kinds, also of validators
        raise source.unsupported(f"config.json is refused: {error}") from error


def native_network(
    source: CheckpointDir, kind: type[Any], config: Any, state: State, dtype: torch.dtype, device: str = "cpu"
) -> Any:
    """Build a network of a class of transformers, for inference.

    Tensors have the class's names and become `dtype`; a subclass defined here specifies what it omits and what stays in
    float32. For several devices, named with commas, transformers spreads the layers, which requires accelerate; the
    last one may be the disk, where layers stay in temporary files until Python exits.
    """
    network, unused = built_network(source, kind, config, state, dtype, device)
    if unused:
        raise source.unsupported(f"tensor {unused[0]!r} is in its weights, and {kind.__name__} has no place for it")
    return network


def built_network(
    source: CheckpointDir, kind: type[Any], config: Any, state: State, dtype: torch.dtype, device: str = "cpu"
) -> tuple[Any, list[str]]:
    """The network of `native_network`, and the names of the tensors for which it has no place."""
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
    """A network with its weights, all of them, in `dtype` or, without one, as they are stored."""
    try:
        network.load_state_dict({name: part.to(dtype or part.dtype) for name, part in state.items()}, assign=True)
    except RuntimeError as error:
        raise source.unsupported(str(error).partition(":")[2].replace(" in state_dict", " in its weights")) from None
    return network.eval().requires_grad_(False)


def meta_network(source: CheckpointDir, kind: type[Any], config: Any) -> Any:
    """A network of this config on the meta device: nothing is laid out in memory, and no weights are read."""
    depth = getattr(config, "num_hidden_layers", 0)
    if depth > _MAX_LAYERS:
        raise source.unsupported(f"config.json has {depth} for 'num_hidden_layers', which is not allowed")
    try:
        return on_meta(lambda: kind(config))
    except Exception as error:  # invalid sizes fail in layers of all kinds
        raise source.unsupported(f"config.json asks for a network that cannot be built: {error}") from error


def parameters(source: CheckpointDir, kind: type[Any], config: Any) -> int:
    """How many parameters a network of this config has; see `meta_network`."""
    return sum(weight.numel() for weight in meta_network(source, kind, config).parameters())


def counted(names: Iterable[str], numbered: str) -> int:
    """How many of a numbered tensor there are, from 0 on; `numbered` has {} for the number."""
    present = set(names)
    return next(number for number in count() if numbered.format(number) not in present)


def renamed(name: str, names: Iterable[tuple[str, str]]) -> str:
    """A tensor's name with parts of it replaced, in this order."""
    for old, new in names:
        name = name.replace(old, new)
    return name


def part_of(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin like that, without that beginning."""
    return {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}


def card_of(source: CheckpointDir, title: str, *subfolders: CheckpointDir) -> ModelCard:
    """Return the card of a model with the hashes of all files that were read, those of subfolders included."""
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
