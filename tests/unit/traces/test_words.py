"""Pieces of characters are joined as soon as the character is complete, in every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripts import TEXTS, cut, pieces, writing

from draftscope.trace import displayable
from draftscope.traces.perfetto import to_perfetto
from draftscope.traces.words import JOINER, PIECE, direction, first_piece, step_words, word_after, words


def joined(texts: list[str | None]) -> str:
    return "".join(word or "" for word in words(texts))


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (pieces("🦊!", 1, 2, 3, 4), ["", "", "", "🦊", "!"]),
        (pieces(" 你好", 2, 4, 5), [" ", "你", "", "好"]),
        (pieces("कि", 3), ["", "कि"]),
        (pieces("🇩🇪🇫🇷", 4, 8, 12), ["", "🇩🇪", "", "🇫🇷"]),
        (pieces("👩‍👩‍👧", 2, 4, 7, 9), ["", "", "", "", "👩‍👩‍👧"]),
        (pieces("สวัสดี", 2, 5, 7, 10), ["", "ส", "", "วั", "สดี"]),
        (pieces("ée", 1), ["", "ée"]),
        (pieces("سلام", 2, 4, 6), [f"س{JOINER}", f"{JOINER}ل{JOINER}", f"{JOINER}ا", "م"]),
        (["<0xE4>", "a", "<0xA6>", None, "<0xF0><0x9F>"], [PIECE, "a", PIECE, None, PIECE]),
        (["<0xE4>", "<0xE4>", "<0xBD><0xA0>"], [PIECE, "", "你"]),
        (["plain", None, "<end>"], ["plain", None, "<end>"]),
    ],
)
def test_a_character_is_shown_by_the_last_of_its_tokens(texts: list[str | None], shown: list[str | None]) -> None:
    assert words(texts) == shown


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_whatever_the_tokens_are_the_text_is_whole(text: str) -> None:
    for seed in range(8):
        assert joined(cut(text, seed)).replace(JOINER, "") == text.replace(JOINER, "")
        assert PIECE not in joined(cut(text, seed))


@given(st.text(), st.integers(0, 2**16))
def test_any_text_is_whole(text: str, seed: int) -> None:
    assert joined(cut(text, seed)).replace(JOINER, "") == text.replace(JOINER, "")


@given(st.lists(st.one_of(st.none(), st.text(), st.binary(max_size=4).map(lambda each: each.hex(" ").upper()))))
def test_any_bytes_are_shown(parts: list[str | None]) -> None:
    texts = [part and "".join(f"<0x{byte}>" for byte in part.split()) if _are_bytes(part) else part for part in parts]
    shown = words(texts)
    assert [word is None for word in shown] == [text is None for text in texts]


def _are_bytes(part: str | None) -> bool:
    return part is not None and all(len(byte) == 2 and byte.isalnum() and byte.isascii() for byte in part.split())


def test_a_token_alone_is_its_bytes_and_with_those_before_it_its_character() -> None:
    assert word_after([], "<0x8A>") == "<0x8A>"
    assert word_after(["<0xF0><0x9F>", "<0xA6>"], "<0x8A>") == "🦊"
    assert word_after(["क"], "ि") == "कि"


def test_the_first_piece_of_a_character_is_found_and_a_space_is_none() -> None:
    texts: list[str | None] = [" ", *pieces("🦊", 1, 2), "ok"]
    assert [first_piece(texts, words(texts), index) for index in range(5)] == [0, 1, 2, 1, 4]


@pytest.mark.parametrize(
    ("text", "side"),
    [("שלום", "left"), ("، مرحبا", "left"), ("a", "right"), ("12", "right"), (" — ?", ""), ("你", "right")],
)
def test_a_text_runs_to_the_side_of_its_first_letter(text: str, side: str) -> None:
    assert direction(text) == side


def test_tables_and_events_have_the_character_where_it_is_complete() -> None:
    trace = writing(["A ", *pieces("🦊", 1, 3), "."])
    texts = ["A ", "<0xF0>", "<0x9F><0xA6>", "🦊", "."]
    assert [shown for (shown,) in step_words(trace)] == texts
    assert displayable(trace).to_columns()["text"] == texts
    events = [event["args"]["text"] for event in to_perfetto(trace)["traceEvents"] if event.get("cat") == "verdict"]
    assert events == texts
