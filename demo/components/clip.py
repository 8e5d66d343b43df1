"""Which clip is continued: held-out ones to choose from, or a GIF or MP4 of a visitor's own."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import gradio as gr
import numpy as np
from PIL import Image

from draftscope.demo.components.context import QUIET, Update
from draftscope.demo.components.widgets import Card, card_grid, notice, pressed_card, values_of
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.video_files import ENDINGS
from draftscope.engines.paths import ASSETS
from draftscope.engines.settings import ConfigError
from draftscope.visualizers.picture import moving_url

OFFERED: Final = 6
"""Held-out clips."""
_EDGE: Final = 96
_OWN: Final = "as the model sees it"
_CHOOSE: Final = f"""(cards) => {{
  const {{ note }} = cards[({pressed_card("clip-cards")})()];
  return [note === {json.dumps(_OWN)} ? {{ __type__: 'update' }} : note, {{}}];
}}"""
"""Writes the clip of a card into the prompt, where that of a visitor's own clip is already."""


class ClipPanel:
    """Cards and an upload field; either one writes the prompt."""

    def __init__(self, prompt: gr.Textbox, problem: gr.HTML, model_id: str) -> None:
        """Lay it out; it is hidden where the model continues no clips."""
        self.prompt, self.problem = prompt, problem
        continues = MODELS[model_id].clips
        self.model = gr.Textbox(model_id, visible=False)
        """Id of the chosen model, unchecked: it may be of a list that the server has replaced since."""
        with gr.Column(visible=continues, elem_id="clips") as self.group:
            gr.Markdown("Held-out clips:")
            self.cards = card_grid(_cards(model_id) if continues else (), elem_id="clip-cards")
            self.upload = gr.UploadButton(
                "Or a clip of your own: GIF or MP4",
                file_types=list(ENDINGS),
                type="binary",
                size="sm",
                scale=0,
                min_width=240,
                elem_id="clip-upload",
            )

    def connect(self, model: gr.Dropdown) -> None:
        """Follow the choice of the model."""
        model.change(None, model, self.model, js="(model) => model", **QUIET)
        self.model.change(self.show, {self.model}, [self.group, self.cards], **QUIET)
        self.cards.choose(None, self.cards, [self.prompt, self.problem], js=_CHOOSE, **QUIET)
        changes = [self.upload, self.prompt, self.cards, self.problem]
        self.upload.upload(self.open, {self.model, self.upload}, changes, **QUIET)

    def show(self, values: Update) -> Update:
        """The clips of the chosen model, or nothing where it continues none."""
        model = MODELS.get(values[self.model])
        continues = model is not None and model.clips
        shown = {self.cards: values_of(_cards(values[self.model]))} if continues else {}
        return {self.group: gr.update(visible=continues), **shown}

    def open(self, values: Update) -> Update:
        """Continue the first frames of a file."""
        update: Update = {self.upload: None}
        try:
            model = _loaded(values[self.model])
            prompt = model.prompt_for(values[self.upload] or b"")
        except (ConfigError, ModelError) as error:
            return update | {self.problem: notice("error", str(error), "This clip cannot be continued.")}
        uploaded_card = Card("your clip", _OWN, image=moving(model, prompt))
        return update | {
            self.prompt: prompt,
            self.cards: values_of([*_cards(values[self.model]), uploaded_card]),
            self.problem: {},
        }


def _loaded(model_id: str) -> Any:
    """A ClipModel, whose class brings networks of transformers: a quarter of the time until the app answers."""
    return load_model(model_id)


@cache
def _cards(model_id: str) -> Sequence[Card]:
    if (cards := cards_file(model_id)).is_file():
        return [Card(*one) for one in json.loads(cards.read_bytes())]
    return drawn(model_id)


def cards_file(model_id: str) -> Path:
    """Return the path of the card images of a bundled model, written by `draftscope dev clip-cards`."""
    return ASSETS / "clips" / f"{model_id}.json"


def drawn(model_id: str) -> Sequence[Card]:
    """The cards as the model decodes them."""
    try:
        model = _loaded(model_id)
    except ModelError:
        return []  # a run reports what is missing
    return [Card(words, prompt, image=moving(model, prompt)) for prompt, words in model.examples(OFFERED)]


def moving(model: Any, prompt: str) -> str:
    """The given frames of a clip as a data URI of a moving WebP."""
    frames = np.asarray(model.continued(prompt))
    size = (_EDGE * frames.shape[2] // frames.shape[1], _EDGE)
    pictures = [Image.fromarray(frame).resize(size, Image.Resampling.BICUBIC) for frame in frames]
    return moving_url(pictures)
