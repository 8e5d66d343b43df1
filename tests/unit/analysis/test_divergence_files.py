"""Files of comparisons and of texts, which may be from strangers."""

import json
from typing import Any

import pytest

from draftscope.analysis.divergence_files import read_divergence, read_texts
from draftscope.analysis.divergences import GreedyText, Reference, compare


def test_texts_of_files() -> None:
    (one,) = read_texts([{"prompt": "p", "tokens": [5, 6], "top": [{"5": -0.1, "6": -2}, None]}])
    assert (one.tokens, one.top) == (("5", "6"), ({"5": -0.1, "6": -2.0}, None))
    assert read_texts({"texts": [{"text": "ab"}]})[0].tokens == ("a", "b")
    positions = [{"token": "5", "word": "x", "top": None}]
    served = {
        "requests": [{"server": "ordinary"}, {"server": "server", "answer": {"text": "x", "positions": positions}}]
    }
    assert read_texts(served)[0] == GreedyText(prompt="", tokens=("5",), words=("x",), top=(None,))
    a = GreedyText(prompt="p", tokens=("x", "a"), top=({"x": -0.1, "z": -2.1}, None))
    b = GreedyText(prompt="p", tokens=("x", "b"))
    written = json.loads(compare(("A", "B"), [a], [b]).dumps([a], [b]))
    assert read_texts(written) == [a]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "texts: there are none"),
        ([1], "entry 1 is not an object"),
        ([{"prompt": "p"}], "entry 1 has neither tokens nor a text"),
        ([{"text": "a", "top": [5]}], "entry 1, top is not a list"),
    ],
)
def test_what_is_no_text_is_one_sentence(document: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_texts(document)


def _file(**changes: Any) -> bytes:
    texts = [GreedyText(prompt="p", tokens=("x", token), top=({"x": -0.1, "z": -2.0}, None)) for token in "ab"]
    reference = Reference(name="m", noise=(0.1,) * 100, scores={0: (-0.5, -0.7)})
    found = compare(("A", "B"), texts[:1], texts[1:], reference)
    document = json.loads(found.dumps(texts[:1], texts[1:]))
    return json.dumps(document | changes).encode()


def test_a_file_is_compared_again() -> None:
    found, (a,), _ = read_divergence(_file(verdict="same", splits=[], noise=[9.0], bound=5.0))
    assert (found.worst, found.names, a.tokens) == ("bug", ("A", "B"), ("x", "a"))
    assert (found.splits[0].score_a, found.reference.name) == (-0.5, "m")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "is not JSON .*; give a file that draftscope diff wrote"),
        (b"[" * 200_000, "is not JSON"),
        (b"{}", "has another title than 'draftscope diff'"),
        (b" " * (32 * 2**20 + 1), "has more than 32 MB"),
        (_file(version=2), "is of another version than 1"),
        (_file(names=["A"]), "names: are not two"),
        (_file(a=[]), "texts: there are none"),
        (_file(b=[{"prompt": "q", "tokens": ["x"]}]), "prompt 1 of A is not that of B"),
        (_file(a=[{"tokens": ["x"], "top": [{"x": float("nan"), "y": -1}]}]), "top is not a list of token"),
        (_file(reference={"name": "m", "noise": ["x"], "scores": {}}), "reference: has no name, noise and scores"),
        (_file(reference={"name": "m", "noise": [1], "scores": {"0": [float("inf"), 0]}}), "are not log-probabilities"),
        (_file(reference={"name": "m", "noise": [1], "scores": {"7": [-1, -2]}}), "are not log-probabilities"),
    ],
)  # fmt: skip
def test_what_is_no_comparison_is_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read_divergence(data)
    assert "\n" not in str(caught.value)
