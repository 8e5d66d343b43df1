"""What a run will cost, before it is begun: memory from config.json alone, and, if asked, the time of a few passes."""

import statistics
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


def expect(name: str, device: str | None = None, dtype: str | None = None, room: Room | None = None) -> str:
    """What a model takes, with what it keeps of `room`, in a sentence; raises as `open_model` does.

    No tensor of a checkpoint is read.
    """
    place, room = resolve(device), room or Room()
    if ships(name) or not ("/" in name or Path(name).is_dir()):
        model = open_model(name, device, dtype)
        needs, number = Needs(model.parameters), model.dtype
    else:
        from engines.models import loading  # brings transformers

        needs = loading.needs_of(name)
        number = (DTYPES[dtype] if dtype else usual(place)) if needs.parameters else torch.float32
    weights, kept, free = needs.weights(number), needs.cache(number, room), free_bytes(place)
    cache = f", {kept / _GIGA:.2f} GB of KV cache for {needs.describe(room)}" if kept else ""
    there = ""
    if free is not None:
        fits = "fits" if weights + kept <= free else "does not fit"
        there = f", and {free / _GIGA:.1f} GB are free ({fits})"
    return (
        f"{name}: {needs.parameters + needs.exact:,} parameters, {weights / _GIGA:.1f} GB of weights in "
        f"{str(number).removeprefix('torch.')} on {place}{cache}{there}"
    )


def seconds_per_pass(name: str, passes: int, device: str | None = None, dtype: str | None = None) -> float:
    """Median seconds of ordinary decoding's passes here, without the first two; raises as a run does."""
    model = open_model(name, device, dtype)
    method, config = ordinary(model.families[0], {"length": _LENGTH})
    prompt = None if name in MODELS else _PROMPT
    run = Run(Request(method, model, prompt, config).job())
    took = [step.call.milliseconds.total / 1000 for step in islice(run, passes + 2)]
    return statistics.median(took[2:] or took)
