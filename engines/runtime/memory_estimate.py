"""What a run will cost in memory, before it is begun and from config.json alone."""

from pathlib import Path
from typing import Final

import torch

from engines.models.catalog import open_model, ships
from engines.models.devices import resolve_several, split
from engines.models.memory import DTYPES, Needs, Room, free_on, usual

_GIGA: Final = 1e9


def expect(name: str, device: str | None = None, dtype: str | None = None, room: Room | None = None) -> str:
    """What a model takes, with what it keeps of `room`, in a sentence; raises as `open_model` does.

    No tensor of a checkpoint is read.
    """
    place, room = resolve_several(device), room or Room()
    if ships(name) or not ("/" in name or Path(name).is_dir()):
        model = open_model(name, device, dtype)
        needs, number, place = Needs(model.parameters), model.dtype, split(place)[0]
    else:
        from engines.models import loading  # brings transformers

        needs = loading.needs_of(name)
        place = split(place)[0] if needs.positions else place  # pictures and clips run on one
        number = (DTYPES[dtype] if dtype else usual(place)) if needs.parameters else torch.float32
    weights, kept, free = needs.weights(number), needs.cache(number, room), free_on(place)
    cache = f", {kept / _GIGA:.2f} GB of KV cache for {needs.describe(room)}" if kept else ""
    there = ""
    if free is not None:
        fits = "fits" if weights + kept <= free else "does not fit"
        there = f", and {free / _GIGA:.1f} GB are free ({fits})"
    return (
        f"{name}: {needs.parameters + needs.exact:,} parameters, {weights / _GIGA:.1f} GB of weights in "
        f"{str(number).removeprefix('torch.')} on {place}{cache}{there}"
    )
