"""Emu3-Gen (arXiv 2409.18869) in transformers' layout: a decoder of Llama's kind that draws 90 by 90 codes.

    <|extra_203|> text <|image start|> 90*90 <|image token|>, then rows of codes, each of which ends with <|extra_200|>

Words for good pictures follow a visitor's text, as in the release, and its unconditional prompt asks for bad ones. Two
generations of transformers gave the tensors two sets of names; both are read.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor
from transformers.models.emu3.configuration_emu3 import Emu3TextConfig, Emu3VQVAEConfig
from transformers.models.emu3.modeling_emu3 import Emu3RotaryEmbedding, Emu3TextModel, Emu3VQVAE

from engines.config import shown
from engines.models.hub.assembling import (
    card_of,
    check_fixed,
    check_whole,
    filled,
    numbers,
    outlined,
    section,
    shapes_of,
    stored,
)
from engines.models.hub.llama_text import sizes_of
from engines.models.hub.one_vocabulary import Ids, OneVocabulary, Pixels, Script
from engines.models.hub.prompts import TextPrompts
from engines.models.hub.published import read_tokenizer
from engines.models.memory import Needs, cached_numbers
from engines.models.picture_model import PictureShape
from engines.models.weights import Source, read_tensors, tensor_heads

TITLE: Final = "Emu3-Gen"
_GOOD: Final = " masterpiece, film grained, best quality."
_BAD: Final = (
    "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst quality, "
    "low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
)
_AREA: Final = 518_400
"""Pixels of a picture where config.json does not say."""
_BEGIN, _START, _PICTURE, _LINE = "<|extra_203|>", "<|image start|>", "<|image token|>", "<|extra_200|>"
_USUAL: Final = {
    "vocab_size": 184_622,
    "intermediate_size": 14_336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 9216,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e6,
}
_CODEC: Final[dict[str, int | float]] = {
    "codebook_size": 32_768,
    "embed_dim": 4,
    "latent_channels": 4,
    "base_channels": 256,
    "num_res_blocks": 2,
    "hidden_size": 1024,
    "temporal_downsample_factor": 4,
}
_LAYOUTS: Final = (
    ("model.text_model.", "lm_head.weight", "model.vqmodel."),
    ("text_model.model.", "text_model.lm_head.weight", "vqmodel."),
)
"""How names of the decoder begin, what its output layer is called, and how names of the tokenizer begin."""
_COUNTER: Final = ".num_batches_tracked"
_MOST_LEVELS: Final = 8


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> OneVocabulary:
    """The model of a folder; see `assembling.Loader`."""
    config, codec = _config(source, settings), _codec(source, settings)
    heads = tensor_heads(source)
    layout = next((each for each in _LAYOUTS if f"{each[0]}embed_tokens.weight" in heads), _LAYOUTS[0])
    body, vq = outlined(lambda: Emu3TextModel(config)), outlined(lambda: Emu3VQVAE(codec))
    del vq.encoder, vq.quant_conv
    state, head, drawn = _read(source, config, layout, (body, vq))
    body = filled(body, state, dtype)
    body.rotary_emb = Emu3RotaryEmbedding(config)
    vq = filled(vq, drawn, torch.float32)
    check_whole(body)
    check_whole(vq)
    side = _side(source, settings, vq.spatial_scale_factor)
    tokenizer = read_tokenizer(source)
    words = TextPrompts(tokenizer, source.name, _BEGIN, _START, _PICTURE, _LINE)
    names = [f"<|visual token {code:06d}|>" for code in range(codec.codebook_size)]
    ids = [-1 if (found := tokenizer.token_to_id(name)) is None else found for name in names]
    if -1 in ids:
        raise source.lacks(f"its tokenizer has no {names[ids.index(-1)]}")
    if max(ids) >= config.vocab_size:
        raise source.lacks(f"config.json has {config.vocab_size} for 'vocab_size', and its tokenizer has more tokens")

    def asked(prompt: str) -> tuple[Ids, Ids]:
        header = (words.named(_START), *words.ids(f"{side}*{side}"), words.named(_PICTURE))
        texts = (words.checked(prompt) + _GOOD, _BAD)
        found, silent = ((words.named(_BEGIN), *words.ids(text), *header) for text in texts)
        return found, silent

    vq = vq.to(device)
    pixels = Pixels(vq, vq.quantize.embedding.weight, lambda codes: vq.decode(codes.unflatten(1, (side, side))))
    shape = PictureShape(side, side, codec.codebook_size, config.max_position_embeddings)
    script = Script(torch.tensor(ids), asked, words.named(_LINE))
    return OneVocabulary(body.to(device), head.to(device, dtype), script, pixels, shape, card_of(source, TITLE))


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes; see `assembling.Measure`."""
    config, codec = _config(source, settings), _codec(source, settings)
    prefixes = tuple(codec for _, _, codec in _LAYOUTS)
    exact = max(stored(source, prefix=prefix) for prefix in prefixes)
    side = _side(source, settings, 1 << (len(codec.channel_multiplier) - 1))
    return Needs(stored(source, prefixes), exact, cached_numbers(config), side * (side + 1))


def _config(source: Source, settings: Mapping[str, Any]) -> Emu3TextConfig:
    said = section(source, settings, "text_config")
    check_fixed(source, said, {"tie_word_embeddings": False}, TITLE)
    sizes = sizes_of(source, said, TITLE, _USUAL)
    return Emu3TextConfig(**{**sizes, "pad_token_id": 0})


def _codec(source: Source, settings: Mapping[str, Any]) -> Emu3VQVAEConfig:
    said = section(source, settings, "vq_config")
    check_fixed(
        source, said, {"double_latent": False, "in_channels": 3, "out_channels": 3, "num_attention_heads": 1}, TITLE
    )
    sizes = {name: int(value) for name, value in numbers(source, said, _CODEC).items()}
    times, attends = (
        said.get(name, usual) for name, usual in (("channel_multiplier", [1, 2, 2, 4]), ("attn_resolutions", [3]))
    )
    for name, value in (("channel_multiplier", times), ("attn_resolutions", attends)):
        if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 64 for n in value):
            raise source.lacks(f"config.json has {shown(value)} for {name!r}; it is a list of whole numbers")
    wide = sizes["base_channels"] * (times[-1] if times else 0)
    if not 0 < len(times) <= _MOST_LEVELS or sizes["base_channels"] % 32 or wide != sizes["hidden_size"]:
        raise source.lacks(
            f"config.json has {sizes['base_channels']} channels times {shown(times)}, which do not end at its "
            f"'hidden_size' {sizes['hidden_size']}"
        )
    return Emu3VQVAEConfig(**sizes, channel_multiplier=times, attn_resolutions=attends)


def _read(
    source: Source, config: Emu3TextConfig, layout: tuple[str, str, str], parts: tuple[Emu3TextModel, Emu3VQVAE]
) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
    """The decoder's tensors, the output layer and the tokenizer's tensors."""
    body, head, codec = layout
    inner, outer = shapes_of(parts[0]), shapes_of(parts[1])
    counters = [name for name in outer if name.endswith(_COUNTER)]
    wanted = {f"{body}{name}": shape for name, shape in inner.items()}
    wanted |= {f"{codec}{name}": shape for name, shape in outer.items() if name not in counters}
    wanted |= {head: (config.vocab_size, config.hidden_size)}
    unused = (f"{codec}encoder.", f"{codec}quant_conv.", *(f"{codec}{name}" for name in counters))
    found = read_tensors(source, wanted, TITLE, ignored=unused)
    drawn = {name: torch.zeros(()) if name in counters else found[f"{codec}{name}"] for name in outer}
    return {name: found[f"{body}{name}"] for name in inner}, found[head], drawn


def _side(source: Source, settings: Mapping[str, Any], cell: int) -> int:
    """Codes to a side of the picture."""
    area = int(numbers(source, settings, {"image_area": _AREA})["image_area"])
    return max(round(math.sqrt(area) / cell), 1)
