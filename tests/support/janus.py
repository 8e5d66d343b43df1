"""Janus-Pro at a small size, in the release's layout and in transformers', and another implementation of it."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import compvis
from support.compvis import Codec, Decoder
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn import functional as F

SIDE, CODES, WIDTH, TEXT = 4, 24, 32, 60
CODEC = Codec(dim=4, codes=CODES, vq16=True, attends=(True, True))
NATIVE_CODEC = Codec(dim=4, codes=CODES, attends=(True, True))
DECODER = Decoder(epsilon=1e-6)
THETA = 1e4
SPECIAL = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<begin_of_image>", "<end_of_image>")  # noqa: RUF001
SIZES = {
    "vocab_size": TEXT,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
}
RELEASED: dict[str, Any] = {
    "model_type": "multi_modality",
    "architectures": ["MultiModalityCausalLM"],
    "language_config": {"model_type": "llama", **SIZES, "_attn_implementation": "flash_attention_2"},
    "vision_config": {"cls": "CLIPVisionTower", "params": {"image_size": SIDE * CODEC.cell, "select_layer": -1}},
    "aligner_config": {"cls": "MlpProjector", "params": {"depth": 2, "input_dim": 16, "n_embed": WIDTH}},
    "gen_vision_config": {"cls": "VQ-16", "params": {"image_token_size": CODES, "n_embed": 4}},
    "gen_aligner_config": {
        "cls": "MlpProjector",
        "params": {"depth": 2, "input_dim": 4, "n_embed": WIDTH, "projector_type": "mlp_gelu"},
    },
    "gen_head_config": {
        "cls": "vision_head",
        "params": {"image_token_embed": WIDTH, "image_token_size": CODES, "n_embed": WIDTH},
    },
}
NATIVE: dict[str, Any] = {
    "model_type": "janus",
    "text_config": {"model_type": "llama", **SIZES, "rope_parameters": {"rope_theta": THETA, "rope_type": "default"}},
    "vision_config": {"image_size": SIDE * CODEC.cell, "patch_size": CODEC.cell},
    "vq_config": {"embed_dim": 4, "num_embeddings": CODES, "num_hidden_layers": 2},
}


def linear(rows: int, columns: int, noise: torch.Generator) -> dict[str, Tensor]:
    return {
        "weight": compvis.drawn((rows, columns), noise),
        "bias": 0.2 * torch.randn(rows, generator=noise),
    }


def weights(seed: int = 3) -> dict[str, Tensor]:
    """The tensors of the release, those of the half that reads pictures included."""
    noise = torch.Generator().manual_seed(seed + 50)
    parts = {
        "gen_aligner.layers.0": linear(WIDTH, 4, noise),
        "gen_aligner.layers.2": linear(WIDTH, WIDTH, noise),
        "gen_head.output_mlp_projector": linear(WIDTH, WIDTH, noise),
        "gen_head.vision_head": linear(CODES, WIDTH, noise),
        "gen_embed": {"weight": torch.randn(CODES, 4, generator=noise)},
        "language_model.model.embed_tokens": {"weight": torch.randn(TEXT, WIDTH, generator=noise)},
        "language_model.lm_head": {"weight": torch.randn(TEXT, WIDTH, generator=noise)},
        "aligner.layers.0": linear(WIDTH, 16, noise),
        "vision_model.vision_tower.blocks.0.attn.qkv": linear(48, 16, noise),
    }
    found = {f"{name}.{kind}": part for name, own in parts.items() for kind, part in own.items()}
    found |= {f"language_model.model.{name}": part for name, part in DECODER.weights(WIDTH, 48, seed).items()}
    found |= {f"gen_vision_model.{name}": part for name, part in compvis.weights(CODEC).items()}
    return found | {"gen_vision_model.quantize.codebook_used": torch.zeros(8)}


def native(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same by the names that transformers saves them under."""
    plain = dict(zip(compvis.weights(CODEC), compvis.weights(NATIVE_CODEC), strict=True))
    levels = len(CODEC.times)
    found = {}
    for name, part in tensors.items():
        if name.startswith("gen_vision_model."):
            own = plain.get(name.removeprefix("gen_vision_model."))
            if own is None:
                continue
            if own.startswith("decoder.up."):  # counted in the order of computation there
                place, rest = own.removeprefix("decoder.up.").split(".", 1)
                own = f"decoder.up.{levels - 1 - int(place)}.{rest}"
            found[f"model.vqmodel.{own}"] = part
            continue
        for old, new in (
            ("gen_aligner.layers.0", "model.generation_aligner.fc1"),
            ("gen_aligner.layers.2", "model.generation_aligner.hidden_layers.0"),
            ("gen_head.output_mlp_projector", "model.generation_head.proj_out"),
            ("gen_head.vision_head", "model.generation_head.vision_head"),
            ("gen_embed", "model.generation_embeddings"),
            ("language_model.model", "model.language_model"),
            ("language_model.lm_head", "lm_head"),
            ("aligner.layers.0", "model.aligner.fc1"),
            ("vision_model.vision_tower.blocks.0.attn.qkv", "model.vision_model.encoder.layers.0.self_attn.q_proj"),
        ):
            if name.startswith(f"{old}."):
                found[name.replace(old, new)] = part
                break
        else:
            raise AssertionError(name)
    return found


def tokenizer() -> Tokenizer:
    """Every byte a token, and the special ones."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz |<>:AUsĊĠ"))
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return made


def prompt_ids(text: str, silent: bool) -> list[int]:
    """A prompt as the release puts it, or the one without it."""
    made = tokenizer()
    begin, _, pad, picture, _ = (made.token_to_id(name) for name in SPECIAL)
    inner = made.encode(f"<|User|>: {text}\n\n<|Assistant|>:", add_special_tokens=False).ids
    return [begin, *([pad] * len(inner) if silent else inner), picture]


def forward(tensors: dict[str, Tensor], prompt: list[int], codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them, in float64."""

    def part(name: str) -> tuple[Tensor, Tensor]:
        return tensors[f"{name}.weight"].double(), tensors[f"{name}.bias"].double()

    own = {n.removeprefix("language_model.model."): t for n, t in tensors.items() if n.startswith("language_model.m")}
    first, second = part("gen_aligner.layers.0"), part("gen_aligner.layers.2")
    drawn = tensors["gen_embed.weight"].double()[codes] @ first[0].T + first[1]
    drawn = F.gelu(drawn) @ second[0].T + second[1]
    h = torch.cat([own["embed_tokens.weight"].double()[prompt], drawn])
    h = DECODER.forward(own, h, compvis.along(torch.arange(len(h)), DECODER.size, THETA))
    third, fourth = part("gen_head.output_mlp_projector"), part("gen_head.vision_head")
    return (F.gelu(h[len(prompt) - 1 :] @ third[0].T + third[1]) @ fourth[0].T) + fourth[1]


def pixels(tensors: dict[str, Tensor], codes: Tensor) -> Tensor:
    """Pictures of codes [B, N]."""
    own = {n.removeprefix("gen_vision_model."): t for n, t in tensors.items() if n.startswith("gen_vision_model.")}
    return compvis.decode(CODEC, own, compvis.looked_up(own, codes, SIDE, unit=True))


def write(folder: Path, *, released: bool, seed: int = 3) -> Path:
    """A checkpoint."""
    folder.mkdir(parents=True)
    tensors = weights(seed)
    (folder / "config.json").write_text(json.dumps(RELEASED if released else NATIVE))
    save_file(tensors if released else native(tensors), folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder
