"""A line of the catalogue, and how one is made of a checkpoint that is published or lies in a folder of one's own."""

from dataclasses import dataclass, replace
from typing import Final

from engines.config import Value
from engines.models.own_folders import OwnFolder
from engines.models.published_families import ASKS
from engines.models.published_texts import Checkpoint, Kind
from engines.protocol import Family


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One line of the catalogue."""

    id: str
    title: str
    families: tuple[Family, ...]
    """Methods of which families it runs, the most natural first."""
    needs: str
    """What must be there to load it."""
    default_prompt: str
    prompt_help: str
    small: str = ""
    """Id of the small model of the same vocabulary that drafts for it."""
    proof: str = "config.json"
    """File that a checkpoint has in the hub's cache once it was fetched in a form that can be read."""

    folder: bool = False
    """Whether it is loaded by the folder of its conversion alone, as no repository of the hub has it."""

    clips: bool = False
    """Whether it continues clips; see `engines.models.clip_model.ClipModel`."""
    opens: tuple[tuple[str, Value], ...] = ()
    """Settings that a form opens with in place of a method's defaults, where it has them."""
    writes: bool = False
    """Whether it is a published language model."""
    group: str = ""
    """The family of published checkpoints that it is of; empty for what ships."""
    gigabytes: float = 0
    """What its parameters come to in bfloat16; 0 for what ships."""
    licence: str = ""
    """Of its weights, as its model card says; empty for what ships."""
    mixture: str = ""
    """Id of the small model that drafts for it with paths in closed form, as it mixes Gaussians."""

    @property
    def label(self) -> str:
        """The title, for a published checkpoint with its family, size and licence."""
        if not self.group:
            return self.title
        size = f"{self.gigabytes:.1f} GB" + (f", {self.licence}" if self.licence else "")
        return f"{self.title} ({size})" if self.title.startswith(self.group) else f"{self.group}: {self.title} ({size})"

    @property
    def terms(self) -> str:
        """What its licence asks for before it is loaded; empty where that is nothing."""
        return ASKS.get(self.group, "")

    @property
    def text(self) -> bool:
        """Whether it writes, rather than draws."""
        return self.writes or "diffusion-lm" in self.families


_FAMILIES: Final[dict[Kind, tuple[Family, ...]]] = {
    "causal": ("discrete-ar",),
    "blocks": ("diffusion-lm", "discrete-ar"),
    "bidirectional": ("diffusion-lm",),  # and so never causal
    "codes of texts": ("discrete-ar",),
    "codes of classes": ("discrete-ar",),
    "vectors of texts": ("continuous-ar",),
    "vectors of classes": ("continuous-ar",),
    "clips": ("discrete-ar",),
}
_QUESTION: Final = (
    "A library lends 12 books a day, and 3 of them come back late. How many come back on time in a week?",
    "Ask a question, or begin a text.",
)
_SAY: Final = ("A red ankle boot on green grass.", "Say what to draw.")
_NAME_A_CLASS: Final = ("207", "Give the number of one of ImageNet's 1,000 classes.")
_ASKED: Final[dict[Kind, tuple[str, str]]] = {
    "codes of texts": _SAY,
    "codes of classes": _NAME_A_CLASS,
    "vectors of texts": _SAY,
    "vectors of classes": _NAME_A_CLASS,
    "clips": (
        "",
        "Continues a clip behind its first nine frames: give the path of a GIF or MP4 on the command line, or choose a "
        "clip on the page.",
    ),
}
"""A prompt, and what to write in its place, of what draws."""


def published_info(row: Checkpoint) -> ModelInfo:
    """A published checkpoint; one whose name is no repository's is loaded by its folder."""
    size = f"{row.gigabytes} GB" + ("" if row.kind.startswith("vectors") else " (twice that on a CPU)")
    had = f"{row.files}, as docs/models.md says, then --model FOLDER" if row.files else f"hf download {row.name}"
    needs = f"{size}: {had}; {row.note or row.licence}, and no published weights were tried"
    return replace(_info(row, needs), folder="/" not in row.name)


def own_info(own: OwnFolder) -> ModelInfo:
    """A checkpoint in a folder of one's own; the folder is not told, since visitors read this."""
    row = Checkpoint(own.id, own.id, own.group, own.kind, own.gigabytes, licence="")
    return _info(row, "nothing: it is in a folder of one's own")


def _info(row: Checkpoint, needs: str) -> ModelInfo:
    return ModelInfo(
        row.name,
        row.title,
        _FAMILIES[row.kind],
        needs,
        *_ASKED.get(row.kind, _QUESTION),
        row.small,
        proof="model.safetensors.index.json" if row.kind == "clips" else "config.json",
        clips=row.kind == "clips",
        writes=row.kind not in _ASKED,
        group=row.group,
        gigabytes=row.gigabytes,
        licence=row.licence,
    )
