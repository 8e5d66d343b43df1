"""How far apart rotary positions turn, as config.json says it: as trained, or stretched for longer texts."""

from collections.abc import Mapping
from typing import Any, Final

from engines.config import shown
from engines.models.weights import Source, number_of

_STRETCHES: Final = {
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "linear": ("factor",),
}
"""Kind of stretching -> its numbers. Those that depend on the length of a text are left out: keys that are cached
would have to turn again."""


def read_scaling(source: Source, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What native classes call `rope_parameters`, without the base.

    Raises:
        ModelError: for a stretch that is not built, or numbers that are none.
    """
    said = settings.get("rope_parameters") or settings.get("rope_scaling")
    if said is None:
        return {"rope_type": "default"}
    kind = said.get("rope_type", said.get("type")) if isinstance(said, dict) else said
    if kind == "default":
        return {"rope_type": "default"}
    if not isinstance(said, dict) or kind not in _STRETCHES:
        built = ", ".join(_STRETCHES)
        raise source.refuses(f"config.json has {shown(said)} for 'rope_scaling'; it may be null or one of {built}")
    return {"rope_type": kind} | {name: number_of(source, said, name, True) for name in _STRETCHES[kind]}
