"""Emu3-Gen (arXiv 2409.18869) in transformers' layout: a decoder of Llama's kind that draws 90 by 90 codes.

    <|extra_203|> text <|image start|> 90*90 <|image token|>, then rows of codes, each of which ends with <|extra_200|>

Words for good pictures follow a visitor's text, as in the release, and its unconditional prompt asks for bad ones.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Emu3Config, Emu3ForConditionalGeneration
from typing_extensions import override

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import card_of, native_config, native_network
from draftscope.engines.models.checkpoints.images.image_model import Ids, SharedVocabularyModel, TextPrompts
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers
from draftscope.engines.models.sessions.image import PictureShape
from draftscope.engines.models.tokenizer_files import read_tokenizer, size_of, token_id
from draftscope.traces.schema import ModelCard

TITLE: Final = "Emu3-Gen"
_GOOD: Final = " masterpiece, film grained, best quality."
_BAD: Final = (
    "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst quality, "
    "low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
)
_AREA: Final = 518_400
"""Pixels of a picture where config.json does not say."""
_BEGIN, _START, _PICTURE, _LINE = "<|extra_203|>", "<|image start|>", "<|image token|>", "<|extra_200|>"
_CODECS: Final = ("model.vqmodel.", "vqmodel.")
"""How names of the tokenizer of pictures begin, in transformers' newer layout and in its older one."""
_UNUSED: Final = tuple(f"{codec}{part}" for codec in _CODECS for part in ("encoder.", "quant_conv."))


class Emu3Pictures(Emu3ForConditionalGeneration):  # type: ignore[misc]
    """The parts that make pictures; the tokenizer of pictures stays in float32."""

    _keep_in_fp32_modules_strict = ("vqmodel",)

    def __init__(self, config: Emu3Config) -> None:
        super().__init__(config)
        del self.model.vqmodel.encoder, self.model.vqmodel.quant_conv


class Emu3(SharedVocabularyModel):
    """An Emu3-Gen with its tokenizers."""

    def __init__(self, network: Any, tokenizer: Tokenizer, ids: Tensor, side: int, card: ModelCard) -> None:
        """Wrap an `Emu3Pictures` on its device; pictures have `side` codes to a side."""
        config, self._vq, self._side = network.config, network.model.vqmodel, side
        self._text = TextPrompts(tokenizer, card.id, _BEGIN, _START, _PICTURE, _LINE)
        longest, end = config.text_config.max_position_embeddings, self._text.special[_LINE] + len(ids)
        shape = PictureShape(side, side, len(ids), longest, end)
        super().__init__(network, network.model.text_model, ids, self._vq.quantize.embedding.weight, shape, card)

    @override
    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        text = self._text
        begin, start, picture = (text.special[name] for name in (_BEGIN, _START, _PICTURE))
        header = (start, *text.ids(f"{self._side}*{self._side}"), picture)
        return (begin, *text.ids(text.checked(prompt) + _GOOD), *header), (begin, *text.ids(_BAD), *header)

    @override
    def pixels(self, codes: Tensor) -> Tensor:
        return cast(Tensor, self._vq.decode(codes.unflatten(1, (self._side, self._side))))


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> Emu3:
    """The model of a folder; see `families`."""
    config = native_config(source, Emu3Config, settings)
    state = source.tensors(_UNUSED)
    state = {name.replace("text_model.lm_head.", "lm_head."): part for name, part in state.items()}
    network = native_network(source, Emu3Pictures, config, state, dtype)
    tokenizer = read_tokenizer(source)
    names = (f"<|visual token {i:06d}|>" for i in range(config.vq_config.codebook_size))
    ids = torch.tensor([token_id(source, tokenizer, name) for name in names])
    size_of(source, tokenizer, config.text_config.vocab_size)
    return Emu3(network.to(device), tokenizer, ids, _side(source, settings, config), card_of(source, TITLE))


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder."""
    config = native_config(source, Emu3Config, settings)
    side = _side(source, settings, config)
    exact = sum(source.count(_UNUSED, codec) for codec in _CODECS)
    return MemoryRequirement(source.count(_CODECS), exact, cached_numbers(config.text_config), side * (side + 1))


def _side(source: CheckpointDir, settings: Mapping[str, Any], config: Any) -> int:
    """Codes to a side of the picture."""
    area = source.number({"image_area": _AREA, **settings}, "image_area")
    return round(math.sqrt(area)) >> (len(config.vq_config.channel_multiplier) - 1) or 1
