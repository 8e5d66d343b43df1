"""What a run will cost, before it is begun: memory from config.json alone, and, if asked, the time of a few passes."""

import statistics
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import torch

from engines.methods import ordinary
from engines.models.catalog import MODELS, open_model, ships
from engines.models.devices import resolve
from engines.models.memory import DTYPES, Needs, Room, free_bytes, usual
from engines.runtime.driver import Run
from engines.runtime.request import Request

_GIGA: Final = 1e9
_LENGTH: Final = 24
"""Tokens of the text that is timed."""
_PROMPT: Final = "How many are left?"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a model takes."""

    name: str
    parameters: int
    dtype: str
    device: str
    bytes: int
    """Of its weights."""
    free: int | None
    """Memory that can still be taken on the device; None where no one knows."""
    cache: int = 0
    """Bytes of KV cache; 0 for what stores none, and for what ships."""
    decoded: str = ""
    """What these are of."""

    def __str__(self) -> str:
        """The sentence that a person reads."""
        room = ""
        if self.free is not None:
            fits = "fits" if self.bytes + self.cache <= self.free else "does not fit"
            room = f", and {self.free / _GIGA:.1f} GB are free ({fits})"
        cache = f", {self.cache / _GIGA:.2f} GB of KV cache for {self.decoded}" if self.cache else ""
        return (
            f"{self.name}: {self.parameters:,} parameters, {self.bytes / _GIGA:.1f} GB of weights in {self.dtype} on "
            f"{self.device}{cache}{room}"
        )


def expect(name: str, device: str | None = None, dtype: str | None = None, room: Room | None = None) -> Expected:
    """What a model takes, with what it keeps of `room`, no tensor of a checkpoint read; raises as `open_model` does."""
    place, room = resolve(device), room or Room()
    if ships(name) or not ("/" in name or Path(name).is_dir()):
        model = open_model(name, device, dtype)
        needs, number = Needs(model.parameters), model.dtype
    else:
        from engines.models import loading  # brings transformers

        needs = loading.needs_of(name)
        number = (DTYPES[dtype] if dtype else usual(place)) if needs.parameters else torch.float32
    dtype_name, count = str(number).removeprefix("torch."), needs.parameters + needs.exact
    sizes = (needs.weights(number), free_bytes(place), needs.cache(number, room))
    return Expected(name, count, dtype_name, place, *sizes, needs.describe(room))


def seconds_per_pass(name: str, passes: int, device: str | None = None, dtype: str | None = None) -> float:
    """Median seconds of ordinary decoding's passes here, without the first two; raises as a run does."""
    model = open_model(name, device, dtype)
    method, config = ordinary(model.families[0], {"length": _LENGTH})
    prompt = None if name in MODELS else _PROMPT
    run = Run(Request(method, model, prompt, config).job())
    took = [step.call.milliseconds.total / 1000 for step in islice(run, passes + 2)]
    return statistics.median(took[2:] or took)
