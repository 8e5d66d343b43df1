"""Whether a network fits into the memory of its device, with what it keeps of a text, before its weights are read."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.families import published_as
from draftscope.engines.models.devices import DISK, parse_devices
from draftscope.engines.models.errors import ModelError

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_MEMINFO: Final = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Memory limit and usage of a container, if there is one."""
_GIGA: Final = 1e9
_SMALL: Final = 2**26
"""Bytes of a KV cache below which free memory is not checked."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Size of the output, which determines the memory."""

    length: int = 64
    """Positions of a text; pictures and clips have a length of their own."""
    num_sequences: int = 1
    """Sequences that are decoded together."""


@dataclass(frozen=True, slots=True)
class MemoryRequirement:
    """Memory requirement of a model."""

    parameters: int
    """Parameters held in the requested data type."""
    exact: int = 0
    """Parameters always held in float32: those that compute pixels."""
    position: int = 0
    """In the KV cache of one position."""
    positions: int = 0
    """Positions of one sequence; 0 for texts, whose length is a setting."""
    stored: torch.dtype | None = None
    """The number format of all its tensors, where they stay in their files until they are sent to a device."""

    def weights(self, dtype: torch.dtype) -> int:
        """Bytes of the weights."""
        return self.parameters * dtype.itemsize + self.exact * torch.float32.itemsize

    def cache(self, dtype: torch.dtype, room: MemoryBudget) -> int:
        """Return the bytes of the KV cache.

        Args:
            dtype: Number format of keys and values.
            room: Number of sequences, and their length for texts.
        """
        return room.num_sequences * (self.positions or room.length) * self.position * dtype.itemsize

    def describe(self, room: MemoryBudget) -> str:
        """Return the size of the caches, in words."""
        many = "1 sequence" if room.num_sequences == 1 else f"{room.num_sequences} sequences"
        return f"{many} of {self.positions or room.length:,} positions"


def cached_numbers(config: Any) -> int:
    """Numbers in the KV cache of one position, by a config of transformers; 0 for a network without attention."""
    config = config.get_text_config()
    num_heads = getattr(config, "num_attention_heads", None)
    if not num_heads:
        return 0
    heads = getattr(config, "num_key_value_heads", None) or num_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // num_heads
    return 2 * int(config.num_hidden_layers) * int(heads) * int(width)


def default_dtype(device: str) -> torch.dtype:
    """Return the default data type of published weights on a device; for several, that of the first."""
    return torch.float32 if torch.device(parse_devices(device)[0]).type == "cpu" else torch.bfloat16


def free_bytes(device: str) -> int | None:
    """Return the free memory of a device, or the free room for temporary files; None if unknown."""
    if device == DISK:
        return shutil.disk_usage(tempfile.gettempdir()).free
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    if torch.device(device).type != "cpu":
        return None
    lines, limit, used = _read(_MEMINFO).splitlines(), _read(_LIMIT), _read(_USED)
    free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    free += [int(limit) - int(used)] if limit.isdigit() and used.isdigit() else []
    return min(free, default=None)


def free_on(devices: str) -> int | None:
    """Return the free memory of one device or of several together, as named by `devices.resolve_devices`."""
    free = [free_bytes(device) for device in parse_devices(devices)]
    return None if None in free else sum(one or 0 for one in free)


def check_memory(
    source: CheckpointDir, needs: MemoryRequirement, dtype: torch.dtype, device: str, room: MemoryBudget | None = None
) -> None:
    """Raise ModelError with a remedy unless weights and KV cache fit into the memory, also while loading.

    Args:
        source: Folder of the checkpoint, which the error names.
        needs: What the model needs.
        dtype: Number format that its weights are loaded in.
        device: Device, or several named with commas, whose free memory is added up.
        room: Size of the output; by default one text of 64 tokens.
    """
    room = room or MemoryBudget()
    weights, cache, free = needs.weights(dtype), needs.cache(dtype, room), free_on(device)
    takes = f"its weights take {_gb(weights)} in {_name(dtype)} on"
    if free is not None and weights + cache > free:
        cache_text = f", the KV cache of {needs.describe(room)} {_gb(cache)}" if cache >= _SMALL else ""
        remedies = list(_remedies(source.name, needs, room, dtype, device, free))
        last = "or use a device with more memory" if remedies else "use a device with more memory"
        raise source.unsupported(
            f"{takes} {device}{cache_text}, and {_gb(free)} are free; {', '.join([*remedies, last])}"
        )
    here = free_on("cpu")
    if device != "cpu" and here is not None and weights > here and needs.stored != dtype:
        raise source.unsupported(
            f"{takes} cpu on their way to {device}, and {_gb(here)} are free; use a machine with more memory"
        )


def _remedies(
    name: str, needs: MemoryRequirement, room: MemoryBudget, dtype: torch.dtype, device: str, free: int
) -> Iterator[str]:
    """Yield remedies that would fit."""
    if dtype == torch.float32 and (half := needs.weights(torch.bfloat16) + needs.cache(torch.bfloat16, room)) <= free:
        yield f"--dtype bfloat16 takes {_gb(half)}"
    each = needs.cache(dtype, MemoryBudget(room.length))
    if each and 0 < (fitting := (free - needs.weights(dtype)) // each) < room.num_sequences:
        yield f"{fitting} {'sequences fit' if fitting > 1 else 'sequence fits'}"
    for other in _others(device, several=not needs.positions):
        other_dtype = default_dtype(other)
        if needs.weights(other_dtype) + needs.cache(other_dtype, room) <= (free_on(other) or 0):
            yield f"--device {other} has room for it in {_name(other_dtype)}"
    row = published_as(name)
    sizes = [(one.gigabytes * _GIGA * dtype.itemsize / 2, one.name) for one in row.examples] if row else []
    if smaller := [(size, other) for size, other in sizes if size <= free]:
        size, other = max(smaller)
        yield f"{other} takes {_gb(size)}"


def check_cache(owner: str, needed: int, devices: str, lanes: int) -> None:
    """Raise ModelError unless a KV cache fits into the free memory.

    Args:
        owner: Model that the error names.
        needed: Bytes of the cache; small ones are not checked.
        devices: Device, or several named with commas, whose free memory is added up.
        lanes: Sequences that the cache is for, as the error reports.
    """
    free = free_on(devices) if needed >= _SMALL else None
    if free is not None and needed > free:
        many, fewer = ("sequences", "fewer sequences at once, ") if lanes > 1 else ("sequence", "")
        raise ModelError(
            f"{owner}: the KV cache of {lanes} {many} takes {_gb(needed)} on {devices}, and {_gb(free)} are free; use "
            f"{fewer}a shorter text, a smaller number format or a device with more memory."
        )


def _others(devices: str, *, several: bool) -> list[str]:
    """Further devices of this machine, and all its GPUs together for what may be spread."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    together = [",".join(gpus)] if several and len(gpus) > 1 else []
    used = {torch.device(device) for device in parse_devices(devices) if device != DISK}
    single = [device for device in ("cpu", *gpus) if torch.device(device) not in used]
    return [*single, *(name for name in together if name != devices)]


def _read(file: Path) -> str:
    """A file of Linux; empty where there is none."""
    return file.read_text(encoding="ascii").strip() if file.is_file() else ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _gb(count: float) -> str:
    return f"{count / _GIGA:.1f} GB"
