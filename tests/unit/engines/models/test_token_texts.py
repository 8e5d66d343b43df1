"""The text of a single token: what it adds to a text, and its bytes where they are part of a character."""

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from draftscope.engines.models.token_texts import decoded_text, token_text
from draftscope.traces.words import words

TEXT = " naïve 你好 🦊"


def byte_level() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentence_piece() -> Tokenizer:
    """A vocabulary as that of Llama 2: a mark for the space before a word, and bytes for what is not in it."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"<unk>": 256, "▁ok": 257, "你": 258}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@pytest.mark.parametrize("wrapped", [False, True], ids=["tokenizers", "transformers"])
def test_bytes_of_a_byte_level_vocabulary_are_named_and_join_to_the_text(wrapped: bool) -> None:
    byte_tokenizer = byte_level()
    ids = byte_tokenizer.encode(TEXT).ids
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer) if wrapped else byte_tokenizer
    texts = [token_text(tokenizer, token) for token in ids]
    assert texts[:5] == [" ", "n", "a", "<0xC3>", "<0xAF>"] and texts[-1] == "<0x8A>"
    assert "".join(word or "" for word in words(texts)) == TEXT


def test_bytes_and_spaces_of_a_sentencepiece_vocabulary() -> None:
    tokenizer = sentence_piece()
    texts = [token_text(tokenizer, token) for token in (257, 0xF0, 0x9F, 0xA6, 0x8A, 258)]
    assert texts == [" ok", "<0xF0>", "<0x9F>", "<0xA6>", "<0x8A>", "你"]
    assert words(texts) == [" ok", "", "", "", "🦊", "你"]


def test_a_token_of_several_characters_keeps_those_that_are_whole() -> None:
    byte_tokenizer = byte_level()
    byte_tokenizer.add_tokens(["�"])
    letters = {i: letter for letter, i in byte_tokenizer.get_vocab().items()}
    a, e4 = (next(i for i, letter in letters.items() if letter == wanted) for wanted in ("a", "ä"))
    merged = Tokenizer(models.BPE(vocab={"aä": 0, letters[a]: 1, letters[e4]: 2}, merges=[("a", "ä")]))
    merged.decoder = decoders.ByteLevel()
    assert token_text(merged, 0) == "a<0xE4>"
    assert token_text(byte_tokenizer, byte_tokenizer.token_to_id("�")) == "�"


@pytest.mark.parametrize("wrapped", [False, True], ids=["tokenizers", "transformers"])
def test_a_text_ends_before_a_character_that_is_not_whole(wrapped: bool) -> None:
    tokenizer: Any = byte_level()
    tokenizer.add_tokens(["�"])
    known = tokenizer.token_to_id("�")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer) if wrapped else tokenizer
    encode = tokenizer.encode if wrapped else lambda text: tokenizer.encode(text).ids
    for character, number in (("é", 2), ("你", 3), ("🦊", 4)):
        ids = list(encode(f"naïve {character}"))
        texts = [decoded_text(tokenizer, ids[: len(ids) - missing]) for missing in range(number + 1)]
        assert texts == [f"naïve {character}", *["naïve "] * number]
    assert decoded_text(tokenizer, [*encode("a"), known]).endswith("�")  # a token of its own
    assert decoded_text(tokenizer, []) == ""


def test_a_text_of_a_sentencepiece_vocabulary_ends_before_a_character_that_is_not_whole() -> None:
    tokenizer = sentence_piece()
    assert [decoded_text(tokenizer, [257, 0xF0, 0x9F, 0xA6, 0x8A][:count]) for count in (1, 2, 4, 5)] == [
        "ok", "ok", "ok", "ok🦊"
    ]  # fmt: skip
