"""Software and hardware of a run, to interpret its timing and to repeat it."""

import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Final

import torch

from draftscope.traces.files import ROOT
from draftscope.traces.schema import Environment

_LIBRARIES: Final = ("torch", "transformers", "diffusers", "numpy")


def environment(device: torch.device, dtype: torch.dtype) -> Environment:
    """Return the environment of a run.

    Args:
        device: Device of the target.
        dtype: Number format of its weights.
    """
    return Environment(
        device=device_name(device),
        dtype=str(dtype).removeprefix("torch."),
        python=platform.python_version(),
        platform=platform.system(),
        libraries=_versions(),
        commit=commit(),
        threads=torch.get_num_threads(),
    )


@cache
def _versions() -> Mapping[str, str]:
    """Versions of what decides numbers; to look them up takes as long as a pass of a small model."""
    return {library: version(library) for library in _LIBRARIES}


def device_name(device: torch.device) -> str:
    """Return the name of a device: the GPU's name, or the kind of device and the machine's architecture."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({platform.machine()})"


@cache
def commit() -> str:
    """Commit of this project, with "+dirty" when files have changed; empty outside a git checkout."""
    root = ROOT
    if not (root / ".git").exists():  # An installed package may be inside another project's checkout.
        return ""
    command = ["git", "--no-optional-locks", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+dirty"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
