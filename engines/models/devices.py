"""Where models run: on the device that is named, else what DRAFTSCOPE_DEVICE says, else the best there is."""

import argparse
import os
import re
from typing import Final

import torch

from engines.config import ConfigError
from engines.models.errors import ModelError

VARIABLE: Final = "DRAFTSCOPE_DEVICE"
_NAMED: Final = "auto, cpu, cuda, cuda:N or mps"
HELP: Final = f"{_NAMED}; default: {VARIABLE}, or auto, which takes a GPU of CUDA if there is one"
_NAMES: Final = re.compile(r"auto|cpu|cuda(:\d+)?|mps")


def resolve(name: str | None = None) -> str:
    """The device to run on, as torch calls it.

    Raises:
        ConfigError: for what is no device's name.
        ModelError: for a device that is not there, or cannot do what is needed.
    """
    field, name = ("device", name) if name else (VARIABLE, os.environ.get(VARIABLE) or "auto")
    if not _NAMES.fullmatch(name):
        raise ConfigError(f"{field}: {name!r} is no device; use {_NAMED}.")
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
