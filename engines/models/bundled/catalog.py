"""The models that come with the project: studio models, whose weights ship, and toys, which have none."""

from collections.abc import Mapping
from typing import Final

from draftscope.engines.models.bundled import tally
from draftscope.engines.models.bundled.prompts import SCENES, THINGS
from draftscope.engines.models.model_info import ModelInfo
from draftscope.engines.protocol import Family
from draftscope.traces.schema import ModelCard

_SHIPS: Final = "nothing: weights ship in assets/models"
_DRAWS: Final = (_SHIPS, "an owl in the forest", f"Say one of {len(THINGS)} things in one of {len(SCENES)} scenes.")
_TOY: Final = ("nothing: closed-form distributions", "", "Takes no prompt.")
_SOLVES: Final = (
    _SHIPS,
    "A carton of juice is 10 ozs of juice. Robert drinks 5 cartons of juice. If juice has 3 calories per oz how many "
    "calories did he consume?",
    "Solves short grade-school maths problems of ten kinds.",
)
_COUNTS: Final = (
    _SHIPS,
    tally.EXAMPLE,
    f"Keeps a tally: a number from {tally.FIRST} to {tally.LAST}, and {tally.MIN_EVENTS} to {tally.MAX_EVENTS} "
    f"events, each a name and 1 to {tally.MOST} more or fewer. Names: {', '.join(tally.NAMES)}. An answer has a line "
    f"of up to {tally.LINE} tokens for every event.",
)
"""Kinds of models: requirements, an example prompt, and help for the prompt field."""
_LARGE_BLOCKS: Final = (("block", "32"),)
"""The largest that the studio models know: what tells the methods apart hardly shows in blocks of 8."""
_STORY: Final = (*_LARGE_BLOCKS, ("length", 104))
_TALLY: Final = (*_STORY, ("psd.block", "8"), ("psd.tau", 0.85), ("psd.row_cost", 0.15))  # PSD at its fastest
_NAMED: Final = (("guidance", 2.0), ("top_k", 50))
"""With which nearly all pictures show what was asked; without, a third do not."""
PATCHES: Final = (("last_timestep", 150),)
"""The timestep below which there is hardly more than the noise that tokens carry."""
_CODES: Final[tuple[Family, ...]] = ("discrete-ar",)
_VECTORS: Final[tuple[Family, ...]] = ("continuous-ar",)
_BLOCKS: Final[tuple[Family, ...]] = ("diffusion-lm", "discrete-ar")
_FULL: Final[tuple[Family, ...]] = ("diffusion-lm",)

OURS: Final[dict[str, tuple[ModelInfo, ...]]] = {
    "draftscope.engines.models.bundled.image": (
        ModelInfo(
            "studio-image", "Studio image model, 96x96", _CODES, *_DRAWS, "studio-image-draft", form_defaults=_NAMED
        ),
        ModelInfo("studio-image-draft", "Studio image model, small drafter", _CODES, *_DRAWS, form_defaults=_NAMED),
    ),
    "draftscope.engines.models.bundled.video": (
        ModelInfo(
            "studio-video",
            "Studio video model, 9 frames of 96x96",
            _CODES,
            _SHIPS,
            "clip 6",
            "Continues a held-out clip after its first two frames: clip 1 to clip 48. On the command line, also the "
            "path of a GIF or MP4.",
            clips=True,
        ),
    ),
    "draftscope.engines.models.toys.toy_raster": (
        ModelInfo("toy-raster", "Toy raster, 16x16 grey levels", _CODES, *_TOY, "toy-raster-small"),
        ModelInfo("toy-raster-small", "Toy raster, small model", _CODES, *_TOY),
    ),
    "draftscope.engines.models.bundled.patch": (
        ModelInfo(
            "patch-target",
            "Studio patch model, 96x96",
            _VECTORS,
            *_DRAWS,
            "patch-draft",
            mixture="patch-mixture",
            form_defaults=(*PATCHES, ("drafter", "mixture"), ("gamma", 3), ("verdict", "maximal")),
        ),
        ModelInfo("patch-draft", "Small studio patch model", _VECTORS, *_DRAWS, form_defaults=PATCHES),
        ModelInfo("patch-mixture", "Small studio patch model, mixture of Gaussians", _VECTORS, *_DRAWS),
        ModelInfo(
            "patch-masked",
            "Studio patch model, masked",
            _VECTORS,
            *_DRAWS,
            form_defaults=(*PATCHES, ("tokens_per_step", 8)),
        ),
    ),
    "draftscope.engines.models.toys.toy_field": (
        ModelInfo("toy-field", "Toy field, 12x12 colours", _VECTORS, *_TOY, "toy-field-small"),
        ModelInfo("toy-field-small", "Toy field, small model", _VECTORS, *_TOY),
    ),
    "draftscope.engines.models.bundled.language": (
        ModelInfo("tally-target", "Tally, many right wordings", _BLOCKS, *_COUNTS, "tally-draft", form_defaults=_TALLY),
        ModelInfo("tally-draft", "Tally, small", _BLOCKS, *_COUNTS, form_defaults=_STORY),
        ModelInfo("tally-full", "Tally, small and bidirectional", _FULL, *_COUNTS, form_defaults=_STORY),
        ModelInfo("text-target", "Studio language model", _BLOCKS, *_SOLVES, "text-draft", form_defaults=_LARGE_BLOCKS),
        ModelInfo("text-draft", "Studio language model, small", _BLOCKS, *_SOLVES, form_defaults=_LARGE_BLOCKS),
    ),
    "draftscope.engines.models.bundled.smollm2_block": (
        ModelInfo(
            "smollm2-block",
            "SmolLM2 135M Instruct in blocks",
            _BLOCKS,
            "smollm2, which draftscope model download smollm2 fetches; its adapter ships in assets/models",
            "What is the capital of France? Answer in one sentence.",
            "Ask a question, or begin a text.",
            form_defaults=(("block", "8"), ("simsd.drafter", "itself")),  # there is no smaller model of its kind
            base="smollm2",
            shifted=True,
        ),
    ),
}
"""By the module that loads them; the first of a family is the one that pages open with."""


def card_of(model_id: str, weights: Mapping[str, str] | None = None) -> ModelCard:
    """Return the card of a bundled model.

    Args:
        model_id: Id in the catalog; the title stays empty for others.
        weights: Files that were read -> SHA-256.
    """
    titles = {info.id: info.title for infos in OURS.values() for info in infos}
    return ModelCard(id=model_id, title=titles.get(model_id, ""), weights=weights or {})
