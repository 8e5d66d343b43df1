"""Devices of models: the named one, else DRAFTSCOPE_DEVICE, else the best available."""

import argparse
import os
import re
from typing import Final

import torch

from draftscope.engines.models.errors import ModelError
from draftscope.engines.settings import ConfigError

VARIABLE: Final = "DRAFTSCOPE_DEVICE"
_NAMED: Final = "auto, cpu, cuda, cuda:N or mps"
HELP: Final = f"{_NAMED}; default: {VARIABLE}, or auto, which takes a GPU of CUDA if there is one"
DISK: Final = "disk"
"""The last of several devices: what does not fit on the others is read from a file in every pass."""
_NAMES: Final = re.compile(r"auto|cpu|cuda(:\d+)?|mps")


def resolve(name: str | None = None) -> str:
    """Return the device to run on, by its torch name.

    Raises:
        ConfigError: If the name is invalid.
        ModelError: If the device is missing or lacks a required feature.
    """
    field, name = ("device", name) if name else (VARIABLE, os.environ.get(VARIABLE) or "auto")
    if not _NAMES.fullmatch(name):
        raise ConfigError(f"{field}: {name!r} is not a device; use {_NAMED}.")
    return _available(field, name)


def resolve_devices(names: str | None = None) -> str:
    """Return one or several devices, each once, separated by commas; several require a language model."""
    field, value = ("device", names) if names else (VARIABLE, os.environ.get(VARIABLE) or "auto")
    parts = value.split(",")
    if len(parts) == 1:
        return resolve(names)
    last = [DISK] if parts[-1] == DISK else []
    parts = parts[: len(parts) - len(last)]
    if wrong := [name for name in parts if name == "auto" or not _NAMES.fullmatch(name)]:
        remedy = "use cpu, cuda:N or mps, each once, and disk at the end"
        raise ConfigError(f"{field}: {wrong[0]!r} in {value!r} is not a device; {remedy}.")
    if len({(torch.device(name).type, torch.device(name).index or 0) for name in parts}) < len(parts):
        raise ConfigError(f"{field}: {value!r} names a device twice; use each once.")
    return ",".join([*(_available(field, name) for name in parts), *last])


def parse_devices(names: str) -> list[str]:
    """The devices of what `resolve_devices` gives; what cannot be spread runs on the first."""
    return names.split(",")


def _available(field: str, name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{field}: {name!r} is not available here; use auto or cpu.") from error
    try:
        torch.empty(0, device=name, dtype=torch.float64)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"{field}: {name!r} has no float64, in which drafts are accepted; use auto or cpu.") from error
    return name


def add_option(parser: argparse.ArgumentParser) -> None:
    """Give a command `--device`, which is resolved while its arguments are read."""
    parser.add_argument("--device", type=_argument, default="", help=HELP)  # argparse reads a default that is text, too


def _argument(text: str) -> str:
    try:
        return resolve(text)
    except (ConfigError, ModelError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
