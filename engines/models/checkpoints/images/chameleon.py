"""Lumina-mGPT (arXiv 2408.02657, 2507.17801) and Anole (arXiv 2407.06135), which generate images with Chameleon.

All are Chameleon's decoder (arXiv 2405.09818), a class of transformers. They differ in the tokens around a picture, the
ids of its codes, and the autoencoder:

    lumina-mgpt     <s> Generate an image of 768x768 according to the following prompt: prompt <reserved08706>
                    <racm3:break> rows columns, in grids of 32 pixels; a row of codes ends with <reserved08799>
    lumina-mgpt-2   the same after the end token of Qwen's texts, as its tokenizer has no start token; codes are the
                    tokens from 155,000 on, and a grid has 4 codes to a side instead of 2
    anole           <s> prompt <reserved08706> <racm3:break>; 32 by 32 codes without row ends

The unconditional prompt of Lumina-mGPT is what follows the text, which is shorter and starts at position 0. That of
Anole is <s> <racm3:break>. Pixels come from Chameleon's VQGAN, and those of 2.0 from MoVQGAN, which `convert` writes to
`pixels/`, with the kind of model and the size of its pictures. A checkpoint without that folder that has the VQGAN
among its own tensors is Anole. docs/models.md lists the differences from the releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import ChameleonConfig, ChameleonForConditionalGeneration
from typing_extensions import override

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import PIXELS, State, card_of, native_config, native_network, part_of
from draftscope.engines.models.checkpoints.conversion import Converted, Request
from draftscope.engines.models.checkpoints.images import autoencoder
from draftscope.engines.models.checkpoints.images.image_model import Ids, SharedVocabularyModel, TextPrompts
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers
from draftscope.engines.models.sessions.image import PictureShape
from draftscope.engines.models.tokenizer_files import named_token, read_tokenizer, size_of
from draftscope.engines.settings import ConfigError, format_value
from draftscope.traces.schema import ModelCard


@dataclass(frozen=True, slots=True)
class Variant:
    """Differences between the models of Chameleon's kind."""

    title: str
    side: int
    """Codes to a side of its pictures, by default."""
    grid: int = 0
    """Codes to a side of the grid cells in which the prompt gives the picture's size; 0 if it does not."""
    first: int = 0
    """The token of code 0, the others following it; 0 where the tokenizer names them."""
    begin: str = "<s>"
    """The token that texts begin with."""


VARIANTS: Final = {
    "lumina-mgpt": Variant("Lumina-mGPT", 48, grid=2),
    "lumina-mgpt-2": Variant("Lumina-mGPT 2.0", 96, grid=4, first=155_000),
    "anole": Variant("Anole", 32),
}
CONVERT: Final = (
    "draftscope model convert lumina-mgpt vqgan.ckpt FOLDER/pixels --side 48 (or anole; or lumina-mgpt-2 with "
    "movqgan_270M.ckpt)"
)
_VQ: Final = "model.vqmodel."
_MAX_SIDE, _MAX_TOKENS = 96, 2**24
_TURN, _PICTURE, _LINE = "<reserved08706>", "<racm3:break>", "<reserved08799>"
_CODE: Final = "IMGIMG"


class ChameleonPictures(ChameleonForConditionalGeneration):  # type: ignore[misc]
    """The decoder and its output layer; transformers' VQGAN cannot draw, as it has no decoder."""

    def __init__(self, config: ChameleonConfig) -> None:
        super().__init__(config)
        del self.model.vqmodel


class Chameleon(SharedVocabularyModel):
    """A model of Chameleon's kind with its tokenizers."""

    def __init__(
        self, network: Any, vq: Any, tokenizer: Tokenizer, ids: Tensor, kind: Variant, card: ModelCard
    ) -> None:
        """Wrap networks on their device; `ids` are the tokens of all codes."""
        self._vq, self._kind = vq, kind
        special: tuple[str, ...] = (kind.begin, _TURN, _PICTURE)
        if kind.grid:
            if kind.side % kind.grid:
                raise ModelError(
                    f"{card.id}: pictures of {kind.side} codes a side are no whole grids. "
                    f"Convert its VQGAN again, with another --side: {CONVERT}"
                )
            self._grids = f"<reserved{8800 + kind.side // kind.grid:05d}>"
            special = (*special, _LINE, self._grids)
        self._text = TextPrompts(tokenizer, card.id, *special)
        end = self._text.special[_LINE] + len(ids) if kind.grid else None
        shape = PictureShape(kind.side, kind.side, len(ids), network.config.max_position_embeddings, end)
        super().__init__(network, network.model, ids, vq.quantize.embedding.weight, shape, card)

    @override
    def prompts(self, prompt: str) -> tuple[Ids, Ids]:
        text, checked = self._text, self._text.checked(prompt)
        begin, turn, picture = (text.special[name] for name in (self._kind.begin, _TURN, _PICTURE))
        if not self._kind.grid:
            return (begin, *text.ids(checked), turn, picture), (begin, picture)
        side, grids = self._kind.side << (len(self._vq.config.block_out_channels) - 1), text.special[self._grids]
        request = f"Generate an image of {side}x{side} according to the following prompt:\n{checked}"
        return (begin, *text.ids(request), turn, picture, grids, grids), (picture, grids, grids)

    @override
    def pixels(self, codes: Tensor) -> Tensor:
        shape = (len(codes), -1, self._kind.side, self._vq.config.vq_embed_dim)
        return cast(Tensor, self._vq.decode(codes.flatten(), force_not_quantize=True, shape=shape).sample)


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> Chameleon:
    """The model of a folder; see `families`."""
    kind, folder = _kind(source)
    config = _config(source, settings)
    state = source.tensors()
    decoder_state = {name: part for name, part in state.items() if not name.startswith(_VQ)}
    network = native_network(source, ChameleonPictures, config, _spread(decoder_state, config), dtype)
    vq = autoencoder.decoder_of(folder or source, folder.tensors() if folder else part_of(state, _VQ)).to(device)
    tokenizer, count = read_tokenizer(source), vq.config.num_vq_embeddings
    ids = kind.first + torch.arange(count) if kind.first else _codes(source, tokenizer, count)
    size_of(source, tokenizer, config.vocab_size, int(ids.max()))
    if kind.first:  # as in the release, the tokenizer's beginning, or where it has none its end
        begin = named_token(source, "bos_token", "eos_token")
        if begin is None:
            raise source.incomplete("tokenizer_config.json is missing, or has neither 'bos_token' nor 'eos_token'")
        kind = replace(kind, begin=begin)
    card = card_of(source, kind.title, *([folder] if folder else []))
    return Chameleon(network.to(device), vq, tokenizer, ids, kind, card)


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder."""
    kind, folder = _kind(source)
    exact = folder.count() if folder else source.count(prefix=_VQ)
    columns = kind.side + bool(kind.grid)
    return MemoryRequirement(
        source.count((_VQ,)), exact, cached_numbers(_config(source, settings)), kind.side * columns
    )


def convert(request: Request) -> Converted:
    """Chameleon's vqgan.ckpt or movqgan_270M.ckpt, into the folder `pixels` of a model that is read where it lies."""
    kind = VARIANTS[request.kind]
    file = "MoVQGAN's movqgan_270M.ckpt" if kind.first else "Chameleon's vqgan.ckpt"
    if request.second is not None:
        raise ConfigError(f"SECOND: the VQGAN is all that is converted; give {file} as SOURCE.")
    settings = {"kind": request.kind, "side": request.side or kind.side} | ({"first": kind.first} if kind.first else {})
    return Converted({"": autoencoder.read_published(request.file(f"Give {file}."))}, settings)


def _kind(source: CheckpointDir) -> tuple[Variant, CheckpointDir | None]:
    """Which model it is, and the folder of its VQGAN; None where that lies among the model's own tensors instead."""
    folder = replace(source.inside(PIXELS), remedy=f"Convert its VQGAN once with: {CONVERT}")
    if not folder.folder.is_dir() and f"{_VQ}decoder.conv_in.weight" in source.heads():
        return VARIANTS["anole"], None
    settings = folder.read_json("config.json")
    name = settings.get("kind")
    if not isinstance(name, str) or name not in VARIANTS:
        raise folder.unsupported(f"config.json has {format_value(name)} for 'kind'; it is one of {', '.join(VARIANTS)}")
    kind = replace(VARIANTS[name], side=folder.number(settings, "side", maximum=_MAX_SIDE))
    if not kind.first:
        return kind, folder
    return replace(kind, first=folder.number(settings, "first", maximum=_MAX_TOKENS)), folder


def _config(source: CheckpointDir, settings: Mapping[str, Any]) -> Any:
    """The native config; of its VQGAN, which is not built, nothing is kept."""
    return native_config(source, ChameleonConfig, {**settings, "vq_config": None, "vocabulary_map": {"<image>": 0}})


def _spread(state: State, config: Any) -> State:
    """Norms of queries and keys for every head; a tensor may have one for all heads of a device in training."""
    spread = dict(state)
    for norm, heads in (("q_norm", config.num_attention_heads), ("k_norm", config.num_key_value_heads)):
        for name, part in state.items():
            if f".{norm}." in name and part.dim() == 2 and len(part) and heads % len(part) == 0:
                spread[name] = part.repeat_interleave(heads // len(part), 0)
    return spread


def _codes(source: CheckpointDir, tokenizer: Tokenizer, count: int) -> Tensor:
    """Return the token of every code: its number in letters, A for 0, between IMGIMG and Z."""
    numbers = {}
    for name, token in tokenizer.get_vocab().items():
        digits = name[len(_CODE) : -1]
        if name.startswith(_CODE) and name.endswith("Z") and digits and set(digits) <= set("ABCDEFGHIJ"):
            numbers[int("".join(str(ord(letter) - ord("A")) for letter in digits))] = token
    if sorted(numbers) != list(range(count)):
        raise source.unsupported(f"its tokenizer names {len(numbers)} codes, and its VQGAN has {count}")
    return torch.tensor([numbers[code] for code in range(count)])
