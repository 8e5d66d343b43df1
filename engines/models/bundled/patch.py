"""The studio patch models: pictures as continuous tokens, with weights that ship in assets/models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, cast

import torch
from torch import Tensor

from engines.continuous.denoising import ContinuousTask
from engines.models.bundled.image import load_weights
from engines.models.bundled.networks import GRID
from engines.models.bundled.patch_networks import (
    PREFIX,
    SIZES,
    WIDTH,
    MaskedPatchTransformer,
    PatchNetwork,
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
from engines.models.sessions.denoising import Backbone, ContinuousSession, Head
from engines.models.sessions.stacked import StackedRows
from traces.schema import Canvas, ModelCard

_TOKENIZER: Final = "patch-tokenizer"


@dataclass(frozen=True, slots=True)
class PatchTask(ContinuousTask):
    """A picture to decode."""

    conditions: tuple[int, ...] = (-1, -1)
    """Thing and scene; -1 where the prompt leaves it open."""


class StudioPatch(LatentPictures):
    """A model of the family continuous-ar, conditioned on thing and scene, that decodes in raster order."""

    limits = Pictures()
    sequence = torch.arange(GRID**2)
    """Where in raster order the tokens lie, in the order of generation."""

    def __init__(self, tokenizer: PatchTokenizer, network: PatchNetwork, card: ModelCard, device: torch.device) -> None:
        super().__init__(network, tokenizer, card, device, WIDTH, self.sequence)
        self.tokens = card.weights.get(f"{_TOKENIZER}.safetensors", "")
        """What its tokens mean: models with the same can draft for each other."""
        self.parameters = count_parameters(network)
        network.backbone = lean(network.backbone)
        head = network.head
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
        values = [[task.conditions, silent][: 1 + guided] for task in tasks]
        return ContinuousSession(self._backbone(torch.tensor(values, device=self.device)), self._head)

    def _backbone(self, values: Tensor) -> Backbone:
        """A session for sequences under conditions [B, R, 2]."""
        prefixes = condition_vectors(values.flatten(0, 1)).unflatten(0, values.shape[:2])
        return CausalSession(self._network, prefixes, GRID**2, len(self._network.backbone.layers))

    def pixels(self, tokens: Tensor) -> Tensor:
        """Tokens [B, 144, 8] in the order of generation to images [B, 3, 96, 96] in [-1, 1]."""
        with torch.inference_mode():
            raster = torch.empty_like(tokens).index_copy_(1, self._sequence.to(tokens.device), tokens)
            return cast(Tensor, self._autoencoder.decode(raster.to(self.device, self.dtype)))


class MaskedPatch(StudioPatch):
    """Decodes in a random order, the same in all runs, one token or several per pass; every prefix takes a row."""

    sequence = torch.randperm(GRID**2, generator=torch.Generator().manual_seed(0))

    def __init__(self, tokenizer: PatchTokenizer, network: PatchNetwork, card: ModelCard, device: torch.device) -> None:
        super().__init__(tokenizer, network, card, device)
        self.tokens += " in random order"

    def make_task(self, prompt: str, config: Any) -> PatchTask:
        """See `engines.protocol.Model.make_task`."""
        task = super().make_task(prompt, config)
        return replace(task, canvas=replace(task.canvas, order=tuple(self.sequence.tolist())), gaps=True)

    def _backbone(self, values: Tensor) -> StackedRows:
        orders = self.sequence.to(self.device).expand(len(values), -1)
        return StackedRows(self._network, orders, values, PREFIX)


@cache
def load(model_id: str, device: str = "cpu") -> StudioPatch:
    """A studio patch model, loaded once per device and shared; raises ModelError as `load_weights` does."""
    size, masked = SIZES[model_id.removeprefix("patch-")], model_id == "patch-masked"
    network = MaskedPatchTransformer(size) if masked else PatchTransformer(size)
    tokenizer = PatchTokenizer()
    weights = load_weights(tokenizer, _TOKENIZER) | load_weights(network, model_id)
    card = ModelCard(id=model_id, title=size.title, weights=weights)
    return (MaskedPatch if masked else StudioPatch)(tokenizer, network, card, torch.device(device))
