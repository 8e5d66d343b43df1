"""LlamaGen's models of classes (arXiv 2406.06525): a class to a picture, in codes of VQ-16.

Read from a folder that `engines.models.hub.picture_convert` wrote; for its models of texts, which have the same
network, see `engines.models.hub.llamagen_text`. The network is Llama's, but for its positions: half
of a head's rotations turns with the row and half with the column, neighbours in a head turn together, and the class
has no position at all: its queries and keys are 0. So it sees itself and is seen by what it holds, not by where it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaModel
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE

from engines.models.hub import vq16
from engines.models.hub.assembling import (
    PIXELS,
    card_of,
    check_whole,
    filled,
    folder_in,
    outlined,
    renamed,
    shapes_of,
    stored,
)
from engines.models.hub.prompts import class_of
from engines.models.hub.rotary import PlaceRotary
from engines.models.memory import Needs, cached_numbers
from engines.models.picture_model import PictureModel, PictureShape
from engines.models.weights import Source, number_of, read_tensors, shapes_in, tensor_heads
from traces.schema import ModelCard

TITLE: Final = "LlamaGen"
CLASSES, TEXTS = "llamagen", "llamagen-t2i"
"""`model_type` of the two kinds in a converted folder."""
HEADS: Final = {768: 12, 1024: 16, 1280: 20, 1536: 24, 2560: 40, 3200: 32}
"""Of attention, by the width of the published models of classes: tensors do not tell."""
_SIDES: Final = {"256": 16, "384": 24, "512": 32}
"""Codes to a side, by the pixels in a file's name."""
_THETA: Final = 10_000.0
_EPSILON: Final = 1e-5
_MOST, _DEEPEST = 2**20, 1000
_NAMES: Final = (
    ("language_model.embed_tokens.", "tok_embeddings."),
    ("language_model.", ""),
    ("classes.", "cls_embedding.embedding_table."),
    ("captions.fc", "cls_embedding.cap_proj.fc"),
    ("captions.silent", "cls_embedding.uncond_embedding"),
    (".input_layernorm.", ".attention_norm."),
    (".post_attention_layernorm.", ".ffn_norm."),
    (".self_attn.o_proj.", ".attention.wo."),
    (".mlp.gate_proj.", ".feed_forward.w1."),
    (".mlp.down_proj.", ".feed_forward.w2."),
    (".mlp.up_proj.", ".feed_forward.w3."),
)
"""Parts of `LlamaGenNetwork`'s tensor names and what the release calls them, applied in this order."""
_QKV: Final = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True)
class LlamaGenSize:
    """Sizes of a model of classes, or of texts."""

    side: int
    """Codes to a side of the picture."""
    codes: int
    classes: int
    """0 for a model of texts."""
    width: int
    inner: int
    layers: int
    heads: int
    groups: int
    slots: int = 1
    """Places before the first code."""
    features: int = 0
    """Numbers to a token of a text; 0 for a model of classes."""

    @property
    def config(self) -> LlamaConfig:
        """The config of the native class."""
        return LlamaConfig(
            vocab_size=self.codes,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.groups,
            head_dim=self.width // self.heads,
            max_position_embeddings=self.slots + self.side**2,
            rms_norm_eps=_EPSILON,
            pad_token_id=None,
            attn_implementation="sdpa",
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, as the release has them."""
        rows = self.width // self.heads * (self.heads + 2 * self.groups)
        plain = {n: s for n, s in shapes_of(outlined(lambda: LlamaGenNetwork(self))).items() if not _together(n)}
        joined = {f"layers.{i}.attention.wqkv.weight": (rows, self.width) for i in range(self.layers)}
        return {renamed(name, _NAMES): shape for name, shape in plain.items()} | joined


class Captions(nn.Module):
    """Features of a text's tokens to what the network is given."""

    def __init__(self, size: LlamaGenSize) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size.features, size.width, bias=False)
        self.fc2 = nn.Linear(size.width, size.width, bias=False)
        self.silent = nn.Parameter(torch.empty(size.slots, size.features))

    def forward(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N W"]:
        """What stands in the slots."""
        found: Tensor = self.fc2(F.gelu(self.fc1(features), approximate="tanh"))
        return found


class LlamaGenNetwork(nn.Module):
    """A Llama whose input is codes behind a class or a text."""

    def __init__(self, size: LlamaGenSize) -> None:
        super().__init__()
        self.language_model = LlamaModel(size.config)
        if size.features:
            self.captions = Captions(size)
        else:
            self.classes = nn.Embedding(size.classes + 1, size.width)
        self.output = nn.Linear(size.width, size.codes, bias=False)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is read of a folder."""

    parts: LlamaGenNetwork
    tokenizer: JanusVQVAE
    size: LlamaGenSize


class LlamaGen(PictureModel):
    """A LlamaGen of classes with its tokenizer."""

    def __init__(self, drawing: Drawing, card: ModelCard, device: str) -> None:
        """Wrap a network whose positions are a picture's."""
        size, parts = drawing.size, drawing.parts.to(device)
        self._parts: Any = parts
        self._tokenizer: Any = drawing.tokenizer.to(device)
        codes = vq16.codebook(self._tokenizer.quantize.embedding.weight)
        shape = PictureShape(size.side, size.side, size.codes)
        super().__init__(parts, parts.language_model, codes, shape, card)
        self._classes = size.classes

    def prompts(self, prompt: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """See `PictureModel.prompts`; the unconditional one is a class of its own, behind the others."""
        codes = self.shape.codes
        return (codes + class_of(prompt, self._classes),), (codes + self._classes,)

    def logits(
        self,
        ids: Tensor,
        positions: Tensor,
        cache: Any = None,
        mask: Tensor | None = None,
        conditions: Float[Tensor, "M W"] | None = None,
    ) -> Tensor:
        """See `PictureModel.logits`; ids from the number of codes on count `conditions`, by default the classes."""
        parts, codes = self._parts, self.shape.codes
        drawn = parts.language_model.embed_tokens(ids.clamp(max=codes - 1))
        asked = F.embedding((ids - codes).clamp(min=0), parts.classes.weight if conditions is None else conditions)
        out = parts.language_model(
            inputs_embeds=torch.where((ids < codes)[..., None], drawn, asked),
            position_ids=positions,
            attention_mask=None if mask is None else mask.to(self.dtype),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        found: Tensor = parts.output(out.last_hidden_state)
        return found

    def pixels(self, codes: Tensor) -> Tensor:
        """See `PictureModel.pixels`."""
        found: Tensor = self._tokenizer.decode(codes)
        return found


def size_of(source: Source, shapes: Mapping[str, Sequence[int]], heads: int | None, side: int | None) -> LlamaGenSize:
    """The sizes that tensors have.

    Args:
        source: Where they are.
        shapes: By their published names.
        heads: Of attention; None takes those of the published models.
        side: Codes to a side; None takes what the file's name says: 256, 384 or 512 pixels.

    Raises:
        ModelError: where they are those of no such model, or do not tell.
    """
    texts = any(name.startswith("cls_embedding.cap_proj.") for name in shapes)
    try:
        codes, width = shapes["tok_embeddings.weight"]
        slots, features = shapes["cls_embedding.uncond_embedding"] if texts else (1, 0)
        classes = 0 if texts else shapes["cls_embedding.embedding_table.weight"][0] - 1
        inner, rows = shapes["layers.0.feed_forward.w1.weight"][0], shapes["layers.0.attention.wqkv.weight"][0]
    except (KeyError, ValueError) as error:
        raise source.lacks(f"its tensors are not those of a LlamaGen: no {error}") from None
    heads = heads or HEADS.get(width)
    if heads is None or width % heads or (rows - width) % (2 * width // heads):
        raise source.lacks(f"its width is {width}, and no published model has it; say how many heads it has by --heads")
    side = side or next((side for pixels, side in _SIDES.items() if pixels in source.name), None)
    if side is None:
        raise source.lacks("its name says neither 256 nor 384 nor 512 pixels; say how many codes a side has by --side")
    layers = sum(name.endswith(".attention.wqkv.weight") for name in shapes)
    groups = (rows - width) // (2 * width // heads)
    return LlamaGenSize(side, codes, classes, width, inner, layers, heads, groups, slots, features)


def tokenizer_of(source: Source, shapes: Mapping[str, Sequence[int]]) -> JanusVQVAEConfig:
    """The tokenizer's config; see `vq16.size_of`."""
    return vq16.size_of(source, shapes, lambda name: renamed(name, vq16.NAMES))


def tokenizer_shapes(config: JanusVQVAEConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a tokenizer, as the release has them."""
    native = shapes_of(outlined(lambda: JanusVQVAE(config)))
    return {renamed(name, vq16.NAMES): shape for name, shape in native.items()}


def settings_of(size: LlamaGenSize) -> dict[str, Any]:
    """What is written to config.json."""
    kind = TEXTS if size.features else CLASSES
    return {"model_type": kind, **{name: getattr(size, name) for name in _fields(kind)}}


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes; see `assembling.Measure`."""
    size = _said(source, settings)
    exact = stored(folder_in(source, PIXELS))
    return Needs(stored(source), exact, cached_numbers(size.config), size.slots + size.side**2)


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> LlamaGen:
    """The model of a converted folder; see `assembling.Loader`."""
    drawing, beside = read_parts(source, settings, dtype)
    return LlamaGen(drawing, card_of(source, TITLE, beside), device)


def read_parts(source: Source, settings: Mapping[str, Any], dtype: torch.dtype) -> tuple[Drawing, Source]:
    """Network and tokenizer of a converted folder, and the folder of the tokenizer.

    Raises:
        ModelError: when they are not whole.
    """
    size = _said(source, settings)
    beside = folder_in(source, PIXELS)
    config = tokenizer_of(beside, shapes_in(tensor_heads(beside)))
    if config.num_embeddings != size.codes:
        raise source.lacks(f"config.json has {size.codes} for 'codes', and its tokenizer {config.num_embeddings}")
    config.num_patches = size.side
    tokenizer = outlined(lambda: JanusVQVAE(config))
    found = read_tensors(beside, tokenizer_shapes(config), "VQ-16")
    filled(tokenizer, {name: found[renamed(name, vq16.NAMES)] for name in tokenizer.state_dict()}, torch.float32)
    state = dict(_native(read_tensors(source, size.shapes, TITLE), size))
    parts = filled(outlined(lambda: LlamaGenNetwork(size)), state, dtype)
    parts.language_model.rotary_emb = PlaceRotary(angles(size), silent=size.slots)
    check_whole(parts)
    check_whole(tokenizer)
    return Drawing(parts, tokenizer, size), beside


def _fields(kind: str) -> list[str]:
    """Sizes that config.json has of one of the two kinds."""
    unsaid = ("classes",) if kind == TEXTS else ("slots", "features")
    return [each.name for each in fields(LlamaGenSize) if each.name not in unsaid]


def _said(source: Source, settings: Mapping[str, Any]) -> LlamaGenSize:
    """The sizes that config.json has."""
    names = _fields(settings["model_type"])
    size = LlamaGenSize(**{"classes": 0} | {name: int(number_of(source, settings, name, most=_MOST)) for name in names})
    if size.width % size.heads or size.heads % size.groups or size.width // size.heads % 4 or size.layers > _DEEPEST:
        heads = f"{size.heads} heads and {size.groups} groups"
        raise source.lacks(f"config.json has {heads} for {size.layers} layers of {size.width}, which is no network")
    return size


def angles(size: LlamaGenSize) -> Float[Tensor, "T D"]:
    """Angle of every rotation at every code: half of the rotations turns with the row, half with the column."""
    half = size.width // size.heads // 2
    speeds = _THETA ** -(torch.arange(0, half, 2, dtype=torch.float32) / half)
    turned = torch.outer(torch.arange(size.side, dtype=torch.float32), speeds)
    shape = (size.side, size.side, -1)
    both = torch.cat([turned[:, None].expand(shape), turned[None].expand(shape)], -1).flatten(0, 1)
    return torch.cat([both, both], -1)


def _together(name: str) -> bool:
    """Whether the release has a tensor as part of another."""
    return any(f".self_attn.{part}." in name for part in _QKV)


def _native(found: Mapping[str, Tensor], size: LlamaGenSize) -> Iterator[tuple[str, Tensor]]:
    """Tensors by `LlamaGenNetwork`'s names.

    Neighbours that turn together, 2 k and 2 k + 1, are put where Llama has them: k in the first half of a head and k in
    the second. Scores of attention do not change by it.
    """
    dim = size.width // size.heads
    rows = [size.width, size.groups * dim, size.groups * dim]
    for name in outlined(lambda: LlamaGenNetwork(size)).state_dict():
        if not _together(name):
            yield name, found[renamed(name, _NAMES)]
    for i in range(size.layers):
        parts = found[f"layers.{i}.attention.wqkv.weight"].split(rows)
        for kind, part in zip(_QKV, parts, strict=True):
            if kind != "v_proj":
                part = part.unflatten(0, (-1, dim // 2, 2)).transpose(1, 2).flatten(0, 2)
            yield f"language_model.layers.{i}.self_attn.{kind}.weight", part
