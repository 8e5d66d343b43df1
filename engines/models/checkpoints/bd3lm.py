"""The network of BD3-LM (block diffusion, arXiv 2503.09573): a diffusion transformer whose time is always zero.

Its scales, shifts and gates (adaLN, arXiv 2212.09748) depend on the time alone, so they are constants, which are put
into the layer norms and products next to them. The rest is a class of transformers with a bias in its head.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Starcoder2ForCausalLM

RATIO: Final = 4
"""Width of the feed-forward networks, in widths of the residual stream."""
_UNUSED: Final = ("backbone.rotary_emb.inv_freq", "sampling_eps_min", "sampling_eps_max")
_Take = Callable[[str], Tensor]


class BD3LM(Starcoder2ForCausalLM):  # type: ignore[misc]
    """The network with constants in place of its modulations."""

    def __init__(self, config: Any) -> None:
        """Make the class of transformers with a head that has a bias."""
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)


def fold(state: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint as those of `BD3LM`, with the adaLN of time zero folded into them.

    Args:
        state: Tensors of the checkpoint by their published names.
        config: Its config, of which the number of layers is read.

    Returns:
        Tensors in float32; those that the network has no place for stay as they are.

    Raises:
        KeyError: For a tensor that is missing.
        RuntimeError: For shapes that do not belong together.
    """
    left = {name: part for name, part in state.items() if name not in _UNUSED}

    def take(name: str) -> Tensor:
        return left.pop(f"backbone.{name}").float()

    condition = _condition(take)
    native = {"model.embed_tokens.weight": take("vocab_embed.embedding")}
    for i in range(config.num_hidden_layers):
        layer = _layer(take, f"blocks.{i}.", condition)
        native |= {f"model.layers.{i}.{name}": part for name, part in layer.items()}
    shift, scale = _modulation(take, "output_layer.", condition).chunk(2)
    native |= {"model.norm.weight": take("output_layer.norm_final.weight") * (1 + scale), "model.norm.bias": shift}
    native |= {f"lm_head.{name}": take(f"output_layer.linear.{name}") for name in ("weight", "bias")}
    return native | left


def _condition(take: _Take) -> Tensor:
    """The embedding of time 0, whose sines are 0 and whose cosines, the first half, are 1."""
    weight = take("sigma_map.mlp.0.weight")
    hidden = F.silu(weight[:, : weight.shape[1] // 2].sum(1) + take("sigma_map.mlp.0.bias"))
    return F.silu(take("sigma_map.mlp.2.weight") @ hidden + take("sigma_map.mlp.2.bias"))


def _modulation(take: _Take, prefix: str, condition: Tensor) -> Tensor:
    return take(f"{prefix}adaLN_modulation.weight") @ condition + take(f"{prefix}adaLN_modulation.bias")


def _layer(take: _Take, prefix: str, condition: Tensor) -> dict[str, Tensor]:
    """A layer, where a gate scales the last product of attention and that of the feed-forward network."""
    shift, scale, gate, ff_shift, ff_scale, ff_gate = _modulation(take, prefix, condition).chunk(6)
    products = dict(zip("qkv", take(f"{prefix}attn_qkv.weight").chunk(3), strict=True))
    products["o"] = gate[:, None] * take(f"{prefix}attn_out.weight")
    layer = {f"self_attn.{name}_proj.weight": weight for name, weight in products.items()}
    layer |= {f"self_attn.{name}_proj.bias": torch.zeros(len(weight)) for name, weight in products.items()}
    return layer | {
        "input_layernorm.weight": take(f"{prefix}norm1.weight") * (1 + scale),
        "input_layernorm.bias": shift,
        "post_attention_layernorm.weight": take(f"{prefix}norm2.weight") * (1 + ff_scale),
        "post_attention_layernorm.bias": ff_shift,
        "mlp.c_fc.weight": take(f"{prefix}mlp.0.weight"),
        "mlp.c_fc.bias": take(f"{prefix}mlp.0.bias"),
        "mlp.c_proj.weight": ff_gate[:, None] * take(f"{prefix}mlp.2.weight"),
        "mlp.c_proj.bias": ff_gate * take(f"{prefix}mlp.2.bias"),
    }
