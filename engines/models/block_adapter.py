"""Causal language models that an adapter turns into block diffusion language models.

The adapter is active at masks only (gated LoRA, arXiv 2507.11851): real tokens attend to the real tokens before them
and use the published weights, so ordinary decoding is that of the base model. Masks attend to all real tokens that the
method shows them and to each other; low-rank matrices are added to every linear layer there. Outputs are right-shifted:
the last real token predicts the first token of a block, with the base model's own distribution.
`training.smollm2_block` trains adapters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from draftscope.engines.diffusion_lm.block_sequence import TextTask, text_canvas
from draftscope.engines.models.chat import check_length
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint, CausalText
from draftscope.engines.models.fast_decoder import Addition, FastDecoder, LeanCausalLM, Product, States, paired
from draftscope.engines.models.memory import check_cache
from draftscope.engines.models.sessions.block import BlockSession, Network
from draftscope.engines.protocol import Family, Task
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.traces.schema import ModelCard

_PARTS: Final[dict[Product, tuple[str, ...]]] = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "out": ("o_proj",),
    "gate": ("gate_proj",),
    "up": ("up_proj",),
    "down": ("down_proj",),
}
"""Products of a layer in its lean form, and the layers of transformers that they are made of."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """A low-rank addition to a product: rows @ down @ up."""

    down: Float[Tensor, "in r"]
    up: Float[Tensor, "r out"]

    def __call__(self, rows: Float[Tensor, "R in"]) -> Float[Tensor, "R out"]:
        """Return what is added for these rows."""
        return rows @ self.down @ self.up


class BlockAdapter:
    """The adapter of a lean decoder: low-rank additions for every layer, and the embeddings of masks."""

    def __init__(self, weights: Mapping[str, Tensor], norms: Sequence[tuple[Tensor, Tensor]], head_dim: int) -> None:
        """Lay out the weights as the lean layers have theirs, which contain the scales of the norms before them.

        Args:
            weights: Those that `training.smollm2_block` writes: `layers.I.NAME.a` [r, in], `.b` [out, r], and `mask`
                [D, W], embeddings by distance from the last real token, from 1.
            norms: Weights of the norms before attention and feed-forward network of every layer, each [W].
            head_dim: Numbers of an attention head.
        """
        self.mask: Float[Tensor, "D W"] = weights["mask"].float()
        self.num_parameters = sum(weight.numel() for weight in weights.values())
        self._layers = [
            _laid_out({name: (weights[f"layers.{i}.{name}.a"], weights[f"layers.{i}.{name}.b"]) for name in _NAMES},
                      *pair, head_dim)
            for i, pair in enumerate(norms)
        ]  # fmt: skip

    def additions(self, is_mask: Bool[Tensor, " R"]) -> list[Addition]:
        """Return the additions of every layer to those rows of a pass that are masks.

        A CPU computes only these rows. Another device computes all, as it would wait for the host to count them.
        """
        if not is_mask.is_cpu:
            return [partial(_add_to_all, layer, is_mask) for layer in self._layers]
        rows = is_mask.nonzero()[:, 0]
        return [partial(_add, layer, rows) for layer in self._layers] if len(rows) else []


_NAMES: Final = tuple(name for names in _PARTS.values() for name in names)


def _add(layer: Mapping[Product, LowRank], rows: Tensor, product: Product, inputs: Tensor, outputs: Tensor) -> None:
    outputs.index_add_(0, rows, layer[product](inputs[rows]))


def _add_to_all(
    layer: Mapping[Product, LowRank], is_mask: Tensor, product: Product, inputs: Tensor, outputs: Tensor
) -> None:
    count = len(is_mask)  # further rows are padding
    outputs[:count] += layer[product](inputs[:count]) * is_mask[:, None]


def _laid_out(
    weights: Mapping[str, tuple[Tensor, Tensor]], before: Tensor, between: Tensor, head_dim: int
) -> dict[Product, LowRank]:
    """The additions of a layer: those of queries, keys and values are one, as their products are."""
    scales = {"qkv": before * len(before) ** 0.5, "gate": between * len(between) ** 0.5}
    scales["up"] = scales["gate"]
    layer: dict[Product, LowRank] = {}
    for product, names in _PARTS.items():
        down = torch.cat([weights[name][0].float() for name in names])
        ups = [weights[name][1].float() for name in names]
        if product == "qkv":
            ups[:2] = [paired(up, head_dim) for up in ups[:2]]
        up = torch.block_diag(*ups)
        down = down * scales[product] if product in scales else down
        layer[product] = LowRank(down.t().contiguous(), up.t().contiguous())
    return layer


def hide_from_real(
    mask: Float[Tensor, "n 1 T S"], positions: Int[Tensor, "n T"], is_mask: Bool[Tensor, "n T"]
) -> Float[Tensor, "n 1 T S"]:
    """Return an attention mask in which real tokens attend to no mask and to no later token.

    Args:
        mask: The additive mask of a pass, cached tokens first.
        positions: Of the tokens of the pass.
        is_mask: Which of them are masks.
    """
    later = positions[:, None, None, :] > positions[:, None, :, None]
    hidden = ~is_mask[:, None, :, None] & (is_mask[:, None, None, :] | later)
    cached = mask.shape[-1] - positions.shape[1]
    return mask.masked_fill(F.pad(hidden, (cached, 0)), torch.finfo(mask.dtype).min)


def distances(
    mask: Float[Tensor, "n 1 T S"], positions: Int[Tensor, "n T"], is_mask: Bool[Tensor, "n T"]
) -> Int[Tensor, "n T"]:
    """Return how far every token is from the last real token before it that it attends to.

    Args:
        mask: Additive attention mask; 0 where a token attends to a key. The last T of S keys are those of the pass.
        positions: Positions of the tokens in their text.
        is_mask: Whether a token is a placeholder, which is not a real token.

    Returns:
        Number of positions, at least 1. Cached tokens are real, and in the slots of their positions; a token without
        a real one before it is `positions + 1` away.
    """
    cached = torch.arange(mask.shape[-1] - positions.shape[1], device=mask.device).expand(len(positions), -1)
    keys = torch.cat([cached, positions], 1)[:, None]
    real = torch.cat([torch.ones_like(cached, dtype=torch.bool), ~is_mask], 1)[:, None]
    seen = (mask[:, 0] == 0) & real & (keys < positions[..., None])
    return positions - torch.where(seen, keys, -1).amax(-1)


class BlockLM(CausalText):
    """A causal language model with its adapter: of the families diffusion-lm and discrete-ar.

    As discrete-ar it is the base model itself.
    """

    families: tuple[Family, ...] = ("diffusion-lm", "discrete-ar")

    def __init__(self, base: CausalCheckpoint, adapter: BlockAdapter, card: ModelCard) -> None:
        """Join a base model in its lean form and its adapter.

        Raises:
            ValueError: For a base model without a lean form, as in bfloat16.
        """
        if not isinstance(base.network, LeanCausalLM):
            raise ValueError("its base model has no lean form; set dtype=float32")
        self.network: LeanCausalLM = base.network
        self._decoder: FastDecoder = base.network.model
        self._traits = base._traits
        self._base, self._adapter, self.card, self.device = base, adapter, card, base.device
        self._tokenizer, self._longest, self.ends, self._width = base._tokenizer, base._longest, base.ends, base._width
        self.num_parameters = base.num_parameters + adapter.num_parameters
        self._mask = self._width
        """Id of masks, which no token has."""

    @property
    def token_space(self) -> Mapping[str, int]:
        """Ids by token, those of the base model."""
        return self._base.token_space

    @property
    def max_block(self) -> int:
        """The largest block that the adapter was trained for."""
        return len(self._adapter.mask)

    @override
    def make_task(self, prompt: str, config: Any) -> Task:
        if isinstance(config, GuidedSampling):
            return super().make_task(prompt, config)
        if config.size > self.max_block:
            raise ValueError(
                f"block: {self.card.id} was trained for blocks of at most {self.max_block} tokens, not of "
                f"{config.size}; use {self.max_block} or fewer."
            )
        rendered, ids = self._read(prompt)
        check_length(len(ids), config.length, self._longest, self.card.id)
        canvas = text_canvas(config.length, config.size, 0)
        about: dict[str, Any] = {
            "mask": self._mask,
            "shift": True,
            "causal": True,
            "card": self.card,
            "rendered_prompt": rendered.text,
            "chat": rendered.record,
        }
        return TextTask(canvas, self._width + 1, self.device, None, ids, self.ends, **about)

    @override
    def open_session(self, tasks: Sequence[Task], guided: bool) -> Any:
        if not isinstance(tasks[0], TextTask):
            return self._base.open_session(tasks, guided)
        slots = max(len(task.prompt_ids) + task.length for task in tasks) + 4 * self.max_block
        needed = len(tasks) * slots * self._traits.cached_numel * self.dtype.itemsize
        check_cache(self.card.id, needed, str(self.device), len(tasks))
        network = Network(self._hidden, self._logits, len(self._decoder.layers), self._mask, self.device)
        return BlockSession(network, len(tasks), slots)

    def _hidden(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Last hidden states [n, T, W] of a pass."""
        is_mask = ids == self._mask
        mask = hide_from_real(mask, positions, is_mask)
        x, additions = (
            self._decoder.embed_tokens(ids.clamp(max=self._width - 1)),
            self._adapter.additions(is_mask.flatten()),
        )
        if additions:
            distance = distances(mask, positions, is_mask).clamp(1, self.max_block)
            x = torch.where(is_mask[..., None], self._adapter.mask[distance - 1], x)
        states: States = self._decoder(None, x, positions, mask, cache, additions=additions)
        return states.last_hidden_state

    def _logits(self, states: Tensor) -> Tensor:
        """Logits [n, T, V], of which the mask's are not computed."""
        logits = self.network.logits(states.flatten(0, 1))[:, : self._width]
        padded: Tensor = F.pad(logits, (0, 1)).unflatten(0, states.shape[:2])
        return padded
