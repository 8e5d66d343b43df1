"""Cosmos-1.0-Autoregressive, the base models of 4B and 12B (arXiv 2501.03575): continues nine frames by 24.

The network is a Qwen3 whose rotary positions are those of a code in the clip: time, row and column, each with a share
of a head's dimensions. Names, fields and defaults follow the release, github.com/NVIDIA/Cosmos,
cosmos1/models/autoregressive (Apache-2.0). A folder is one written by `convert`, with the tokenizer in a subfolder.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from typing_extensions import override

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import State, card_of, native_config, native_network, renamed
from draftscope.engines.models.checkpoints.conversion import Converted, Request, read_pickle
from draftscope.engines.models.checkpoints.images import cosmos_tokenizer
from draftscope.engines.models.checkpoints.images.cosmos_tokenizer import CosmosTokenizer, TokenizerSize
from draftscope.engines.models.checkpoints.images.video_model import ClipModel, ClipShape, unpack
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.image_rendering import ImageLimits
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers
from draftscope.engines.models.torch_model import hidden_states
from draftscope.engines.settings import ConfigError
from draftscope.traces.schema import ModelCard

TITLE: Final = "Cosmos-1.0-Autoregressive"
CONVERT: Final = "draftscope model convert cosmos SOURCE TOKENIZER TARGET"
TOKENIZER: Final = "tokenizer"
GIVEN_FRAMES: Final = 9
"""The longer of the two beginnings that the models were trained to continue; the other is a single frame."""
_PICTURES: Final = ImageLimits(max_patches=16, together=1, longest=512)
"""Frames of 640x1024 would make a trace larger than one may be."""
_NAMES: Final = (
    ("tok_embeddings.", "model.embed_tokens."),
    ("output.", "lm_head."),
    (".attention_norm.", ".input_layernorm."),
    (".ffn_norm.", ".post_attention_layernorm."),
    ("layers.", "model.layers."),
    (".attention.wq.", ".self_attn.q_proj."),
    (".attention.wk.", ".self_attn.k_proj."),
    (".attention.wv.", ".self_attn.v_proj."),
    (".attention.wo.", ".self_attn.o_proj."),
    (".attention.", ".self_attn."),
    (".feed_forward.w1.", ".mlp.gate_proj."),
    (".feed_forward.w2.", ".mlp.down_proj."),
    (".feed_forward.w3.", ".mlp.up_proj."),
)
"""Parts of the release's tensor names and Qwen3's for them, applied in this order."""
_SIZES: Final = {
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "intermediate_size": "ffn_hidden_size",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
}
_RELEASED: Final = {"rope_theta": 500_000.0, "num_video_frames": 33, "video_height": 640, "video_width": 1024}
"""Defaults of the release for fields missing in config.json."""
_LARGE: Final = (40, 5120)
"""Layers and width of the 12B model, which the release stretches regardless of config.json."""
_FIXED: Final = {
    "insert_cross_attn": False,
    "apply_abs_pos_emb": False,
    "rope_dim": "3D",
    "pytorch_rope_version": "v2",
    "norm_type": "rmsnorm",
    "use_qk_normalization": True,
    "causal_mask": True,
    "fuse_qkv": False,
    "vision_encoder": None,
    "mm_projector": None,
    "yarn_scale": 2,
    "yarn_beta_fast": 4,
    "yarn_beta_slow": 1,
    "original_latent_shape": [3, 40, 64],
}
"""Fields that may be missing and, where present, must have this value: Video2World, which attends to texts, has not."""
_HEAD_NORM_EPSILON: Final = 1e-5
"""Epsilon of the norms of queries and keys, regardless of norm_eps."""


class PlaceRotary(nn.Module):
    """Rotary positions from a table, instead of Qwen3's own; see `angles_of`."""

    cos: Tensor
    sin: Tensor

    def __init__(self, angles: Float[Tensor, "T D"]) -> None:
        super().__init__()
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(
        self, x: Float[Tensor, "B N W"], position_ids: Int[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N D"]]:
        """Return cosines and sines of the rotations at some positions.

        Args:
            x: Tensor whose number format the result has.
            position_ids: Positions in the clip, from 0.
        """
        return self.cos[position_ids].to(x.dtype), self.sin[position_ids].to(x.dtype)


class CosmosVideo(ClipModel):
    """A Cosmos-1.0-Autoregressive base model with its tokenizer."""

    def __init__(
        self, network: Any, tokenizer: CosmosTokenizer, shape: ClipShape, card: ModelCard, device: str
    ) -> None:
        super().__init__(network, card, torch.device(device), shape, _PICTURES)
        self.layers = len(network.model.layers)
        self._tokenizer = tokenizer.to(device)
        self.embedding = tokenizer.coordinates(torch.arange(tokenizer.size.codes, device=device)).double()
        self.placeholder_code = tokenizer.middle
        digests = [digest for name, digest in card.weights.items() if name.startswith(f"{TOKENIZER}/")]
        self.token_space = digests[0] if digests else ""

    @override
    def logits(
        self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None
    ) -> Float[Tensor, "B N K"]:
        states = hidden_states(self.network.model, positions, cache, mask, input_ids=ids)
        return cast(Tensor, self.network.lm_head(states))

    def parse_prompt(self, prompt: str) -> tuple[int, ...]:
        """Reject the prompt: no clips are bundled with these models."""
        codes = unpack(prompt, self.shape.num_given, self.shape.codes)
        if codes is None:
            raise ConfigError(
                f"prompt: {prompt!r:.60} is not a clip; give the path of a GIF or MP4 on the command line, "
                "or the result of prompt_for(bytes)."
            )
        return codes

    @override
    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        with torch.inference_mode():
            clip = frames.permute(3, 0, 1, 2)[None].float() / 127.5 - 1
            return self._tokenizer.encode(clip).flatten()

    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """Decode clip by clip, because one of 640x1024 needs gigabytes of temporary memory."""
        planes = codes.reshape(len(codes), -1, self.shape.rows, self.shape.columns).to(self.device)
        with torch.inference_mode():
            clips = [((self._tokenizer.decode(one[None])[0] + 1) * 127.5).round().byte().cpu() for one in planes]
        return torch.stack(clips).permute(0, 2, 3, 4, 1).contiguous()


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> CosmosVideo:
    """The model of a converted folder; see `families`. Its tokenizer, a fiftieth of it, is in float32."""
    config, once = config_of(source, settings), replace(source, remedy=f"Convert it once with: {CONVERT}")
    if (source.folder / "model.pt").is_file() and not any(source.folder.glob("*.safetensors")):
        raise once.incomplete("model.pt is a pickle, which is never read here")
    folder = once.inside(TOKENIZER)
    tokenizer = cosmos_tokenizer.tokenizer_of(folder, cosmos_tokenizer.size_of_folder(folder), folder.tensors())
    shape = shape_of(once, config, tokenizer.size)
    network = _network(once, config, once.tensors(), dtype)
    network.model.rotary_emb = PlaceRotary(angles_of(config, (shape.latents, shape.rows, shape.columns)))
    for layer in network.model.layers:
        layer.self_attn.q_norm.variance_epsilon = layer.self_attn.k_norm.variance_epsilon = _HEAD_NORM_EPSILON
    return CosmosVideo(network, tokenizer, shape, card_of(source, TITLE, folder), device)


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder. A broken tokenizer is reported on loading."""
    config, folder = config_of(source, settings), source.inside(TOKENIZER)
    exact, positions, parameters = 0, 0, 0
    with suppress(ModelError):
        parameters = source.count()
        size = cosmos_tokenizer.size_of_folder(folder)
        latents = 1 + (config.num_video_frames - 1) // size.span
        cells = (config.video_height // size.cell) * (config.video_width // size.cell)
        exact, positions = folder.count(), latents * cells
    return MemoryRequirement(parameters, exact, cached_numbers(config), positions)


def convert(request: Request) -> Converted:
    """Folders of the model, with config.json and model.pt, and of its tokenizer, with autoencoder.jit."""
    remedy = "Give the folder of hf download nvidia/Cosmos-1.0-"
    source = CheckpointDir(request.source.resolve().name, request.source, f"{remedy}Autoregressive-4B.")
    if request.second is None:
        raise ConfigError(f"SECOND: is missing. {remedy}Tokenizer-DV8x16x16.")
    folder = CheckpointDir(request.second.resolve().name, request.second, f"{remedy}Tokenizer-DV8x16x16.")
    settings = source.read_json("config.json")
    config = config_of(source, settings)
    state = read_pickle(source, ("model",), "model.pt")
    state = {name.removeprefix("model."): part for name, part in state.items()}
    _network(source, config, state, torch.bfloat16)
    codec, levels = cosmos_tokenizer.read_jit(folder)
    size = cosmos_tokenizer.size_of(folder, {name: tuple(part.shape) for name, part in codec.items()}, levels)
    cosmos_tokenizer.tokenizer_of(folder, size, codec)
    shape_of(source, config, size)
    return Converted({"": state, TOKENIZER: codec}, settings, inside={TOKENIZER: {"levels": levels}})


def config_of(source: CheckpointDir, settings: Mapping[str, Any]) -> Any:
    """Return config.json as a Qwen3Config, with the release's additional fields for clips and positions.

    Args:
        source: Folder that errors name.
        settings: Content of config.json.

    Raises:
        ModelError: If a field is missing, has a value that is not supported, or does not fit the others.
    """
    present = {name: value for name, value in settings.items() if value is not None}
    source.check_fixed(present, _FIXED, TITLE)
    sizes = {native: source.number(present, name) for native, name in _SIZES.items()}
    heads, hidden = sizes["num_attention_heads"], sizes["hidden_size"]
    if heads % (groups := sizes["num_key_value_heads"]):
        raise source.unsupported(
            f"config.json has {groups} for 'n_kv_heads', which does not divide its {heads} 'n_heads'"
        )
    sizes["head_dim"] = source.number({"head_dim": hidden // heads, **present}, "head_dim")
    if sizes["head_dim"] % 2:
        raise source.unsupported(f"config.json has heads of {sizes['head_dim']} dimensions, an odd number")
    epsilon = source.fraction(present, "norm_eps")
    extra = {"rms_norm_eps": epsilon, "tie_word_embeddings": False, "pad_token_id": None}
    full = {**_RELEASED, **present}
    clips = {name: source.number(full, name) for name in ("num_video_frames", "video_height", "video_width")}
    clips["apply_yarn"] = bool(present.get("apply_yarn", (sizes["num_hidden_layers"], hidden) == _LARGE))
    return native_config(source, Qwen3Config, sizes | extra | clips | {"theta": source.fraction(full, "rope_theta")})


def shape_of(source: CheckpointDir, config: Any, size: TokenizerSize) -> ClipShape:
    """Return the size of clips, in pixels and in codes.

    Args:
        source: Folder that errors name.
        config: Result of `config_of`.
        size: Sizes of the tokenizer.

    Raises:
        ModelError: If the tokenizer has another codebook, or its codes do not fill a clip.
    """
    cell, span, codes = size.cell, size.span, config.vocab_size
    frames, height, width = config.num_video_frames, config.video_height, config.video_width
    if codes != size.codes or codes > 2**16:
        raise source.unsupported(
            f"config.json has {codes} for 'vocab_size', and its tokenizer makes {size.codes} codes"
        )
    if height % cell or width % cell or (frames - 1) % span or (GIVEN_FRAMES - 1) % span:
        clip = f"{frames} frames of {height}x{width}"
        raise source.unsupported(f"config.json has clips of {clip}, which codes of {span}x{cell}x{cell} do not fill")
    if frames <= GIVEN_FRAMES:
        raise source.unsupported(f"config.json has {frames} for 'num_video_frames', and {GIVEN_FRAMES} are given")
    return ClipShape(frames, GIVEN_FRAMES, span, height // cell, width // cell, cell, codes)


def angles_of(config: Any, latent: tuple[int, int, int]) -> Float[Tensor, "T D"]:
    """Return the angle of every rotation at every position of a clip.

    A third of the rotations turns with the row and a third with the column, rounded down; the rest turns with time.
    The second half of a head repeats the angles of the first. The factor by which YaRN sharpens attention is not
    applied, as the release applies it in another version of its positions alone.

    Args:
        config: Result of `config_of`; its `apply_yarn` slows rotations as the release does.
        latent: Frames, rows and columns of the clip in codes; T is their product.
    """
    dim = config.head_dim
    space = dim // 6 * 2
    in_time, in_space = (
        config.theta ** -(torch.arange(0, num_dims, 2, dtype=torch.float32) / num_dims)
        for num_dims in (dim - 2 * space, space)
    )
    if config.apply_yarn:
        in_time, in_space = _slowed(in_time, 3), _slowed(in_space, 40)
    coordinates = torch.meshgrid(*(torch.arange(size, dtype=torch.float32) for size in latent), indexing="ij")
    speeds = (in_time, in_space, in_space)
    half = torch.cat(
        [coordinate[..., None] * speed for coordinate, speed in zip(coordinates, speeds, strict=True)], -1
    ).flatten(0, 2)
    return torch.cat([half, half], -1)


def _slowed(speeds: Float[Tensor, " R"], before: int) -> Float[Tensor, " R"]:
    """YaRN (arXiv 2309.00071), so that longer clips than trained fit.

    Rotations of fewer than 1 turn over `before` positions have half their speed, those of more than 4 their own.
    """
    unscaled = ((speeds * before / (2 * math.pi) - 1) / 3).clamp(0, 1)
    return speeds * (unscaled + (1 - unscaled) / 2)


def _network(source: CheckpointDir, config: Any, state: State, dtype: torch.dtype) -> Any:
    """The native network of tensors with the release's names."""
    native = {renamed(name, _NAMES): part for name, part in state.items()}
    native = {"model.norm.weight" if name == "norm.weight" else name: part for name, part in native.items()}
    return native_network(source, Qwen3ForCausalLM, config, native, dtype)
