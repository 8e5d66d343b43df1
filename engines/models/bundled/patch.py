"""The studio patch models: pictures as continuous tokens, with weights that ship in assets/models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from typing_extensions import override

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.models.bundled.image import load_weights
from draftscope.engines.models.bundled.image_networks import (
    CONDITIONS,
    GRID,
    Tokenizer,
    TransformerSize,
    backbone,
    condition_ids,
)
from draftscope.engines.models.bundled.prompts import parse_prompt
from draftscope.engines.models.checkpoints.images.image_model import LatentPictures
from draftscope.engines.models.fast_decoder import lean
from draftscope.engines.models.heads import DiffusionHead, MixtureHead, ResidualHead
from draftscope.engines.models.image_rendering import ImageLimits
from draftscope.engines.models.sessions.bidirectional import StackedRows
from draftscope.engines.models.sessions.causal import CausalSession
from draftscope.engines.models.sessions.denoising import Backbone, ContinuousSession, Head
from draftscope.engines.models.torch_model import count_parameters, hidden_states
from draftscope.engines.models.transformers_api import Cache
from draftscope.traces.schema import Canvas, ModelCard

WIDTH: Final = 8
"""Components of a token."""
NOISE: Final = 0.1
"""Share of a token's variance that is noise."""
PREFIX: Final = len(CONDITIONS)


class PatchTokenizer(nn.Module):
    """Images to 12x12 tokens of 8 numbers and back: the image model's convolutions, without its codebook.

    A token is an encoder's output, normalized, and noise of a fixed share, which the decoder learns to ignore (as in
    LatentLM, arXiv 2412.08635): a distribution over tokens is never narrower than that noise.
    """

    def __init__(self) -> None:
        super().__init__()
        convolutions = Tokenizer(1, WIDTH)
        self.encoder, self.decoder = convolutions.encoder, convolutions.decoder
        self.norm = nn.BatchNorm2d(WIDTH, affine=False)

    def means(self, image: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B N D"]:
        """Tokens of images in [-1, 1] in raster order, before noise is added."""
        latent: Tensor = self.norm(self.encoder(image).float())
        return math.sqrt(1 - NOISE) * latent.flatten(2).transpose(1, 2)

    def reconstruct(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 S S"]:
        """Tokens in raster order to images, nominally in [-1, 1]."""
        return cast(Tensor, self.decoder(tokens.transpose(1, 2).unflatten(2, (GRID, GRID))))

    def decode(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 S S"]:
        """Tokens in raster order to images, clipped to [-1, 1]."""
        return self.reconstruct(tokens).clamp(-1, 1)


@dataclass(frozen=True, slots=True)
class PatchSize:
    """Width and depth of a transformer and its head."""

    title: str
    trunk: TransformerSize
    head_width: int
    head_depth: int = 3
    components: int = 0
    """Gaussians of a GMM head; 0 is a diffusion head."""


SIZES: Final = {
    "target": PatchSize("Studio patch model", TransformerSize(layers=18), 256),
    "draft": PatchSize("Small studio patch model", TransformerSize(layers=2), 128, 2),
    "mixture": PatchSize("Small studio patch model, GMM head", TransformerSize(layers=2), 256, components=8),
    "masked": PatchSize("Studio patch model, masked", TransformerSize(layers=4), 256),
}


class PatchNetwork(nn.Module):
    """Transformers' Qwen3Model with learned positions over two condition ids and 144 tokens, and a head.

    The conditions are thing and scene; the last id of each table means "not said".
    """

    def __init__(self, size: PatchSize) -> None:
        super().__init__()
        length = PREFIX + GRID**2
        self.backbone = backbone(sum(n + 1 for n in CONDITIONS), length, size.trunk)
        self.position = nn.Embedding(length, size.trunk.width)
        width = size.trunk.width
        self.project = nn.Sequential(nn.Linear(WIDTH, width), nn.SiLU(), nn.Linear(width, width))
        self.head: ResidualHead | MixtureHead = (
            MixtureHead(WIDTH, size.trunk.width, size.head_width, size.components)
            if size.components
            else ResidualHead(WIDTH, size.trunk.width, size.head_width, size.head_depth)
        )
        nn.init.normal_(self.position.weight, std=0.02)


class PatchTransformer(PatchNetwork):
    """Causal: what follows tokens under a condition.

    A condition id is the first component of a vector; tokens in raster order follow. Output slot i is the head's
    condition for the token that follows input slot i, so slot 0 is unused.
    """

    def forward(
        self,
        inputs: Float[Tensor, "B T D"],
        positions: Int[Tensor, "B T"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 T S"] | None = None,
    ) -> Float[Tensor, "B T H"]:
        """Return the condition of the head for the token after each input.

        Args:
            inputs: Ids of the conditions, in the first channel, then tokens; after a cache, those that are not in it.
            positions: Positions of the inputs; those below `PREFIX` are conditions.
            cache: KV cache of earlier inputs, which the pass extends.
            mask: Additive attention mask over cached inputs and these; causal by default.
        """
        condition = positions < PREFIX
        ids = torch.where(condition, inputs[..., 0].round().long(), 0)
        embedded = torch.where(condition[..., None], self.backbone.embed_tokens(ids), self.project(inputs))
        embedded = embedded + self.position(positions)
        return hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded)


class MaskedPatchTransformer(PatchNetwork):
    """Bidirectional: any token given any others, as in masked generation (MAR, arXiv 2406.11838)."""

    def __init__(self, size: PatchSize) -> None:
        super().__init__(size)
        self.mask = nn.Parameter(torch.zeros(size.trunk.width))

    def forward(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], labels: Int[Tensor, "B 2"]
    ) -> Float[Tensor, "B N H"]:
        """The head's condition for every token.

        Args:
            tokens: in raster order; what is not visible may hold anything.
            visible: which of them may be seen.
            labels: thing and scene; -1 for "not said".
        """
        seen = torch.where(visible[..., None], self.project(tokens), self.mask)
        embedded = torch.cat([self.backbone.embed_tokens(condition_ids(labels, CONDITIONS, codes=0)), seen], 1)
        embedded = embedded + self.position.weight
        positions = torch.arange(embedded.shape[1], device=embedded.device).expand(len(embedded), -1)
        both_ways = embedded.new_zeros(()).expand(len(embedded), 1, positions.shape[1], positions.shape[1])
        return hidden_states(self.backbone, positions, None, both_ways, inputs_embeds=embedded)[:, PREFIX:]


def condition_vectors(values: Int[Tensor, "B 2"]) -> Float[Tensor, "B 2 D"]:
    """Return input vectors of (thing, scene); -1 means unconditional."""
    return F.pad(condition_ids(values, CONDITIONS, codes=0)[..., None].float(), (0, WIDTH - 1))


_TOKENIZER: Final = "patch-tokenizer"


@dataclass(frozen=True, slots=True)
class PatchTask(ContinuousTask):
    """A picture to decode."""

    conditions: tuple[int, ...] = (-1, -1)
    """Thing and scene; -1 where the prompt leaves it open."""


class StudioPatch(LatentPictures):
    """A model of the family continuous-ar, conditioned on thing and scene, that decodes in raster order."""

    limits = ImageLimits()
    sequence = torch.arange(GRID**2)
    """Raster index of the tokens, in the order of generation."""

    def __init__(self, tokenizer: PatchTokenizer, network: PatchNetwork, card: ModelCard, device: torch.device) -> None:
        super().__init__(network, tokenizer, card, device, WIDTH, self.sequence)
        self.token_space = card.weights.get(f"{_TOKENIZER}.safetensors", "")
        """Models with the same token space can draft for each other."""
        self.num_parameters = count_parameters(network)
        network.backbone = lean(network.backbone)
        head = network.head
        self._head = Head(head.lean()) if isinstance(head, DiffusionHead) else Head(mix=head)

    def make_task(self, prompt: str, config: Any) -> PatchTask:
        """Build the decoding task of a prompt."""
        mixture = self._head.mix is not None
        if mixture and config.uses_guidance:
            raise ValueError(f"guidance: {self.card.id} mixes Gaussians and takes no denoising steps to guide; use 1.")
        conditions = parse_prompt(prompt)
        canvas = Canvas(kind="image", shape=(GRID, GRID))
        return PatchTask(canvas, 0, self.device, width=WIDTH, mixture=mixture, conditions=conditions)

    def open_session(self, tasks: Sequence[PatchTask], guided: bool) -> ContinuousSession:
        """Open a session, one sequence per task."""
        silent = (-1,) * len(tasks[0].conditions)
        values = [[task.conditions, silent][: 1 + guided] for task in tasks]
        return ContinuousSession(self._backbone(torch.tensor(values, device=self.device)), self._head)

    def _backbone(self, values: Tensor) -> Backbone:
        """A session for sequences under conditions [B, R, 2]."""
        prefixes = condition_vectors(values.flatten(0, 1)).unflatten(0, values.shape[:2])
        return CausalSession(self.network, prefixes, GRID**2, len(self.network.backbone.layers))

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
        self.token_space += " in random order"

    @override
    def make_task(self, prompt: str, config: Any) -> PatchTask:
        task = super().make_task(prompt, config)
        return replace(task, canvas=replace(task.canvas, order=tuple(self.sequence.tolist())), gaps=True)

    def _backbone(self, values: Tensor) -> StackedRows:
        orders = self.sequence.to(self.device).expand(len(values), -1)
        return StackedRows(self.network, orders, values, PREFIX)


@cache
def load(model_id: str, device: str = "cpu") -> StudioPatch:
    """Return a studio patch model, loaded once per device and shared.

    Args:
        model_id: One of the bundled patch models; "patch-masked" decodes in any order.
        device: A single device, such as "cpu" or "cuda:0".

    Raises:
        ModelError: If a file is missing or is not the one in the manifest.
    """
    size, masked = SIZES[model_id.removeprefix("patch-")], model_id == "patch-masked"
    network = MaskedPatchTransformer(size) if masked else PatchTransformer(size)
    tokenizer = PatchTokenizer()
    weights = load_weights(tokenizer, _TOKENIZER) | load_weights(network, model_id)
    card = ModelCard(id=model_id, title=size.title, weights=weights)
    return (MaskedPatch if masked else StudioPatch)(tokenizer, network, card, torch.device(device))
