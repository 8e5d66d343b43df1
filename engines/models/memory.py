"""Whether a network fits into the memory of its device, before its weights are read."""

from pathlib import Path
from typing import Final

import torch

from engines.models.published_texts import TEXTS
from engines.models.weights import Source

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Number formats that weights may be held in."""
_MEMINFO: Final = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Of a container, where there is one."""
_GIGA: Final = 1e9


def usual(device: str) -> torch.dtype:
    """The number format of published weights on a device where none is asked for."""
    return torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16


def free_bytes(device: str) -> int | None:
    """Memory that can still be taken on a device; None where nobody knows."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    if torch.device(device).type != "cpu":
        return None
    found = [free for free in (_available(), _left_by_container()) if free is not None]
    return min(found) if found else None


def check_room(source: Source, parameters: int, dtype: torch.dtype, device: str) -> None:
    """See that weights fit: on their device, and on their way there in ordinary memory.

    Raises:
        ModelError: where they do not; the message says what was tried, and what would fit.
    """
    needed = parameters * dtype.itemsize
    for place in dict.fromkeys((device, "cpu")):
        free = free_bytes(place)
        if free is not None and needed > free:
            way = "" if place == device else f" on their way to {device}"
            raise source.refuses(
                f"its weights take {_gb(needed)} in {_name(dtype)} on {place}{way}, and {_gb(free)} are free; "
                f"{_remedy(source.name, needed, dtype, free, place == device)}"
            )


def _remedy(name: str, needed: int, dtype: torch.dtype, free: int, there: bool) -> str:
    found = []
    if there and dtype.itemsize == 4 and needed / 2 <= free:
        found.append(f"--dtype bfloat16 takes {_gb(needed / 2)}")
    group = next((text.group for text in TEXTS if text.name == name), "")
    small = [text for text in TEXTS if text.group == group and text.gigabytes * _GIGA * dtype.itemsize / 2 <= free]
    if small:
        largest = max(small, key=lambda text: text.gigabytes)
        found.append(f"{largest.name} takes {_gb(largest.gigabytes * _GIGA * dtype.itemsize / 2)}")
    return ", ".join([*found, "or use a device with more memory" if found else "use a device with more memory"])


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
