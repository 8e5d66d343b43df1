"""Memory estimate of a run, from config.json alone."""

from pathlib import Path
from typing import Final

import torch

from draftscope.engines.models.catalog import is_bundled, open_model
from draftscope.engines.models.devices import parse_devices, resolve_devices
from draftscope.engines.models.memory import DTYPES, MemoryBudget, MemoryRequirement, default_dtype, free_on
from draftscope.engines.models.model_info import GGUF

_GIGA: Final = 1e9


def estimate_memory(
    name: str, device: str | None = None, dtype: str | None = None, room: MemoryBudget | None = None
) -> str:
    """Return a sentence on the memory that a model needs; no tensor of a checkpoint is read.

    Args:
        name: Model id, folder, GGUF file or OWNER/NAME.
        device: Device, or several separated by commas; None for the best available.
        dtype: Name of a data type; None for the default of the device.
        room: Positions and sequences of the KV cache.

    Raises:
        ModelError: As `open_model` does, for an unknown model, device or data type.
    """
    devices, room = resolve_devices(device), room or MemoryBudget()
    if is_bundled(name) or not ("/" in name or Path(name).is_dir() or name.lower().endswith(GGUF)):
        model = open_model(name, device, dtype)
        needs, number, devices = MemoryRequirement(model.num_parameters), model.dtype, parse_devices(devices)[0]
    else:
        from draftscope.engines.models import loading  # brings transformers

        needs = loading.needs_of(name)
        devices = parse_devices(devices)[0] if needs.positions else devices  # pictures and clips run on one
        number = (DTYPES[dtype] if dtype else default_dtype(devices)) if needs.parameters else torch.float32
    weights, cache_bytes, free = needs.weights(number), needs.cache(number, room), free_on(devices)
    cache = f", {cache_bytes / _GIGA:.2f} GB of KV cache for {needs.describe(room)}" if cache_bytes else ""
    free_text = ""
    if free is not None:
        fits = "fits" if weights + cache_bytes <= free else "does not fit"
        free_text = f", and {free / _GIGA:.1f} GB are free ({fits})"
    return (
        f"{name}: {needs.parameters + needs.exact:,} parameters, {weights / _GIGA:.1f} GB of weights in "
        f"{str(number).removeprefix('torch.')} on {devices}{cache}{free_text}"
    )
