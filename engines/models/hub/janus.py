"""Janus-Pro (arXiv 2501.17811), its half that draws: a Llama that reads text and codes, and writes codes.

Two layouts are read: transformers' own (`model_type` janus) and the release's (multi_modality), whose tensors have
other names. What reads pictures, and the head that writes text, are neither checked nor loaded.

    unconditional prompt   the prompt with padding in place of all but its first and its last token, as the release
                           has it: the padding is seen
    pictures               384x384 pixels: 24x24 codes of VQ-16, in raster order
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE, JanusVQVAEAlignerMLP, JanusVQVAEHead
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from engines.models.hub import vq16
from engines.models.hub.assembling import (
    card_of,
    check_fixed,
    check_whole,
    filled,
    numbers,
    outlined,
    renamed,
    section,
    shapes_of,
    stored,
)
from engines.models.hub.llama_text import llama_config
from engines.models.hub.prompts import TextPrompts
from engines.models.hub.published import read_tokenizer
from engines.models.memory import Needs, cached_numbers
from engines.models.picture_model import PictureModel, PictureShape
from engines.models.weights import Heads, Source, check_tensors, read_tensors, shapes_in, tensor_heads
from traces.schema import ModelCard

TITLE: Final = "Janus-Pro"
NATIVE: Final = "janus"
RELEASED: Final = "multi_modality"
_RELEASED_NAMES: Final = (
    ("vqmodel.", "gen_vision_model."),
    *vq16.NAMES,
    ("generation_embeddings.", "gen_embed."),
    ("generation_aligner.fc1.", "gen_aligner.layers.0."),
    ("generation_aligner.hidden_layers.0.", "gen_aligner.layers.2."),
    ("generation_head.proj_out.", "gen_head.output_mlp_projector."),
    ("generation_head.", "gen_head."),
    ("language_model.", "language_model.model."),
)
"""Names of `JanusPictures` and what the release calls them, applied in this order."""
_OTHER_HALF: Final = {
    NATIVE: ("model.vision_model.", "model.aligner.", "lm_head."),
    RELEASED: ("vision_model.", "aligner.", "language_model.lm_head.", f"gen_vision_model.{vq16.UNUSED}"),
}
_BEGIN, _PAD, _PICTURE = "<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>", "<begin_of_image>"  # noqa: RUF001
_EXACT: Final = ("vqmodel.",)


class JanusPictures(nn.Module):
    """The parts of Janus that make pictures, by transformers' names."""

    def __init__(self, text: LlamaConfig, codes: JanusVQVAEConfig) -> None:
        super().__init__()
        self.language_model = LlamaModel(text)
        self.vqmodel = JanusVQVAE(codes)
        self.generation_embeddings = nn.Embedding(codes.num_embeddings, codes.embed_dim)
        self.generation_aligner = JanusVQVAEAlignerMLP(codes)
        self.generation_head = JanusVQVAEHead(codes)


class Janus(PictureModel):
    """A Janus-Pro with its tokenizers."""

    def __init__(
        self, parts: JanusPictures, tokenizer: Tokenizer, shape: PictureShape, card: ModelCard, device: str
    ) -> None:
        """Wrap the parts that make pictures."""
        self._parts: Any = parts.to(device)
        codes = vq16.codebook(self._parts.vqmodel.quantize.embedding.weight)
        super().__init__(parts, self._parts.language_model, codes, shape, card)
        self._text = TextPrompts(tokenizer, card.id, _BEGIN, _PAD, _PICTURE)

    @property
    def dtype(self) -> torch.dtype:
        """What the transformer computes in; pixels are made in float32."""
        found: torch.dtype = self._parts.language_model.dtype
        return found

    def prompts(self, prompt: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """See `PictureModel.prompts`."""
        text, codes = self._text, self.shape.codes
        asked = text.ids(f"<|User|>: {text.checked(prompt)}\n\n<|Assistant|>:")
        found = (text.named(_BEGIN), *asked, text.named(_PICTURE))
        silent = (found[0], *(text.named(_PAD) for _ in asked), found[-1])
        return tuple(i + codes for i in found), tuple(i + codes for i in silent)

    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        """See `PictureModel.logits`."""
        parts, codes = self._parts, self.shape.codes
        drawn = parts.generation_aligner(parts.generation_embeddings(ids.clamp(max=codes - 1)))
        read = parts.language_model.embed_tokens((ids - codes).clamp(min=0))
        out = parts.language_model(
            inputs_embeds=torch.where((ids < codes)[..., None], drawn, read),
            position_ids=positions,
            attention_mask=None if mask is None else mask.to(self.dtype),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        found: Tensor = parts.generation_head(out.last_hidden_state)
        return found

    def pixels(self, codes: Tensor) -> Tensor:
        """See `PictureModel.pixels`."""
        found: Tensor = self._parts.vqmodel.decode(codes)
        return found


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> Janus:
    """The model of a folder, in one of the two layouts; see `assembling.Loader`."""
    kind = settings["model_type"]
    text, codes = _configs(source, settings, tensor_heads(source))
    parts = outlined(lambda: JanusPictures(text, codes))
    tensors = read_tensors(source, _shapes(parts, kind), TITLE, ignored=_OTHER_HALF[kind])
    state = {name: tensors[_published(name, kind)] for name in shapes_of(parts)}
    parts = filled(parts, state, dtype, _EXACT)
    parts.language_model.rotary_emb = LlamaRotaryEmbedding(text)
    check_whole(parts)
    shape = PictureShape(codes.num_patches, codes.num_patches, codes.num_embeddings, text.max_position_embeddings)
    return Janus(parts, read_tokenizer(source), shape, card_of(source, TITLE), device)


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes; see `assembling.Measure`."""
    kind = settings["model_type"]
    text, codes = _configs(source, settings, tensor_heads(source))
    exact = stored(source, _OTHER_HALF[kind], _published(_EXACT[0], kind))
    rest = stored(source, _OTHER_HALF[kind]) - exact
    return Needs(rest, exact, cached_numbers(text), codes.num_patches**2)


def check(source: Source, settings: Mapping[str, Any], heads: Heads) -> None:
    """Compare tensors with what config.json asks for.

    Raises:
        ModelError: for the first that is missing, superfluous, misshapen or no plain floats.
    """
    kind = settings["model_type"]
    text, codes = _configs(source, settings, heads)
    read = {name: head for name, head in heads.items() if not name.startswith(_OTHER_HALF[kind])}
    check_tensors(source, read, _shapes(outlined(lambda: JanusPictures(text, codes)), kind), TITLE)


def _configs(source: Source, settings: Mapping[str, Any], heads: Heads) -> tuple[LlamaConfig, JanusVQVAEConfig]:
    """What the decoder and the tokenizer are, by config.json and, where it does not say, by the tensors."""
    kind = settings["model_type"]
    text = llama_config(
        source, section(source, settings, "text_config" if kind == NATIVE else "language_config"), TITLE
    )
    codes = vq16.size_of(source, shapes_in(heads), lambda name: _published(f"vqmodel.{name}", kind))
    codes.num_patches = _side(source, settings, kind == NATIVE, vq16.cell_of(codes))
    codes.projection_dim = codes.image_token_embed_dim = text.hidden_size
    return text, codes


def _shapes(parts: JanusPictures, kind: str) -> dict[str, tuple[int, ...]]:
    return {_published(name, kind): shape for name, shape in shapes_of(parts).items()}


def _published(name: str, kind: str) -> str:
    return f"model.{name}" if kind == NATIVE else renamed(name, _RELEASED_NAMES)


def _side(source: Source, settings: Mapping[str, Any], native: bool, cell: int) -> int:
    """Codes to a side of the picture."""
    vision = section(source, settings, "vision_config")
    if native:
        codes = section(source, settings, "vq_config")
        check_fixed(source, codes, {"num_hidden_layers": 2, "hidden_act": "gelu", "double_latent": False}, TITLE)
        check_fixed(source, vision, {"patch_size": cell}, TITLE)
    else:
        vision = section(source, vision, "params")
        aligner = section(source, section(source, settings, "gen_aligner_config"), "params")
        check_fixed(source, aligner, {"projector_type": "mlp_gelu", "depth": 2}, TITLE)
        check_fixed(source, section(source, settings, "gen_vision_config"), {"cls": "VQ-16"}, TITLE)
    size = int(numbers(source, vision, {"image_size": 384})["image_size"])
    if size % cell:
        raise source.lacks(f"config.json has {size} for 'image_size', which codes of {cell} pixels do not fill")
    return size // cell
