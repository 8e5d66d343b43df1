"""Whether a network fits into the memory of its device, with what it keeps of a text, before its weights are read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from engines.models.devices import split
from engines.models.errors import ModelError
from engines.models.published_texts import TEXTS
from engines.models.weights import Source

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Number formats that weights may be held in."""
_MEMINFO: Final = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Of a container, where there is one."""
_GIGA: Final = 1e9
_SMALL: Final = 2**26
"""Bytes of keys and values for which nobody is asked what is free."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is to be decoded, as far as memory goes."""

    length: int = 64
    """Positions of a text; pictures and clips have a length of their own."""
    lanes: int = 1
    """Sequences that are decoded together."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model takes, in numbers."""

    parameters: int
    """That are held in the format that is asked for."""
    exact: int = 0
    """That are in float32 whatever is asked for: what makes pixels."""
    position: int = 0
    """Of the keys and values of one position."""
    positions: int = 0
    """Of one sequence; 0 for texts, whose length is asked for."""

    def weights(self, dtype: torch.dtype) -> int:
        """Bytes of the weights."""
        return self.parameters * dtype.itemsize + self.exact * torch.float32.itemsize

    def cache(self, dtype: torch.dtype, room: Room) -> int:
        """Bytes of keys and values."""
        return room.lanes * self.length(room) * self.position * dtype.itemsize

    def length(self, room: Room) -> int:
        """Positions of one sequence."""
        return self.positions or room.length

    def said(self, room: Room) -> str:
        """What is kept, in words."""
        many = "1 sequence" if room.lanes == 1 else f"{room.lanes} sequences"
        return f"{many} of {self.length(room):,} positions"


def cached_numbers(config: Any) -> int:
    """Numbers that a transformer of a native config keeps of one position: keys and values of every layer."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers) * int(heads) * int(width)


def usual(device: str) -> torch.dtype:
    """The number format of published weights on a device where none is asked for; on several, that of the first."""
    return torch.float32 if torch.device(split(device)[0]).type == "cpu" else torch.bfloat16


def free_bytes(device: str) -> int | None:
    """Memory that can still be taken on a device; None where nobody knows."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    if torch.device(device).type != "cpu":
        return None
    found = [free for free in (_available(), _left_by_container()) if free is not None]
    return min(found) if found else None


def free_on(place: str) -> int | None:
    """The same of one device or of several together, as `devices.resolve_several` names them."""
    found = [free_bytes(device) for device in split(place)]
    return None if None in found else sum(free or 0 for free in found)


def check_room(
    source: Source,
    needs: Needs,
    dtype: torch.dtype,
    device: str,
    room: Room | None = None,
    *,
    straight: Callable[[], bool] = lambda: False,
) -> None:
    """See that weights, keys and values fit on their devices, and weights on their way there in ordinary memory.

    Args:
        source: The checkpoint.
        needs: What it takes.
        dtype: What its weights are held in.
        device: One or several, as `devices.resolve_several` names them.
        room: What is to be decoded.
        straight: Tells whether weights take no memory on their way to another device; asked where there is none.

    Raises:
        ModelError: where they do not; the message says what was tried, and what would fit.
    """
    room = room or Room()
    weights, cache = needs.weights(dtype), needs.cache(dtype, room)
    for place in dict.fromkeys((device, "cpu")):
        free, there = free_on(place), place == device
        if free is None or weights + (cache if there else 0) <= free or (not there and straight()):
            continue
        way = "" if there else f" on their way to {device}"
        kept = f", keys and values of {needs.said(room)} {_gb(cache)}" if there and cache >= _SMALL else ""
        raise source.refuses(
            f"its weights take {_gb(weights)} in {_name(dtype)} on {place}{way}{kept}, and {_gb(free)} are free; "
            f"{_remedy(source.name, (needs, room), dtype, place, there)}"
        )


def check_cache(owner: str, needed: int, place: str, lanes: int) -> None:
    """See that the keys and values of sequences that are about to be decoded fit beside what is there.

    Args:
        owner: The model.
        needed: Bytes.
        place: Where they are to be, one device or several.
        lanes: Sequences.

    Raises:
        ModelError: where they do not.
    """
    free = free_on(place) if needed >= _SMALL else None
    if free is not None and needed > free:
        many = "fewer sequences at once, " if lanes > 1 else ""
        raise ModelError(
            f"{owner}: keys and values of {lanes} {'sequences' if lanes > 1 else 'sequence'} take {_gb(needed)} on "
            f"{place}, and {_gb(free)} are free; use {many}a shorter text, a smaller number format or a device with "
            "more memory."
        )


def _remedy(name: str, asked: tuple[Needs, Room], dtype: torch.dtype, place: str, there: bool) -> str:
    """What would fit in place of what was asked for."""
    needs, room = asked
    free, found = free_on(place) or 0, []
    half = needs.weights(torch.bfloat16) + needs.cache(torch.bfloat16, room)
    if there and dtype.itemsize == 4 and half <= free:
        found.append(f"--dtype bfloat16 takes {_gb(half)}")
    left = free - needs.weights(dtype)
    if there and 0 < left < needs.cache(dtype, room) and (lanes := left // needs.cache(dtype, Room(room.length))):
        found.append(f"{lanes} {'sequences fit' if lanes > 1 else 'sequence fits'}")
    for other in _others(place, several=not needs.positions) if there else ():
        number = usual(other)
        if needs.weights(number) + needs.cache(number, room) <= (free_on(other) or 0):
            found.append(f"--device {other} has room for it in {_name(number)}")
    group = next((text.group for text in TEXTS if text.name == name), "")
    small = [text for text in TEXTS if text.group == group and text.gigabytes * _GIGA * dtype.itemsize / 2 <= free]
    if small:
        largest = max(small, key=lambda text: text.gigabytes)
        found.append(f"{largest.name} takes {_gb(largest.gigabytes * _GIGA * dtype.itemsize / 2)}")
    return ", ".join([*found, "or use a device with more memory" if found else "use a device with more memory"])


def _others(place: str, *, several: bool) -> list[str]:
    """Further devices of this machine, and all its GPUs together for what may be spread."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    together = [",".join(gpus)] if several and len(gpus) > 1 else []
    taken = {torch.device(device) for device in split(place)}
    single = [device for device in ("cpu", *gpus) if torch.device(device) not in taken]
    return [*single, *(every for every in together if every != place)]


def _available() -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def _left_by_container() -> int | None:
    try:
        limit, used = (file.read_text(encoding="ascii").strip() for file in (_LIMIT, _USED))
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdigit() and used.isdigit() else None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _gb(count: float) -> str:
    return f"{count / _GIGA:.1f} GB"
