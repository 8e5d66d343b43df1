"""Checkpoints of models that draw at a small size, in their published layouts, with random weights.

Networks are those of transformers and diffusers where they have them; MAR, xAR and Harmon are this project's own.
"""

import argparse
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, VQModel
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import (
    ChameleonConfig,
    ChameleonForConditionalGeneration,
    Emu3Config,
    Emu3ForConditionalGeneration,
    JanusConfig,
    JanusForConditionalGeneration,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from draftscope.engines.models.checkpoints.conversion import Request, convert
from draftscope.engines.models.checkpoints.images.cosmos_tokenizer import CosmosTokenizer, TokenizerSize
from draftscope.engines.models.checkpoints.images.harmon import Harmon
from draftscope.engines.models.checkpoints.images.mar import MAR, MARSize
from draftscope.engines.models.checkpoints.images.xar import XAR, XARSize

SIDE, CODES = 4, 24
TEXT: dict[str, Any] = {
    "vocab_size": 130,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
VQ = {"embed_dim": 4, "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "latent_channels": 4}
MAR_SIZE = MARSize(side=SIDE, token=4, width=16, depth=2, heads=2, buffer=4, head_width=12, head_depth=2)
XAR_SIZE = XARSize(side=SIDE, token=4, width=16, depth=2, heads=2)
COSMOS = {"dim": 32, "ffn_hidden_size": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 240}
COSMOS |= {"norm_eps": 1e-5, "num_video_frames": 13, "video_height": 16, "video_width": 24}
CLIPS = TokenizerSize(patch=2, widths=(32,) * 4, depth=1, latent=8, halvings=(2, 1), levels=(5, 4, 4, 3))
MIDDLE = tuple((rf"mid_block\.resnets\.{i}", f"mid.block_{i + 1}") for i in range(2))
GROUPS: dict[str, tuple[str, ...]] = {
    "janus": ("<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>", "<begin_of_image>"),  # noqa: RUF001
    "emu3": ("<|extra_203|>", "<|image start|>", "<|image token|>", "<|extra_200|>"),
    "lumina-mgpt": ("<s>", "<reserved08706>", "<racm3:break>", "<reserved08799>", "<reserved08802>"),
    "lumina-mgpt-2": ("<|endoftext|>", "<reserved08706>", "<racm3:break>", "<reserved08799>", "<reserved08801>"),
    "anole": ("<s>", "<reserved08706>", "<racm3:break>"),
    "harmon": ("<|im_start|>", "<|im_end|>"),
}
"""Special tokens, by family."""


def randomised(network: Any, seed: int = 0) -> Any:
    """A network with weights that make outputs of about unit size."""
    noise = torch.Generator().manual_seed(seed)
    for name, weight in network.named_parameters():
        random = torch.randn(weight.shape, generator=noise)
        if weight.dim() > 1:
            weight.data = random * 1.3 * weight[0].numel() ** -0.5
        else:
            weight.data = 0.2 * random + (not name.endswith("bias"))
    return network.eval().requires_grad_(False)


def names(family: str) -> list[str]:
    """The codes' names where the tokenizer has them."""
    if family in ("lumina-mgpt", "anole"):
        return ["IMGIMG" + "".join("ABCDEFGHIJ"[int(d)] for d in str(code)) + "Z" for code in range(CODES)]
    return [f"<|visual token {code:06d}|>" for code in range(CODES)] if family == "emu3" else []


def tokenizer(family: str) -> Tokenizer:
    """Letters, the codes' names where the tokenizer has them, and special tokens."""
    letters = list("abcdefghijklmnopqrstuvwxyz .,*|<>:AUGĊĠ0123456789")
    codes = reversed(names(family))  # in an order that is not theirs
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate([*letters, *codes])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in GROUPS[family]])
    return tokenizer


def janus(seed: int = 0) -> Any:
    vq = {**VQ, "num_embeddings": CODES, "projection_dim": 32, "image_token_embed_dim": 32}
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 2 * SIDE}
    config = JanusConfig(
        text_config={"model_type": "llama", **TEXT}, vq_config=vq, vision_config={**sizes, "patch_size": 2}
    )
    return randomised(JanusForConditionalGeneration(config), seed)


def emu3(seed: int = 0) -> Any:
    vq = {**VQ, "codebook_size": CODES, "channel_multiplier": [1, 2], "hidden_size": 64, "attn_resolutions": [1]}
    config = Emu3Config(text_config=TEXT, vq_config=vq, vocabulary_map={"<image>": 7}, image_area=(2 * SIDE) ** 2)
    return randomised(Emu3ForConditionalGeneration(config), seed)


def chameleon(seed: int = 0) -> Any:
    config = ChameleonConfig(
        **TEXT, vocabulary_map={"<image>": 7}, vq_config={"base_channels": 32, "num_res_blocks": 1}
    )
    return randomised(ChameleonForConditionalGeneration(config), seed)


def vqgan(spatial: bool = False, seed: int = 0) -> Any:
    """Chameleon's VQGAN, or the one that is called MoVQGAN."""
    first = "AttnUpDecoderBlock2D" if spatial else "UpDecoderBlock2D"
    network = VQModel(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=(first, "UpDecoderBlock2D"),
        block_out_channels=(32, 64),
        latent_channels=4,
        num_vq_embeddings=CODES,
        norm_type="spatial" if spatial else "group",
        lookup_from_codebook=True,
    )
    return randomised(network, seed)


def kl16(seed: int = 0) -> Any:
    sizes = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    return randomised(AutoencoderKL(**sizes, block_out_channels=(32, 64), layers_per_block=2, latent_channels=4), seed)


def cosmos(seed: int = 0) -> Any:
    config = Qwen3Config(**{**TEXT, "vocab_size": 240, "num_key_value_heads": 2}, head_dim=8, rms_norm_eps=1e-5)
    return randomised(Qwen3ForCausalLM(config), seed)


def xar(seed: int = 0) -> XAR:
    """Trained on cells of 2x2, with the tables of rotary positions and the mask that are stored with the weights."""
    network = randomised(XAR(XAR_SIZE), seed)
    positions = torch.arange(SIDE**2).unflatten(0, (2, 2, 2, 2)).transpose(1, 2).flatten()
    speeds = 10_000 ** -(torch.arange(2) / 2)
    angles = torch.cat(
        [(axis[:, None] * speeds).repeat_interleave(2, 1) for axis in (positions // SIDE, positions % SIDE)], 1
    )
    for name, table in network.named_buffers():
        table.copy_({"freqs_cos": angles.cos(), "freqs_sin": angles.sin()}.get(name.rpartition(".")[2], table))
    cell = torch.arange(SIDE**2) // 4
    network.get_buffer("mask").masked_fill_(cell[None] > cell[:, None], -torch.inf)
    return network


def harmon(seed: int = 0) -> Harmon:
    qwen = Qwen2Model(Qwen2Config(**TEXT))
    return randomised(Harmon(MAR_SIZE, qwen), seed)


def replaced(state: dict[str, Tensor], *names: tuple[str, str]) -> dict[str, Tensor]:
    """Tensors under other names: patterns and their replacements, in this order."""
    renamed = {}
    for name, part in state.items():
        for pattern, new in names:
            name = re.sub(pattern, new, name)
        renamed[name] = part
    return renamed


def compvis(network: Any) -> dict[str, Tensor]:
    """An autoencoder by CompVis's names, with attention as convolutions; levels are counted from the pixels on."""
    state = {
        name: part[..., None, None] if re.search(r"to_.*weight", name) else part
        for name, part in network.state_dict().items()
    }
    return replaced(
        state,
        *MIDDLE,
        (r"mid_block\.attentions\.0", "mid.attn_1"),
        (r"(group|spatial)_norm", "norm"),
        (r"to_([qkv])", r"\1"),
        (r"to_out\.0", "proj_out"),
        (r"conv_shortcut", "nin_shortcut"),
        (r"conv_norm_out", "norm_out"),
        (r"down_blocks\.(\d)\.resnets", r"down.\1.block"),
        (r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample"),
        *((rf"up_blocks\.{i}\.", f"up.{1 - i}.") for i in range(2)),
        (r"(up\.\d)\.resnets", r"\1.block"),
        (r"(up\.\d)\.attentions", r"\1.attn"),
        (r"(up\.\d)\.upsamplers\.0", r"\1.upsample"),
    )


def cosmos_state(network: Any) -> dict[str, Tensor]:
    names = (
        (r"^model\.embed_tokens", "tok_embeddings"),
        (r"^lm_head", "output"),
        (r"^model\.", ""),
        (r"input_layernorm", "attention_norm"),
        (r"post_attention_layernorm", "ffn_norm"),
        (r"self_attn\.([qkvo])_proj", r"attention.w\1"),
        (r"self_attn", "attention"),
        (r"mlp\.gate_proj", "feed_forward.w1"),
        (r"mlp\.down_proj", "feed_forward.w2"),
        (r"mlp\.up_proj", "feed_forward.w3"),
    )
    return replaced(network.state_dict(), *names)


def clips_state(network: CosmosTokenizer) -> dict[str, Tensor]:
    return replaced(
        network.state_dict(),
        (r"\.conv_s\.", ".0.conv3d."),
        (r"\.conv_t\.", ".1.conv3d."),
        (r"\.conv_shortcut\.", ".nin_shortcut.conv3d."),
        (r"\.(down|up)samplers\.0\.(conv\d)\.", r".\1sample.\2.conv3d."),
        (r"down_blocks\.(\d)\.resnets", r"down.\1.block"),
        (r"down_blocks", "down"),
        *MIDDLE,
        (r"mid_block\.attentions\.0", "mid.attn_1.0"),
        (r"mid_block\.temp_attentions\.0", "mid.attn_1.1"),
        (r"\.to_([qkv])\.", r".\1.conv3d."),
        (r"\.to_out\.0\.", ".proj_out.conv3d."),
        (r"^(post_)?quant_conv\.", r"\1quant_conv.conv3d."),
        *((rf"up_blocks\.{i}\.", f"up.{2 - i}.") for i in range(3)),
        (r"(up\.\d)\.resnets", r"\1.block"),
    )


def mar_state(network: Any) -> dict[str, Tensor]:
    names = (
        (r"self_attn\.in_proj_", "attn.qkv."),
        (r"self_attn\.out_proj", "attn.proj"),
        (r"_blocks\.(\d)\.linear", r"_blocks.\1.mlp.fc"),
        (r"^qwen", "llm.model"),
    )
    return replaced(network.state_dict(), *names)


def scripted(state: dict[str, Tensor]) -> Any:
    """A module of TorchScript with tensors by dotted names."""
    root = nn.Module()
    for name, part in state.items():
        *path, leaf = name.split(".")
        at = root
        for step in path:
            if not hasattr(at, step):
                at.add_module(step, nn.Module())
            at = getattr(at, step)
        at.register_buffer(leaf, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and the release is in its format
        return torch.jit.script(root)


def _pickled(file: Path, state: dict[str, Tensor]) -> Path:
    """A state dict with the other state that training saves."""
    zeros = {key: torch.zeros_like(part) for key, part in state.items()}
    torch.save({"model": zeros, "model_ema": state, "args": argparse.Namespace(seed=0)}, file)
    return file


def pickles(family: str, files: Path, seed: int = 0) -> Request:
    """The files that a family is published as, and the request to convert them."""
    files.mkdir(parents=True)
    if family in ("mar", "xar", "harmon"):
        torch.save({"model": compvis(kl16(seed)) | {"loss.logvar": torch.zeros(1)}}, files / "kl16.ckpt")
    if family == "mar":
        state = mar_state(randomised(MAR(MAR_SIZE), seed))
        return Request(family, _pickled(files / "checkpoint-last.pth", state), files / "kl16.ckpt", 2)
    if family == "xar":
        return Request(family, _pickled(files / "xAR-B.pth", dict(xar(seed).state_dict())), files / "kl16.ckpt")
    if family == "harmon":
        torch.save(mar_state(harmon(seed)) | {"llm.lm_head.weight": torch.zeros(2)}, files / "harmon.pth")
        mar = {"type": "mar_base", "encoder_num_heads": 2, "diffloss_w": 12}
        text = {"model_type": "qwen2", **TEXT}
        (files / "config.json").write_text(json.dumps({"model_type": "harmon", "llm": text, "mar": mar}))
        tokenizer(family).save(str(files / "tokenizer.json"))
        return Request(family, files / "harmon.pth", files / "kl16.ckpt")
    if family == "cosmos":
        state = {f"model.{name}": part for name, part in cosmos_state(cosmos(seed)).items()}
        torch.save({"model": state}, files / "model.pt")
        (files / "config.json").write_text(json.dumps(COSMOS))
        codec = clips_state(randomised(CosmosTokenizer(CLIPS), seed))
        scripted(codec | {"quantizer._levels": torch.tensor(CLIPS.levels)}).save(str(files / "autoencoder.jit"))
        return Request(family, files, files)
    torch.save({"state_dict": compvis(vqgan(family == "lumina-mgpt-2", seed))}, files / "vqgan.ckpt")
    return Request(family, files / "vqgan.ckpt", side=SIDE)


def write(family: str, folder: Path, seed: int = 0) -> Path:
    """A folder of a family that is read: as it is published, or converted."""
    if family in ("mar", "xar", "harmon", "cosmos"):
        convert(pickles(family, folder.with_name(f"{folder.name}-published"), seed), folder)
        return folder
    native: dict[str, Callable[[int], Any]] = {"janus": janus, "emu3": emu3}
    native.get(family, chameleon)(seed).save_pretrained(folder)
    tokenizer(family).save(str(folder / "tokenizer.json"))
    if family not in native:
        convert(pickles(family, folder.with_name(f"{folder.name}-published"), seed), folder / "pixels")
    if family == "lumina-mgpt-2":
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
        settings = json.loads((folder / "pixels" / "config.json").read_text())
        assert settings["first"] == 155_000
        (folder / "pixels" / "config.json").write_text(json.dumps(settings | {"first": 100}))
    return folder
