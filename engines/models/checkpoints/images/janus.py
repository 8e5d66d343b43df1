"""Janus-Pro (arXiv 2501.17811), its half that draws: a Llama that reads text and writes 24x24 codes of VQ-16.

The network and the layout are transformers' own. The unconditional prompt has padding, which is seen, in place of all
but its first and its last token, as the release has it.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import JanusConfig, JanusForConditionalGeneration
from typing_extensions import override

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import card_of, native_config, native_network
from draftscope.engines.models.checkpoints.images.image_model import Ids, PictureModel, TextPrompts
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers
from draftscope.engines.models.sessions.image import PictureShape
from draftscope.engines.models.tokenizer_files import read_tokenizer
from draftscope.engines.models.torch_model import hidden_states
from draftscope.traces.schema import ModelCard

TITLE: Final = "Janus-Pro"
_OTHER_HALF: Final = ("model.vision_model.", "model.aligner.", "lm_head.")
_CODEC: Final = "model.vqmodel."
_BEGIN, _PAD, _PICTURE = "<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>", "<begin_of_image>"  # noqa: RUF001


class JanusPictures(JanusForConditionalGeneration):  # type: ignore[misc]
    """The parts that make pictures; the tokenizer of pictures stays in float32."""

    _keep_in_fp32_modules_strict = ("vqmodel",)
    _tied_weights_keys: Mapping[str, str] = {}

    def __init__(self, config: JanusConfig) -> None:
        super().__init__(config)
        del self.model.vision_model, self.model.aligner, self.lm_head


class Janus(PictureModel):
    """A Janus-Pro with its tokenizers."""

    unit = True

    def __init__(self, network: Any, tokenizer: Tokenizer, card: ModelCard, device: str) -> None:
        self._janus = network.to(device).model
        config = network.config
        side, codes = config.vq_config.num_patches, config.vq_config.num_embeddings
        shape = PictureShape(side, side, codes, config.text_config.max_position_embeddings)
        book = self._janus.vqmodel.quantize.embedding.weight
        super().__init__(network, self._janus.language_model, book, shape, card)
        self._text = TextPrompts(tokenizer, card.id, _BEGIN, _PAD, _PICTURE)

    @override
    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        text = self._text
        request = text.ids(f"<|User|>: {text.checked(prompt)}\n\n<|Assistant|>:")
        begin, pad, picture = (text.special[name] for name in (_BEGIN, _PAD, _PICTURE))
        return (begin, *request, picture), (begin, *(pad for _ in request), picture)

    @override
    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        janus, codes = self._janus, self.shape.codes
        drawn = janus.generation_aligner(janus.generation_embeddings(ids.clamp(max=codes - 1)))
        read = janus.language_model.embed_tokens((ids - codes).clamp(min=0))
        inputs = torch.where((ids < codes)[..., None], drawn, read)
        states = hidden_states(janus.language_model, positions, cache, mask, inputs_embeds=inputs)
        return cast(Tensor, janus.generation_head(states))

    @override
    def pixels(self, codes: Tensor) -> Tensor:
        return cast(Tensor, self._janus.vqmodel.decode(codes))


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> Janus:
    """The model of a folder; see `families`."""
    config = native_config(source, JanusConfig, settings)
    network = native_network(source, JanusPictures, config, source.tensors(_OTHER_HALF), dtype)
    return Janus(network, read_tokenizer(source), card_of(source, TITLE), device)


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder."""
    config = native_config(source, JanusConfig, settings)
    exact, side = source.count(prefix=_CODEC), config.vq_config.num_patches
    return MemoryRequirement(source.count((*_OTHER_HALF, _CODEC)), exact, cached_numbers(config.text_config), side**2)
