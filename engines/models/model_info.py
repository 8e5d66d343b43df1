"""A line of the catalogue."""

from dataclasses import dataclass
from typing import Any, Final

from draftscope.engines.protocol import Family
from draftscope.engines.settings import Value, settings

GGUF: Final = ".gguf"
"""Ending of a file in the format of llama.cpp."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as lists and pages show it."""

    id: str
    title: str
    families: tuple[Family, ...]
    """Methods of which families it runs, the most natural first."""
    needs: str
    """Requirements for loading it."""
    default_prompt: str
    prompt_help: str
    default_drafter: str = ""
    """Id of the small model of the same vocabulary that drafts for it."""
    folder: bool = False
    """Whether it is loaded by a folder alone, as no repository of the hub has all of it in a form that can be read."""
    fetched: bool = False
    """Whether its weights are fetched by a command of this project."""
    clips: bool = False
    """Whether it continues clips; see `draftscope.engines.models.checkpoints.images.video_model.ClipModel`."""
    form_defaults: tuple[tuple[str, Value], ...] = ()
    """Settings that a form opens with in place of a method's defaults, where it has them; "psd.tau" is PSD's alone."""
    generates_text: bool = False
    """Whether it is a published language model."""
    group: str = ""
    """The family of published checkpoints that it is of; empty for what ships."""
    gigabytes: float = 0
    """Size of its parameters in bfloat16; 0 for what ships."""
    licence: str = ""
    """Licence of the weights, from the model card; empty for bundled models."""
    mixture: str = ""
    """Id of the small model that drafts for it with paths in closed form, as it mixes Gaussians."""
    eagle: str = ""
    """Name of the weights that draft for it from its hidden states."""
    base: str = ""
    """Id of the published model that it is an adapter of, which must be downloaded."""
    shifted: bool = False
    """Whether it runs methods that need outputs shifted by one token."""
    terms: str = ""
    """Steps that the licence requires before loading; empty if none."""

    def opening(self, method: str, config: type[Any]) -> dict[str, Value]:
        """Return the settings that a form opens with: the model's defaults, as far as a method has and allows them.

        Args:
            method: Name of the method; defaults named METHOD.SETTING are for one method.
            config: Its Config.
        """
        choices = {setting.name: setting.choices for setting in settings(config)}
        defaults = {name.removeprefix(f"{method}."): at for name, at in self.form_defaults}
        return {name: at for name, at in defaults.items() if name in choices and at in (choices[name] or (at,))}

    @property
    def label(self) -> str:
        """The title, for a published checkpoint with its family, size and licence."""
        if not self.group:
            return self.title
        size = f"{self.gigabytes:.1f} GB" + (f", {self.licence}" if self.licence else "")
        return f"{self.title} ({size})" if self.title.startswith(self.group) else f"{self.group}: {self.title} ({size})"

    @property
    def downloads(self) -> str:
        """Id of the model whose weights are downloaded on request: its own, or its base's; empty for none."""
        return self.base or (self.id if self.fetched else "")

    @property
    def text(self) -> bool:
        """Whether it writes, rather than draws."""
        return self.generates_text or "diffusion-lm" in self.families
