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
from engines.models.bundled.patch_networks import SIZES, WIDTH, PatchTokenizer, PatchTransformer, condition_vectors
from engines.models.bundled.prompts import parse_prompt
from engines.models.heads import DiffusionHead
from engines.models.lean import lean
from engines.models.networked import count_parameters
from engines.models.pictures import Draws
from engines.models.sessions.causal import CausalSession
from engines.models.sessions.denoising import ContinuousSession, Head
from engines.protocol import Family
from traces.schema import Canvas, ModelCard, Token

_TOKENIZER: Final = "patch-tokenizer"


@dataclass(frozen=True, slots=True)
class PatchTask(ContinuousTask):
    """A picture to decode."""

    conditions: tuple[int, ...] = (-1, -1, -1)
    """Garment, tint and background; -1 where the prompt leaves it open."""


class StudioPatch(Draws):
    """A model of the family continuous-ar, conditioned on garment, tint and background."""

    def __init__(
        self, tokenizer: PatchTokenizer, transformer: PatchTransformer, card: ModelCard, device: torch.device
    ) -> None:
        self.card, self.device, self.dtype = card, device, torch.float32
        self.tokens = card.weights.get(f"{_TOKENIZER}.safetensors", "")
        """What its tokens mean: models with the same can draft for each other."""
        self.families: tuple[Family, ...] = ("continuous-ar",)
        self._tokenizer = tokenizer.to(device).eval()
        self._transformer = transformer.to(device).eval()
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
        network = self._transformer
        backbone = CausalSession(network, prefixes, GRID**2, len(network.backbone.layers))
        return ContinuousSession(backbone, self._head)

    def pixels(self, tokens: Tensor) -> Tensor:
        """Tokens [B, 144, 8] to images [B, 3, 48, 48] in [-1, 1]."""
        with torch.inference_mode():
            return self._tokenizer.decode(tokens.to(self.device, self.dtype))

    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Tensor:
        """See `Draws.pixels_of`; open positions hold the mean token."""
        blank = (0.0,) * WIDTH
        return self.pixels(
            torch.tensor([[t if isinstance(t, tuple) else blank for t in canvas] for canvas in canvases])
        )


@cache
def load_tokenizer(device: str = "cpu") -> tuple[PatchTokenizer, dict[str, str]]:
    """The KL autoencoder and the hash of its weights, by file."""
    tokenizer = PatchTokenizer()
    weights = load_weights(tokenizer, _TOKENIZER)
    return tokenizer.to(device).eval(), weights


@cache
def load(model_id: str, device: str = "cpu") -> StudioPatch:
    """A studio patch model, loaded once per device and shared.

    Raises:
        ModelError: when files are missing or are not those in the manifest.
    """
    size = SIZES[model_id.removeprefix("patch-")]
    tokenizer, shared = load_tokenizer(device)
    transformer = PatchTransformer(size)
    weights = shared | load_weights(transformer, model_id)
    return StudioPatch(
        tokenizer, transformer, ModelCard(id=model_id, title=size.title, weights=weights), torch.device(device)
    )
