"""Drafter that is trained for one target and reads its hidden states, like EAGLE-3 (arXiv 2503.01840).

It is a single layer. For position t it is fed the hidden states of the target there, fused into one vector, and the
token at t + 1, and predicts the token at t + 2. Further drafts have no hidden states of the target yet: its own output
replaces them. Embedding and head are the target's, the head's rows those of frequent tokens: q is 0 for others.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.bundled.image import load_weights
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint, CausalLMSession
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.fast_decoder import (
    HalfLinear,
    LeanCausalLM,
    Linear,
    causal_mask,
    laid_out,
    least_of,
    normed,
    packs,
)
from draftscope.engines.models.sessions.causal import SlotCache
from draftscope.engines.models.torch_model import Networked, count_parameters
from draftscope.engines.models.transformers_api import LlamaDecoderLayer, LlamaRMSNorm
from draftscope.engines.protocol import ForwardResult, StageCallback, Task
from draftscope.engines.sampling.distributions import Sampling, to_probs
from draftscope.traces.schema import ModelCard

_PACKED: Final = 2**24
"""Bytes of an embedding from which on products are worth packing."""


@dataclass(frozen=True, slots=True)
class EagleSize:
    """Sizes, by default those of smollm2's drafter."""

    taps: tuple[int, ...] = (7, 15, 23)
    """Layers of the target whose outputs are read, in addition to the last."""
    feed_forward: int = 1280
    rows: int = 8192


class Eagle(nn.Module):
    """The weights, as they are trained and stored; `EagleHead` drafts with them."""

    ids: Int[Tensor, " R"]
    """The tokens that can be drafted, rising."""

    def __init__(self, config: Any, size: EagleSize) -> None:
        super().__init__()
        layer_config, self.size = copy(config), size
        layer_config.intermediate_size = size.feed_forward
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.fuse = nn.Linear((len(size.taps) + 1) * width, width, bias=False)
        self.layer = LlamaDecoderLayer(layer_config, 0)
        attention = self.layer.self_attn
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(attention, name, nn.Linear(2 * width, getattr(attention, name).out_features, bias=False))
        self.layer.input_layernorm = LlamaRMSNorm(2 * width, epsilon)  # of token and states, each normalised for itself
        self.norm = LlamaRMSNorm(width, epsilon)
        self.register_buffer("ids", torch.arange(size.rows, dtype=torch.int32))
        self.config = layer_config


class EagleHead:
    """A drafter in the form in which it drafts, for one target on its device."""

    def __init__(self, network: Eagle, target: LeanCausalLM) -> None:
        """Lay out the weights; raises ValueError for a target of another shape, or whose head is not its embedding."""
        embedding, config = target.model.embed_tokens.weight.detach(), target.config
        width, deep_enough = config.hidden_size, max(network.size.taps) < len(target.model.layers)
        if not (config.tie_word_embeddings and network.norm.weight.shape == (width,) and deep_enough):
            raise ValueError("its target has another shape")
        network = network.to(embedding.device)
        large = embedding.device.type == "cpu" and embedding.nbytes >= _PACKED
        linear = HalfLinear if large and packs(HalfLinear) else Linear
        root, self._min_length = width**0.5, least_of(width, config.rms_norm_eps, embedding)
        self.taps, self.ids = network.size.taps, network.ids.long()
        self._embedding, self._turn, self._padded = embedding, target.model.turn, linear.padded
        self._fuse = linear(network.fuse.weight.detach() * root)
        self._layer = laid_out(network.layer, network.config, linear)
        self._head = linear(embedding[self.ids] * network.norm.weight.detach() * root)

    def fused(self, states: Float[Tensor, "T S"]) -> Float[Tensor, "T W"]:
        """Return the fused hidden states of the target: those of the taps and the last, concatenated."""
        parts = normed(states.unflatten(-1, (len(self.taps) + 1, -1)), self._min_length)
        return self._fuse(self._padded(parts.flatten(-2)))[: len(states)]

    def forward(self, ids: Int[Tensor, " T"], states: Float[Tensor, "T W"], cached: SlotCache) -> Float[Tensor, "T W"]:
        """Return the states after the cached ones.

        Args:
            ids: Tokens, each the one after its state.
            states: States that they are predicted from: of the target, or earlier results of this network.
            cached: KV cache of earlier tokens, which the pass extends.
        """
        start, count = cached.get_seq_length(), len(ids)
        positions = torch.arange(start, start + count, device=ids.device)
        cached.advance(count)
        inputs = torch.cat([normed(self._embedding[ids], self._min_length), normed(states, self._min_length)], -1)
        rows, turn, remember = self._padded(states), self._turn[positions][None], cached.layers[0].update
        return self._layer(rows, turn, causal_mask(start, positions), remember, self._padded(inputs))[:count]

    def logits(self, states: Float[Tensor, "T W"]) -> Float[Tensor, "T R"]:
        """Return the logits of the tokens `ids`."""
        return self._head(self._padded(normed(states, self._min_length)))[: len(states)]


class EagleSession:
    """Drafts for the sequences of a target's session, whose hidden states it takes; drafts are cut off its cache."""

    def __init__(self, network: EagleHead, target: CausalLMSession, tasks: Sequence[Task]) -> None:
        target.record_hidden_states(network.taps)
        self.network, self._target, self._width = network, target, tasks[0].vocab_size
        self._prompts = [torch.tensor(task.prompt_ids, device=network.ids.device) for task in tasks]
        self._caches = [SlotCache(1, len(task.prompt_ids) + task.length) for task in tasks]
        self._last: dict[int, Tensor] = {}
        """State [1, W] after the last token, by sequence."""

    @torch.inference_mode()
    def forward(
        self, requests: Mapping[int, ProbsRequest], sampling: Sampling, lap: StageCallback
    ) -> dict[int, ForwardResult]:
        """Run the drafter; values are distributions [1, V]."""
        fed = [self._state(sequence, request) for sequence, request in requests.items()]
        logits = self.network.logits(torch.cat([self._last[sequence] for sequence in requests]))
        lap("forward", logits)
        probs = torch.zeros(len(fed), 1, self._width, dtype=torch.float64, device=logits.device)
        probs[:, :, self.network.ids] = to_probs(logits[:, None, None], sampling)
        lap("logits", probs)
        return {i: ForwardResult(row, 1, count) for i, row, count in zip(requests, probs, fed, strict=True)}

    def _state(self, sequence: int, request: ProbsRequest) -> int:
        """Advance to the state that predicts the token after a text; returns the number of tokens fed."""
        text, cached = torch.cat([self._prompts[sequence], request.tokens]), self._caches[sequence]
        seen = self._target.pop_hidden_states(sequence)
        if seen is None:
            ids, states = text[-1:], self._last[sequence]
        else:
            start, hidden = seen
            cached.crop(start - cached.get_seq_length())
            ids = text[start + 1 :]
            states = self.network.fused(hidden[: len(ids)])
        self._last[sequence] = self.network.forward(ids, states, cached)[-1:]
        return len(ids)


class EagleDrafter(CausalCheckpoint):
    """Drafter of a model. It only decodes together with its target."""

    def __init__(self, network: EagleHead, target: CausalCheckpoint, card: ModelCard, parameters: int) -> None:
        vars(self).update(vars(target))
        self._eagle, self.card, self.num_parameters = network, card, parameters

    def open_drafter_session(self, session: CausalLMSession, tasks: Sequence[Task]) -> EagleSession:
        """Open a session on top of the target's.

        Args:
            session: Session of the target, whose hidden states are read after each of its passes.
            tasks: Tasks of the target's session.
        """
        return EagleSession(self._eagle, session, tasks)


def load(name: str, target: Any) -> EagleDrafter:
    """Return the drafter of this name for a target.

    Args:
        name: Id of the drafter in the catalog.
        target: Model with hidden states that can be read: a network of `fast_decoder`, in float32.

    Raises:
        ModelError: If the target has none, or the drafter's weights are missing or damaged.
    """
    of_target = target.network if isinstance(target, Networked) else None
    if not isinstance(of_target, LeanCausalLM):
        raise ModelError(f"drafter: 'eagle' reads the hidden states of {target.card.id} in float32; set dtype=float32.")
    network, weights, parameters = _loaded(name, target.card.id, of_target)
    title = f"Drafter of {target.card.id} that reads its hidden states"
    return EagleDrafter(network, target, ModelCard(id=name, title=title, weights=weights), parameters)


@cache
def _loaded(name: str, model: str, target: LeanCausalLM) -> tuple[EagleHead, dict[str, str], int]:
    network, owner = Eagle(target.config, EagleSize()), f"drafter: 'eagle' of {model}"
    try:
        weights = load_weights(network, name, owner)
        return EagleHead(network, target), weights, count_parameters(network)
    except ModelError:
        raise
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"{owner}: {name} does not fit this target; set drafter=lookup, or retrain it with: "
            f"python -m training.{name.replace('-', '_')}"
        ) from error
