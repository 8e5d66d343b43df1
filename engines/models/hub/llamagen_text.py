"""LlamaGen's models of texts (arXiv 2406.06525): features of a text to a picture, in codes of VQ-16.

What stands before the picture are the encoder's features of the text's tokens, at most as many as there are slots; the
last of them stands right before the first code. None of them has a position, and the codes count from where they would
stand behind all slots. The unconditional prompt is as many features that were learned, those of the same slots.

The encoder is FLAN-T5 XL: in the folder `text` inside the model's, or in the hub's cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from engines.models.hub import llamagen
from engines.models.hub.assembling import card_of, folder_in, stored
from engines.models.hub.llamagen import TITLE, Drawing, LlamaGen, read_parts
from engines.models.hub.published import cached_source
from engines.models.hub.t5_text import UNUSED, TextFeatures, read_features
from engines.models.memory import Needs
from engines.models.picture_model import PictureTask
from engines.models.picture_session import Fed, PictureSession
from engines.models.weights import Source
from traces.schema import ModelCard

TEXT: Final = "text"
"""Folder of the encoder, inside the model's."""
ENCODER: Final = "google/flan-t5-xl"
"""Where the encoder is taken from where there is no such folder."""


class LlamaGenText(LlamaGen):
    """A LlamaGen of texts with its tokenizers and encoder."""

    def __init__(self, drawing: Drawing, text: TextFeatures, card: ModelCard, device: str) -> None:
        """Wrap a network whose positions are a picture's."""
        super().__init__(drawing, card, device)
        size = drawing.size
        self._text, self._slots = text, size.slots
        self.shape = replace(self.shape, longest=size.slots + size.side**2)
        # A model of classes cannot draft for one of texts, whatever codes they have in common.
        self._codebook = replace(self._codebook, digest=f"{self._codebook.digest} of texts")

    def prompts(self, prompt: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """See `PictureModel.prompts`: ids of the text, and behind all of those ids, slots."""
        ids, codes = self._text.ids(prompt), self.shape.codes
        silent = range(max(self._slots - len(ids), 0), self._slots)
        return tuple(codes + i for i in ids), tuple(codes + self._text.words + slot for slot in silent)

    def start(self, tasks: Sequence[PictureTask], guided: bool) -> PictureSession:
        """See `engines.protocol.Model.start`; every text is encoded once, and ids of the session count features."""
        held: list[Tensor] = []
        prompts: list[list[Sequence[int]]] = []
        for task in tasks:
            rows: list[Sequence[int]] = []
            for row in task.prompts[: 1 + guided]:
                first = self.shape.codes + sum(map(len, held))
                held.append(self._asked(row))
                rows.append(range(first, first + len(row)))
            prompts.append(rows)
        network = partial(self.logits, conditions=torch.cat(held))
        fed = Fed(self.shape.rows, self.shape.columns, first=self._slots)
        return self._opened(network, prompts, fed)

    @torch.inference_mode()
    def _asked(self, row: Sequence[int]) -> Float[Tensor, "N W"]:
        """What the network is given for a prompt."""
        captions, beyond = self._parts.captions, self.shape.codes + self._text.words
        if row[0] < beyond:
            features = self._text.features([i - self.shape.codes for i in row]).to(self.dtype)
        else:
            features = captions.silent[torch.tensor(row, device=self.device) - beyond]
        found: Tensor = captions(features)
        return found


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes, the encoder included; see `assembling.Measure`."""
    found = llamagen.needs(source, settings)
    return replace(found, parameters=found.parameters + stored(_encoder(source), UNUSED))


def _encoder(source: Source) -> Source:
    """The folder of the encoder."""
    inside = folder_in(source, TEXT)
    return inside if inside.folder.is_dir() else cached_source(ENCODER)


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> LlamaGenText:
    """The model of a converted folder; see `assembling.Loader`."""
    drawing, beside = read_parts(source, settings, dtype)
    encoder = _encoder(source)
    text = read_features(encoder, source.name, device, dtype)
    if text.width != drawing.size.features:
        raise source.lacks(
            f"config.json has {drawing.size.features} for 'features', and {encoder.name} has {text.width}"
        )
    return LlamaGenText(drawing, text, card_of(source, TITLE, beside, encoder), device)
