"""Decoders of the shape of Llama and Qwen with few, large operations: the form in which models of that shape decode.

Q, K and V are one product, normalised and turned together; large weights are packed for oneDNN, so that a pass over a
few tokens costs hardly more than one over one. Results differ by rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import LlamaModel, MistralModel, Qwen2Model, Qwen3Model
from typing_extensions import override

from draftscope.engines.models.sessions.causal import SlotCache
from draftscope.engines.models.transformers_api import Cache, is_offloaded

Remember = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes K and V [n, H, T, D] of a pass and gives all that may be seen."""
Product = Literal["qkv", "out", "gate", "up", "down"]
Addition = Callable[[Product, Tensor, Tensor], None]
"""Adds to the rows [P, out] of a product in place what an adapter makes of its inputs [P, in]."""
_ROTATIONS: Final = ("default", "linear", "llama3")
"""Kinds of rotary embeddings whose angles do not depend on the length of a text."""
LARGE: Final = 3 * 2**23
"""Bytes of weights above which no cache holds them together with all else."""
_ROWS: Final = 2
"""The fewest rows of a packed product: from two on a row does not depend on the number of others."""


class States(NamedTuple):
    """Output of a pass, named as in transformers, whose own record takes as long to create as a small layer."""

    last_hidden_state: Float[Tensor, "n T W"]
    tapped: tuple[Float[Tensor, "n T W"], ...] = ()
    """Hidden states after the requested layers."""
    logits: Float[Tensor, "1 T V"] | None = None
    """Logits of a causal language model."""


class FastDecoder(nn.Module):
    """Replacement for the decoder of transformers that it is built from, on its device, in float32, for inference."""

    def __init__(self, model: Any, linear: "type[Linear]") -> None:
        """Lay out the weights of a model that `fits`; layers are taken out of it, so that one is held twice at most."""
        super().__init__()
        config = model.config
        self.linear = linear
        self.embed_tokens = model.embed_tokens
        self.layers = tuple(laid_out(model.layers.pop(0), config, linear) for _ in range(len(model.layers)))
        width, self._min_length = (
            config.hidden_size,
            least_of(config.hidden_size, config.rms_norm_eps, model.norm.weight),
        )
        self._norm = model.norm.weight.detach() * width**0.5
        steps = torch.arange(config.max_position_embeddings, device=self._norm.device)
        angle = model.rotary_emb.inv_freq[None].to(steps.device) * steps[:, None]
        self.turn = torch.polar(torch.full_like(angle, model.rotary_emb.attention_scaling), angle)[:, None]

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the computations."""
        return cast(torch.dtype, self._norm.dtype)

    def forward(  # noqa: PLR0913  # those of transformers, and two more
        self,
        input_ids: Int[Tensor, "n T"] | None = None,
        inputs_embeds: Float[Tensor, "n T W"] | None = None,
        position_ids: Int[Tensor, "n T"] | None = None,
        attention_mask: Float[Tensor, "n 1 T S"] | None = None,
        past_key_values: Cache | None = None,
        taps: Sequence[int] = (),
        additions: Sequence[Addition] = (),
        **_: object,
    ) -> States:
        """Run the decoder, as `LlamaModel.forward` does.

        Args:
            input_ids: Tokens; embeddings replace them.
            inputs_embeds: Embedded tokens.
            position_ids: Position of each token; required.
            attention_mask: Additive mask as `causal_mask` returns it; None if attention is causal.
            past_key_values: KV cache, which the pass extends; without one nothing is stored.
            taps: Layers whose outputs are returned, too: indices from 0, rising.
            additions: What an adapter adds, one for each layer, or none.
        """
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        assert x is not None
        turn, shape = self.turn[position_ids], x.shape  # [n, T, 1, D / 2]
        rows, tapped = self.linear.padded(x.reshape(-1, shape[-1])), []
        for i, layer in enumerate(self.layers):
            remember: Remember = (lambda k, v: (k, v)) if past_key_values is None else past_key_values.layers[i].update
            rows = layer(rows, turn, attention_mask, remember, add=additions[i] if additions else None)
            if i in taps:
                tapped.append(rows[: shape[0] * shape[1]].view(shape))
        last = (normed(rows, self._min_length) * self._norm)[: shape[0] * shape[1]].view(shape)
        return States(last, tuple(tapped))


def lean(model: nn.Module) -> nn.Module:
    """The lean form of a decoder that has one, and the decoder itself otherwise."""
    if not is_supported(model):
        return model
    layers: Any = model.layers
    size = sum(weight.nbytes for weight in layers.parameters() if weight.device.type == "cpu")
    if not size or not packs():
        return FastDecoder(model, Linear)
    return FastDecoder(model, PackedLinear if size >= LARGE else CachedLinear)


def is_supported(model: Any) -> bool:
    """Whether a decoder is in float32 on one device, its attention full, its feed-forward part gated by SiLU."""
    if type(model) not in (LlamaModel, MistralModel, Qwen2Model, Qwen3Model) or model.dtype != torch.float32:
        return False
    config = model.config
    sliding = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    if type(model) is MistralModel:
        sliding = config.sliding_window is not None
    rotation = config.rope_parameters.get("rope_type", "default")
    devices = {weight.device for weight in model.parameters()}
    apart = len(devices) > 1 or is_offloaded(model)
    return config.hidden_act == "silu" and rotation in _ROTATIONS and not sliding and not apart


class LeanCausalLM(nn.Module):
    """Replacement for a causal language model whose decoder `is_supported`, for one sequence.

    Its head is packed, too.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        head: Any = network.lm_head
        self.config: Any = network.config
        self.model = cast(FastDecoder, lean(network.model))
        self._head: Linear = self.model.linear(head.weight, head.bias)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return cast(torch.device, self.model.embed_tokens.weight.device)

    def forward(
        self,
        input_ids: Int[Tensor, "1 T"],
        past_key_values: SlotCache,
        logits_to_keep: int = 0,
        taps: Sequence[int] = (),
        **_: object,
    ) -> States:
        """Return the logits of tokens after the cached ones.

        Args:
            input_ids: Tokens of one sequence.
            past_key_values: KV cache, which the pass extends.
            logits_to_keep: Last tokens whose logits are computed; 0 for all.
            taps: Layers whose outputs are returned, too: indices from 0, rising.
        """
        start, count = past_key_values.get_seq_length(), input_ids.shape[1]
        positions = torch.arange(start, start + count, device=input_ids.device)
        past_key_values.advance(count)
        states = self.model(input_ids, None, positions[None], causal_mask(start, positions), past_key_values, taps)
        logits = self.logits(states.last_hidden_state[0, -logits_to_keep:])[None]
        return States(states.last_hidden_state, states.tapped, logits)

    def logits(self, states: Float[Tensor, "R W"]) -> Float[Tensor, "R V"]:
        """Return the head's logits for last hidden states."""
        return self._head(self._head.padded(states))[: len(states)]


def causal_mask(start: int, positions: Int[Tensor, " T"]) -> Float[Tensor, "1 1 T S"] | None:
    """Return the additive attention mask of consecutive tokens; None if it is the causal one or hides nothing.

    Args:
        start: Cached tokens before them.
        positions: Their positions, start .. start + T - 1.

    Returns:
        0 where a token attends to a cached or an earlier one or itself, else the lowest float32.
    """
    if not start or len(positions) == 1:
        return None
    hidden = torch.arange(start + len(positions), device=positions.device) > positions[:, None]
    return torch.where(hidden, torch.finfo(torch.float32).min, 0.0)[None, None]


class Linear:
    """A product x @ weight.T + bias, over weights [out, in] as they lie."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight, self._bias = weight.detach().t().contiguous(), None if bias is None else bias.detach()

    @staticmethod
    def padded(x: Float[Tensor, "R in"]) -> Float[Tensor, "P in"]:
        """Return the rows to multiply: these, followed by rows of zeros."""
        return x

    def __call__(self, x: Float[Tensor, "R in"], to: Float[Tensor, "R out"] | None = None) -> Float[Tensor, "R out"]:
        """Return the product, added to `to` if given."""
        if to is None or self._bias is None:
            start = self._bias if to is None else to
            return torch.mm(x, self._weight) if start is None else torch.addmm(start, x, self._weight)
        return to + torch.addmm(self._bias, x, self._weight)


class PackedLinear(Linear):
    """Linear layer by oneDNN, with weights in its order, in one operation each. Its operators are private in torch."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS)
        self._bias = None if bias is None else bias.detach()

    @override
    @staticmethod
    def padded(x: Tensor) -> Tensor:
        return x if x.shape[0] >= _ROWS else F.pad(x, (0, 0, 0, _ROWS - x.shape[0]))

    @override
    def __call__(self, x: Tensor, to: Tensor | None = None) -> Tensor:
        if to is None:
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], ""))
        return cast(Tensor, torch.ops.mkldnn._linear_pointwise.binary(x, to, self._weight, self._bias, "add"))


class CachedLinear(PackedLinear):
    """Linear layer for weights that fit a cache, from which a single row is read faster in their original order."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__(weight, bias)
        self._one = Linear(weight, bias)

    @override
    @staticmethod
    def padded(x: Tensor) -> Tensor:
        return x if x.shape[0] == 1 else PackedLinear.padded(x)

    @override
    def __call__(self, x: Tensor, to: Tensor | None = None) -> Tensor:
        return self._one(x, to) if x.shape[0] == 1 else super().__call__(x, to)


class HalfLinear(PackedLinear):
    """Linear layer with weights in bfloat16, half the bytes to read, for float32 results that need not be exact."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__(weight.bfloat16(), None if bias is None else bias.bfloat16())

    @override
    def __call__(self, x: Tensor, to: Tensor | None = None) -> Tensor:
        product = super().__call__(x.bfloat16()).float()
        return product if to is None else product + to


@cache
def packs(kind: type[PackedLinear] = PackedLinear) -> bool:
    """Whether this build of torch has oneDNN's operators for a kind of product, and they multiply as `Linear` does."""
    try:
        generator = torch.Generator().manual_seed(0)
        weight, x, other = (torch.randn(rows, 32, generator=generator) for rows in (32, _ROWS, _ROWS))
        plain, packed = (
            torch.stack([one(x), one(x, other)]) for one in (Linear(weight, weight[0]), kind(weight, weight[0]))
        )
        return torch.allclose(plain, packed, atol=1e-4 if kind is PackedLinear else 0.5)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """One layer. The two numbers that a rotation combines are adjacent, as in complex numbers; scores are unchanged.

    The scale of a norm is multiplied into the weights after it.
    """

    heads: tuple[int, int]
    qkv: Linear
    scale: Float[Tensor, "G D"] | None
    """Scale of queries and keys, if they are normalised."""
    out: Linear
    gate_up: Linear
    down: Linear
    min_length: Tensor
    """Minimum length of states; see `normed`."""
    least_head: Tensor

    def __call__(
        self,
        rows: Float[Tensor, "P W"],
        turn: Tensor,
        mask: Float[Tensor, "n 1 T S"] | None,
        remember: Remember,
        inputs: Tensor | None = None,
        add: Addition | None = None,
    ) -> Float[Tensor, "P W"]:
        """Return the states after the layer; its attention projects the normalised states, or other `inputs` [P, I]."""
        (n, T), (heads, stored) = turn.shape[:2], self.heads
        both = heads + stored
        inputs = normed(rows, self.min_length) if inputs is None else inputs
        product = self.qkv(inputs)
        if add is not None:
            add("qkv", inputs, product)
        mixed = product[: n * T].view(n, T, both + stored, -1)
        qk = mixed[:, :, :both]
        if self.scale is not None:
            qk = qk * (self.scale / torch.hypot(torch.linalg.vector_norm(qk, dim=-1, keepdim=True), self.least_head))
        turned = torch.view_as_real(torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * turn).flatten(-2).transpose(1, 2)
        keys, values = remember(turned[:, heads:], mixed[:, :, both:].transpose(1, 2))
        seen = _attend(turned[:, :heads], keys, values, mask)
        heads_joined = self.out.padded(seen.transpose(1, 2).reshape(n * T, -1))
        rows = self.out(heads_joined, rows)
        if add is not None:
            add("out", heads_joined, rows)
        between = normed(rows, self.min_length)
        gate, up = self.gate_up(between).chunk(2, -1)
        if add is not None:
            add("gate", between, gate)
            add("up", between, up)
        inner = F.silu(gate) * up
        rows = self.down(inner, rows)
        if add is not None:
            add("down", inner, rows)
        return rows


def _attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Float[Tensor, "n H T D"]:
    """Attention where several heads of queries may share one of keys: these then are further rows of it."""
    (n, heads, T, dim), stored = queries.shape, keys.shape[1]
    causal = mask is None and T > 1
    if heads == stored or causal:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=heads != stored
        )
    together = queries.reshape(n, stored, -1, dim)
    repeated = None if mask is None else mask.repeat(1, 1, heads // stored, 1)
    return F.scaled_dot_product_attention(together, keys, values, attn_mask=repeated).view(n, heads, T, dim)


def laid_out(layer: Any, config: Any, linear: type[Linear]) -> LeanLayer:
    """Return a layer of a decoder in its lean form, with the scales of its norms multiplied into its weights.

    Args:
        layer: Layer of a decoder of transformers that `fits`.
        config: Its config.
        linear: Class that holds a product's weights.
    """
    attention, feed_forward = layer.self_attn, layer.mlp
    epsilon, width, head_dim = config.rms_norm_eps, config.hidden_size, attention.head_dim
    root, before, post_norm = width**0.5, layer.input_layernorm.weight, layer.post_attention_layernorm.weight
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k = (paired(one.weight, head_dim) for one in parts[:2])
    gate, up = feed_forward.gate_proj, feed_forward.up_proj
    biases = None
    if attention.q_proj.bias is not None:
        biases = torch.cat([*(paired(one.bias, head_dim) for one in parts[:2]), attention.v_proj.bias])
    scale = None
    if hasattr(attention, "q_norm"):
        norms = zip((attention.q_norm, attention.k_norm), (q, k), strict=True)
        scale = torch.cat([paired(one.weight, head_dim).expand(len(of) // head_dim, -1) for one, of in norms])
    return LeanLayer(
        heads=(len(q) // head_dim, len(k) // head_dim),
        qkv=linear(torch.cat([q, k, attention.v_proj.weight]) * before * root, biases),
        scale=None if scale is None else scale.detach() * head_dim**0.5,
        out=linear(attention.o_proj.weight, attention.o_proj.bias),
        gate_up=linear(
            torch.cat([gate.weight, up.weight]) * post_norm * root,
            None if gate.bias is None else torch.cat([gate.bias, up.bias]),
        ),
        down=linear(feed_forward.down_proj.weight, feed_forward.down_proj.bias),
        min_length=least_of(width, epsilon, q),
        least_head=least_of(head_dim, epsilon, q),
    )


def normed(x: Tensor, min_length: Tensor) -> Tensor:
    """Return vectors over their length.

    This is RMSNorm up to the factor sqrt(width), which is part of the weights after it.

    Args:
        x: Vectors along the last dimension.
        min_length: Result of `least_of`, which limits the factor for short ones.
    """
    return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), min_length)


def least_of(width: int, epsilon: float, like: Tensor) -> Tensor:
    """Return sqrt(width * epsilon): the minimum length that `normed` divides by.

    Args:
        width: Numbers in a vector.
        epsilon: What RMSNorm adds to the mean square.
        like: Tensor whose number format and device the result has.
    """
    return torch.tensor((width * epsilon) ** 0.5, dtype=like.dtype, device=like.device)


def paired(weight: Tensor, head_dim: int) -> Tensor:
    """Return the rows of every head in the order 0, D/2, 1, D/2 + 1, ..., so that a rotation turns neighbours.

    Args:
        weight: Weights of a projection to heads, one row an output, or its biases.
        head_dim: Rows of a head, D, an even number.
    """
    halves: Tensor = weight.detach().unflatten(0, (-1, 2, head_dim // 2))
    return halves.transpose(1, 2).flatten(0, 2)
