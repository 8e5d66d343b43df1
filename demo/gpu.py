"""GPUs that are lent: on a ZeroGPU Space, what runs a model goes through `spaces.GPU`; elsewhere, straight on.

A lent GPU is seen by a process of its own. What is run there, what it is given and what it yields therefore are plain
data that can be pickled, and no more than a message is left of an error.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from demo.limits import GPU_MOST_SECONDS, GPU_START_SECONDS, GPU_TOKEN_SECONDS
from engines.config import ConfigError
from engines.models.errors import ModelError

_spaces: Final[Any] = import_module("spaces") if find_spec("spaces") else None

LENT: Final = _spaces is not None and os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
"""Whether there is a GPU only for what goes through `through`."""

Given = TypeVarTuple("Given")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Refused:
    """An error that is the visitor's to mend."""

    kind: type[Exception]
    message: str


def seconds(tokens: int) -> int:
    """How long a GPU is asked for to decode so many tokens one after the other."""
    return min(GPU_MOST_SECONDS, GPU_START_SECONDS + round(GPU_TOKEN_SECONDS * tokens))


def _for(wanted: int, task: Callable[..., Any], *args: Any) -> int:
    return wanted


def _work(wanted: int, task: Callable[..., Iterator[Any]], *args: Any) -> Iterator[Any]:
    """What runs beside the GPU."""
    try:
        yield from task(*args)
    except (ValueError, ModelError) as error:
        yield _Refused(ModelError if isinstance(error, ModelError) else ConfigError, str(error))


_lent = _work if _spaces is None else _spaces.GPU(_work, duration=_for)  # decorated before the app is launched


def through(wanted: int, task: Callable[[Unpack[Given]], Iterator[T]], *args: *Given) -> Iterator[T]:
    """What a generator of a module yields, run where the GPU is, for at most `wanted` seconds where it is lent.

    Raises:
        ConfigError: for a prompt or setting that was refused there.
        ModelError: for a model that cannot be had there.
    """
    for value in _lent(wanted, task, *args):
        if isinstance(value, _Refused):
            raise value.kind(value.message)
        yield value
