"""Example prompts and the vocabulary of the bundled image models."""

import tomllib
from pathlib import Path
from typing import Final

from draftscope.engines.models.bundled.prompts import SLOTS
from draftscope.engines.models.catalog import MODELS

DRAWS: Final = MODELS["studio-image"].default_prompt
_LISTED: Final = tomllib.loads(Path(__file__).with_name("examples.toml").read_text(encoding="utf-8"))
EXAMPLES: Final = {MODELS[name].default_prompt: tuple(texts) for name, texts in _LISTED.items()}
"""Example prompts by default prompt of a model: models that share it have the same vocabulary. PSD drafts on each."""


def vocabulary() -> str:
    """The words that the studio models of pictures know, as Markdown."""
    words = "\n".join(f"- **{slot.capitalize()}**: {', '.join(table)}" for slot, table in SLOTS.items())
    return f"*{DRAWS}*; either part may be left out.\n\n{words}"
