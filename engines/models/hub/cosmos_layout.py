"""What config.json of a Cosmos-1.0-Autoregressive checkpoint says (arXiv 2501.03575), and what its tensors are called.

The network is a decoder of Qwen3's kind: grouped queries, RMS norms, also of queries and keys, and SwiGLU. Its rotary
positions are those of a code in the clip, time, row and column, each with a share of a head's dimensions. Names, fields
and defaults follow the release, github.com/NVIDIA/Cosmos, cosmos1/models/autoregressive (Apache-2.0). What config.json
leaves out has there the values of `_RELEASED`; YaRN stretches the positions of the 12B model alone.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from engines.models.weights import Source, number_of

TITLE: Final = "Cosmos-1.0-Autoregressive"
CONVERT: Final = "python -m engines convert-cosmos SOURCE TOKENIZER TARGET"
NAMES: Final = (
    ("model.embed_tokens.", "tok_embeddings."),
    ("lm_head.", "output."),
    ("model.norm.", "norm."),
    ("model.layers.", "layers."),
    (".input_layernorm.", ".attention_norm."),
    (".post_attention_layernorm.", ".ffn_norm."),
    (".self_attn.q_proj.", ".attention.wq."),
    (".self_attn.k_proj.", ".attention.wk."),
    (".self_attn.v_proj.", ".attention.wv."),
    (".self_attn.o_proj.", ".attention.wo."),
    (".self_attn.", ".attention."),
    (".mlp.gate_proj.", ".feed_forward.w1."),
    (".mlp.down_proj.", ".feed_forward.w2."),
    (".mlp.up_proj.", ".feed_forward.w3."),
)
"""Parts of Qwen3's tensor names and what the release calls them, applied in this order."""
HEAD_NORM_EPSILON: Final = 1e-5
"""Of the norms of queries and keys, whatever norm_eps is."""
_SIZES: Final = {
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "intermediate_size": "ffn_hidden_size",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
}
_RELEASED: Final = {"rope_theta": 500_000.0, "num_video_frames": 33, "video_height": 640, "video_width": 1024}
_STRETCHED: Final = {
    "yarn_scale": 2,
    "yarn_beta_fast": 4,
    "yarn_beta_slow": 1,
    "original_latent_shape": [3, 40, 64],
}
_LARGE: Final = (40, 5120)
"""Layers and width of the 12B model, which the release stretches whether config.json says so or not."""
_FIXED: Final = {
    "rope_dim": "3D",
    "pytorch_rope_version": "v2",
    "norm_type": "rmsnorm",
    "use_qk_normalization": True,
    "causal_mask": True,
    "fuse_qkv": False,
    "vision_encoder": None,
    "mm_projector": None,
}
"""Fields that may be missing and, where present, must have this value: nothing else was built."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """YaRN (arXiv 2309.00071): slow rotations are slowed down further, so that longer clips than trained fit."""

    scale: float
    fast: float
    slow: float
    time: int
    space: int
    """Latent frames, and rows of a latent frame, before."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of a checkpoint."""

    network: Mapping[str, int]
    """By the names of Qwen3's config."""
    epsilon: float
    theta: float
    frames: int
    height: int
    width: int
    stretch: Stretch | None
    claimed: tuple[int, ...] | None
    """Latent frames, rows and columns, where config.json has them."""

    @property
    def config(self) -> Qwen3Config:
        """The config of the native class."""
        rope = {"rope_type": "default", "rope_theta": self.theta}  # its own positions are put in place of these
        return Qwen3Config(
            **self.network,
            rms_norm_eps=self.epsilon,
            rope_parameters=rope,
            attention_bias=False,
            tie_word_embeddings=False,
            attn_implementation="sdpa",
            pad_token_id=None,
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, as the release has them."""
        with torch.device("meta"):
            native = Qwen3ForCausalLM(self.config).state_dict()
        return {_original(name): tuple(tensor.shape) for name, tensor in native.items()}


def read_layout(source: Source, settings: Mapping[str, Any]) -> Layout:
    """What config.json asks for.

    Raises:
        ModelError: for fields that are missing or not allowed, and for models that this one is not.
    """
    said = {name: value for name, value in settings.items() if value is not None}
    refuse_conditioned(source, said)
    for name, value in _FIXED.items():
        if name in said and said[name] != value:
            raise source.lacks(f"config.json has {said[name]!r} for {name!r}; {TITLE} is built for {value!r}")
    network = {native: int(number_of(source, said, name)) for native, name in _SIZES.items()}
    heads, groups, hidden = (network[n] for n in ("num_attention_heads", "num_key_value_heads", "hidden_size"))
    if heads % groups:
        raise source.lacks(f"config.json has {groups} for 'n_kv_heads', which does not divide its {heads} 'n_heads'")
    network["head_dim"] = int(number_of(source, {"head_dim": hidden // heads, **said}, "head_dim"))
    if network["head_dim"] % 2:
        raise source.lacks(f"config.json has heads of {network['head_dim']} dimensions, an odd number")
    full = {**_RELEASED, **said}
    frames, height, width = (
        int(number_of(source, full, n)) for n in ("num_video_frames", "video_height", "video_width")
    )
    return Layout(
        network=network,
        epsilon=float(number_of(source, said, "norm_eps", fraction=True)),
        theta=float(number_of(source, full, "rope_theta", fraction=True)),
        frames=frames,
        height=height,
        width=width,
        stretch=_stretch(source, said, network),
        claimed=_triple(source, said, "video_latent_shape") if "video_latent_shape" in said else None,
    )


def refuse_conditioned(source: Source, settings: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """See that a checkpoint does not attend to a text: that neither config.json nor the name of a tensor says so.

    Raises:
        ModelError: where one does; the message names it.
    """
    fields = ("insert_cross_attn", "apply_abs_pos_emb")
    saying = [f"{settings[name]!r} for {name!r}" for name in fields if settings.get(name)]
    kinds = settings.get("input_types")
    saying += [f"{kinds!r} for 'input_types'"] if "text" in str(kinds) else []
    saying += [f"the tensor {name!r}" for name in names if ".cross_attention" in name]
    if saying:
        raise replace(source, remedy=f"Use one of the base models, {TITLE}-4B and -12B.").lacks(
            f"has {saying[0]}, as the 5B and 13B Video2World models have, whose cross-attention to a text is not built"
        )


def angles(layout: Layout, latent: tuple[int, int, int]) -> Float[Tensor, "T D"]:
    """Angle of every rotation at every position of a clip of `latent` frames, rows and columns.

    A third of the rotations turns with the row and a third with the column, rounded down; the rest turns with time.
    The second half of a head repeats the angles of the first. The factor by which YaRN sharpens attention is not
    applied, as the release applies it in another version of its positions alone.
    """
    dim = layout.network["head_dim"]
    space = dim // 6 * 2
    along = _speeds(layout.theta, dim - 2 * space), _speeds(layout.theta, space)
    if layout.stretch is not None:
        by = layout.stretch
        along = _slowed(along[0], by, by.time), _slowed(along[1], by, by.space)
    time, row, column = (torch.arange(size, dtype=torch.float32) for size in latent)
    parts = (
        torch.outer(time, along[0])[:, None, None],
        torch.outer(row, along[1])[None, :, None],
        torch.outer(column, along[1])[None, None, :],
    )
    half = torch.cat([part.expand(*latent, -1) for part in parts], -1).flatten(0, 2)
    return torch.cat([half, half], -1)


def _speeds(theta: float, dim: int) -> Float[Tensor, " R"]:
    return theta ** -(torch.arange(0, dim, 2, dtype=torch.float32) / dim)


def _slowed(speeds: Float[Tensor, " R"], by: Stretch, before: int) -> Float[Tensor, " R"]:
    """Rotations of fewer than `slow` turns over `before` positions by 1 / scale, of more than `fast` as they were."""
    turns = speeds * before / (2 * math.pi)
    kept = ((turns - by.slow) / (by.fast - by.slow)).clamp(0, 1)
    return speeds * (kept + (1 - kept) / by.scale)


def _stretch(source: Source, said: Mapping[str, Any], network: Mapping[str, int]) -> Stretch | None:
    large = (network["num_hidden_layers"], network["hidden_size"]) == _LARGE
    if not said.get("apply_yarn", large):
        return None
    full = {**_STRETCHED, **said}
    scale, fast, slow = (float(number_of(source, full, f"yarn_{n}", True)) for n in ("scale", "beta_fast", "beta_slow"))
    if fast <= slow:
        raise source.lacks(f"config.json has {slow:g} for 'yarn_beta_slow', which is not below its 'yarn_beta_fast'")
    before = _triple(source, full, "original_latent_shape")
    return Stretch(scale, fast, slow, before[0], before[1])


def _triple(source: Source, settings: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = settings[name]
    if not isinstance(value, list) or len(value) != 3 or not all(type(part) is int and part > 0 for part in value):
        raise source.lacks(f"config.json has {value!r} for {name!r}; it is three positive whole numbers")
    return tuple(value)


def _original(name: str) -> str:
    for native, original in NAMES:
        name = name.replace(native, original)
    return name
