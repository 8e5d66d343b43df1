"""The studio patch models: pictures as continuous tokens, with weights that ship in assets/models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from engines.continuous.denoising import ContinuousTask
from engines.models.bundled.image import load_weights
from engines.models.bundled.networks import GRID
from engines.models.bundled.patch_networks import (
    SIZES,
    WIDTH,
    PatchTokenizer,
    PatchTransformer,
    condition_vectors,
)
from engines.models.bundled.prompts import parse_prompt
from engines.models.checkpoints.picture_model import LatentPictures
from engines.models.heads import DiffusionHead
from engines.models.lean import lean
from engines.models.networked import count_parameters
from engines.models.pictures import Pictures
from engines.models.sessions.causal import CausalSession
from engines.models.sessions.denoising import ContinuousSession, Head
from traces.schema import Canvas, ModelCard

_TOKENIZER: Final = "patch-tokenizer"


@dataclass(frozen=True, slots=True)
class PatchTask(ContinuousTask):
    """A picture to decode."""

    conditions: tuple[int, ...] = (-1, -1)
    """Thing and scene; -1 where the prompt leaves it open."""


class StudioPatch(LatentPictures):
    """A model of the family continuous-ar, conditioned on thing and scene."""

    limits = Pictures()

    def __init__(
        self, tokenizer: PatchTokenizer, transformer: PatchTransformer, card: ModelCard, device: torch.device
    ) -> None:
        super().__init__(transformer, tokenizer, card, device, WIDTH, torch.arange(GRID**2))
        self.tokens = card.weights.get(f"{_TOKENIZER}.safetensors", "")
        """What its tokens mean: models with the same can draft for each other."""
        self.parameters = count_parameters(transformer)
        transformer.backbone = lean(transformer.backbone)
        head = transformer.head
        self._head = Head(head.lean()) if isinstance(head, DiffusionHead) else Head(mix=head)

    def make_task(self, prompt: str, config: Any) -> PatchTask:
        """See `engines.protocol.Model.make_task`."""
        mixture = self._head.mix is not None
        if mixture and config.guided:
            raise ValueError(f"guidance: {self.card.id} mixes Gaussians and takes no denoising steps to guide; use 1.")
        conditions = parse_prompt(prompt)
        canvas = Canvas(kind="image", shape=(GRID, GRID))
        return PatchTask(canvas, 0, self.device, width=WIDTH, mixture=mixture, conditions=conditions)

    def start(self, tasks: Sequence[PatchTask], guided: bool) -> ContinuousSession:
        """See `engines.protocol.Model.start`."""
        silent = (-1,) * len(tasks[0].conditions)
        values = torch.tensor([[task.conditions, silent][: 1 + guided] for task in tasks], device=self.device)
        prefixes = condition_vectors(values.flatten(0, 1)).unflatten(0, values.shape[:2])
        network = self._network
        backbone = CausalSession(network, prefixes, GRID**2, len(network.backbone.layers))
        return ContinuousSession(backbone, self._head)

    def pixels(self, tokens: Tensor) -> Tensor:
        """Tokens [B, 144, 8] to images [B, 3, 96, 96] in [-1, 1]."""
        with torch.inference_mode():
            pixels: Tensor = self._autoencoder.decode(tokens.to(self.device, self.dtype))
        return pixels


@cache
def load(model_id: str, device: str = "cpu") -> StudioPatch:
    """A studio patch model, loaded once per device and shared.

    Raises:
        ModelError: when files are missing or are not those in the manifest.
    """
    size = SIZES[model_id.removeprefix("patch-")]
    tokenizer, transformer = PatchTokenizer(), PatchTransformer(size)
    weights = load_weights(tokenizer, _TOKENIZER) | load_weights(transformer, model_id)
    card = ModelCard(id=model_id, title=size.title, weights=weights)
    return StudioPatch(tokenizer, transformer, card, torch.device(device))
