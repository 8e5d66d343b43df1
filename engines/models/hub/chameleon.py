"""Lumina-mGPT (arXiv 2408.02657, 2507.17801) and Anole (arXiv 2407.06135), which draw as Chameleon would have.

All are Chameleon's decoder (arXiv 2405.09818): Llama's, with layer norms of every head's queries and keys. What differs
is what stands around a picture, what its codes are called, and what draws them:

    lumina-mgpt     <s> Generate an image of 768x768 according to the following prompt: prompt <reserved08706>
                    <racm3:break> rows columns, in grids of 32 pixels; a row of codes ends with <reserved08799>
    lumina-mgpt-2   the same behind the end of Qwen's texts, as its tokenizer has no beginning; codes are the tokens
                    from 155,000 on, and a grid has 4 to a side where the first generation has 2
    anole           <s> prompt <reserved08706> <racm3:break>; 32 by 32 codes in one go

The unconditional prompt of Lumina-mGPT is what follows the text, which is shorter and begins at position 0. That of
Anole is <s> <racm3:break>. Pixels come from Chameleon's VQGAN, and of 2.0 from MoVQGAN, which lies in `pixels/` once it
was converted, with the kind of model and the size of its pictures. Where there is no such folder and the checkpoint has
the VQGAN among its own tensors, it is Anole.

Guidance of 2.0's release is max(4, s (1 - n / N)) at the n-th token, with s what it was at the token before. Up to
4, which its README runs, that is 4 throughout, and nothing stays above 4 for long: 10 comes to it within 65 tokens of
9,216. So a constant says what it does; see docs/models.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers.models.chameleon.configuration_chameleon import ChameleonConfig, ChameleonVQVAEConfig
from transformers.models.chameleon.modeling_chameleon import ChameleonModel, ChameleonRotaryEmbedding

from engines.config import shown
from engines.models.errors import ModelError
from engines.models.hub.assembling import (
    PIXELS,
    card_of,
    check_fixed,
    check_whole,
    filled,
    folder_in,
    outlined,
    shapes_of,
    stored,
)
from engines.models.hub.compvis import read_decoder
from engines.models.hub.llama_text import sizes_of
from engines.models.hub.one_vocabulary import Ids, OneVocabulary, Pixels, Script
from engines.models.hub.prompts import TextPrompts
from engines.models.hub.published import read_tokenizer
from engines.models.memory import Needs, cached_numbers
from engines.models.picture_model import PictureShape
from engines.models.weights import Source, number_of, read_tensors, shapes_in, tensor_heads


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets a model of Chameleon's kind apart."""

    title: str
    side: int
    """Codes to a side of its pictures, where nobody says."""
    grid: int = 0
    """Codes to a side of the squares in which it is told the size of a picture; 0 where it is not told."""
    first: int = 0
    """The token of code 0, the others following it; 0 where the tokenizer names them."""


KINDS: Final = {
    "lumina-mgpt": Kind("Lumina-mGPT", 48, grid=2),
    "lumina-mgpt-2": Kind("Lumina-mGPT 2.0", 96, grid=4, first=155_000),
    "anole": Kind("Anole", 32),
}
CONVERT: Final = (
    "python -m engines convert-picture lumina-mgpt vqgan.ckpt FOLDER/pixels --side 48 (or anole; or lumina-mgpt-2 with "
    "movqgan_270M.ckpt)"
)
_USUAL: Final = {"vocab_size": 65536, "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
_VQ: Final = "model.vqmodel."
_OTHERS: Final = ("lm_head.", "model.embed", "model.lay", "model.norm")
"""How names begin of the VQGAN's tensors inside a checkpoint, and of the others."""
_MOST_SIDE, _MOST_TOKENS = 96, 2**24
_BEGIN, _TURN, _PICTURE, _LINE = "<s>", "<reserved08706>", "<racm3:break>", "<reserved08799>"
_HEAD: Final = "lm_head.weight"
_CODE: Final = "IMGIMG"


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> OneVocabulary:
    """The model of a folder; see `assembling.Loader`."""
    kind, beside = _pixels(source)
    side, config = kind.side, _config(source, settings, kind.title)
    body, head = _read(source, config, kind.title, dtype)
    decoder = (
        read_decoder(beside, "VQGAN", codes=True)
        if beside
        else read_decoder(source, "VQGAN", codes=True, prefix=_VQ, others=_OTHERS)
    ).to(device)
    tokenizer = read_tokenizer(source)
    count = len(decoder.book)
    ids = kind.first + torch.arange(count) if kind.first else _codes(source, tokenizer, count)
    begin = _first_token(source) if kind.first else _BEGIN
    words = TextPrompts(tokenizer, source.name, begin, _TURN, _PICTURE)
    if max(int(ids.max()), *tokenizer.get_vocab().values()) >= config.vocab_size:
        raise source.lacks(f"config.json has {config.vocab_size} for 'vocab_size', and its tokenizer has more tokens")
    pixels = Pixels(decoder, decoder.book, lambda codes: decoder.from_codes(codes, side))
    shape = PictureShape(side, side, count, config.max_position_embeddings)
    told = (begin, side * decoder.cell)
    script = _lumina(tokenizer, words, ids, kind, told) if kind.grid else _anole(words, ids)
    card = card_of(source, kind.title, *([beside] if beside else []))
    return OneVocabulary(body.to(device), head.to(device), script, pixels, shape, card)


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes; see `assembling.Measure`."""
    kind, beside = _pixels(source)
    exact = stored(beside) if beside else stored(source, prefix=_VQ)
    columns = kind.side + bool(kind.grid)
    config = _config(source, settings, kind.title)
    return Needs(stored(source, (_VQ,)), exact, cached_numbers(config), kind.side * columns)


def _pixels(source: Source) -> tuple[Kind, Source | None]:
    """The kind of model, and the folder of its VQGAN; None where that lies among the model's own tensors instead."""
    beside = replace(folder_in(source, PIXELS), remedy=f"Convert its VQGAN once with: {CONVERT}")
    if not beside.folder.is_dir() and f"{_VQ}decoder.conv_in.weight" in tensor_heads(source):
        return KINDS["anole"], None
    return _drawn_as(beside), beside


def settings_of(kind: str, side: int | None) -> dict[str, Any]:
    """What is written to config.json beside a VQGAN."""
    return {"kind": kind, "side": side or KINDS[kind].side} | ({"first": first} if (first := KINDS[kind].first) else {})


def _drawn_as(beside: Source) -> Kind:
    """The kind of model that a VQGAN was converted for, with the side of its pictures."""
    settings = beside.read_json("config.json")
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise beside.lacks(f"config.json has {shown(kind)} for 'kind'; it is one of {', '.join(KINDS)}")
    found = replace(KINDS[kind], side=int(number_of(beside, settings, "side", most=_MOST_SIDE)))
    return replace(found, first=int(number_of(beside, settings, "first", most=_MOST_TOKENS))) if found.first else found


def _first_token(source: Source) -> str:
    """The token that texts begin with: the tokenizer's beginning, or where it has none its end, as in the release."""
    name = "tokenizer_config.json"
    said = source.read_json(name)
    for field in ("bos_token", "eos_token"):
        found = said.get(field)
        found = found.get("content") if isinstance(found, dict) else found
        if isinstance(found, str):
            return found
    raise source.lacks(f"{name} has neither 'bos_token' nor 'eos_token'")


def _config(source: Source, settings: Mapping[str, Any], title: str) -> ChameleonConfig:
    said = {name: value for name, value in settings.items() if value is not None}
    check_fixed(source, said, {"tie_word_embeddings": False}, title)
    sizes = sizes_of(source, said, title, _USUAL)
    if not isinstance(said.get("swin_norm", False), bool):
        raise source.lacks(f"config.json has {shown(said['swin_norm'])} for 'swin_norm', which is not allowed")
    if sizes["head_dim"] * sizes["num_attention_heads"] != sizes["hidden_size"]:
        raise source.lacks(f"config.json has heads of {sizes['head_dim']}, which do not make up its 'hidden_size'")
    smallest = ChameleonVQVAEConfig(base_channels=32, channel_multiplier=[1], num_res_blocks=1)  # it is not kept
    return ChameleonConfig(
        **sizes, swin_norm=said.get("swin_norm", False), vocabulary_map={"<image>": 0}, vq_config=smallest
    )


def _read(source: Source, config: ChameleonConfig, title: str, dtype: torch.dtype) -> tuple[ChameleonModel, Tensor]:
    """The decoder and its output layer."""
    body = outlined(lambda: ChameleonModel(config))
    del body.vqmodel
    native = {f"model.{name}": shape for name, shape in shapes_of(body).items()}
    heads = shapes_in(tensor_heads(source))
    # The norms of queries and keys are stored once a head, or once for all heads that one device had in training.
    wanted = {
        name: (heads[name][0], shape[1]) if len(shape) == 2 and _shared(heads.get(name), shape) else shape
        for name, shape in native.items()
    }
    found = read_tensors(source, wanted | {_HEAD: (config.vocab_size, config.hidden_size)}, title, ignored=(_VQ,))
    state = {
        name.removeprefix("model."): found[name].repeat_interleave(shape[0] // wanted[name][0], 0)
        if wanted[name] != shape
        else found[name]
        for name, shape in native.items()
    }
    body = filled(body, state, dtype)
    body.rotary_emb = ChameleonRotaryEmbedding(config)
    check_whole(body)
    return body, found[_HEAD].to(dtype)


def _shared(found: tuple[int, ...] | None, wanted: tuple[int, ...]) -> bool:
    """Whether a tensor has fewer rows than are wanted, each of which stands for as many."""
    return found is not None and len(found) == 2 and 0 < found[0] < wanted[0] and wanted[0] % found[0] == 0


def _codes(source: Source, tokenizer: Tokenizer, count: int) -> Tensor:
    """The token of every code: its number is written in letters, A being 0, behind IMGIMG and before Z."""
    numbers = {}
    for name, word in tokenizer.get_vocab().items():
        digits = name[len(_CODE) : -1]
        if name.startswith(_CODE) and name.endswith("Z") and digits and set(digits) <= set("ABCDEFGHIJ"):
            numbers[int("".join(str(ord(letter) - ord("A")) for letter in digits))] = word
    if sorted(numbers) != list(range(count)):
        raise source.lacks(f"its tokenizer names {len(numbers)} codes, and its VQGAN has {count}")
    return torch.tensor([numbers[code] for code in range(count)])


def _lumina(tokenizer: Tokenizer, words: TextPrompts, ids: Tensor, kind: Kind, beginning: tuple[str, int]) -> Script:
    """How Lumina-mGPT is asked; see the module. `beginning` is its first token, and pixels to a side."""
    (begin, pixels), side = beginning, kind.side
    grids = f"<reserved{8800 + side // kind.grid:05d}>"
    line, count = tokenizer.token_to_id(_LINE), tokenizer.token_to_id(grids)
    if side % kind.grid or line is None or count is None:
        raise ModelError(
            f"{words.owner}: its tokenizer has no {_LINE if line is None else grids}, or pictures of {side} codes a "
            f"side are no whole grids. Convert its VQGAN again, with another --side: {CONVERT}"
        )
    before = f"Generate an image of {pixels}x{pixels} according to the following prompt:\n"
    silent = (words.named(_PICTURE), count, count)

    def asked(prompt: str) -> tuple[Ids, Ids]:
        text = words.ids(before + words.checked(prompt))
        return (words.named(begin), *text, words.named(_TURN), *silent), silent

    return Script(ids, asked, line)


def _anole(words: TextPrompts, ids: Tensor) -> Script:
    """How Anole is asked; see the module."""
    begin, picture = words.named(_BEGIN), words.named(_PICTURE)

    def asked(prompt: str) -> tuple[Ids, Ids]:
        return (begin, *words.ids(words.checked(prompt)), words.named(_TURN), picture), (begin, picture)

    return Script(ids, asked, None)
