"""Greedy texts of two engines: the first token that differs, and whether rounding explains it."""

import pytest

from draftscope.analysis.divergences import GreedyText, compare


def text(tokens: str, noise: float = 0.0, margin: float = 2.0, **top: dict[str, float]) -> GreedyText:
    """A text whose tokens are likelier than "z" by a margin, with other log-probabilities at named positions."""
    tops = [top.get(f"at{i}", {token: -0.1, "z": -0.1 - margin - noise * (i % 10)}) for i, token in enumerate(tokens)]
    return GreedyText(prompt="p", tokens=tuple(tokens), top=tuple(tops))


def parted(margin_a: float, margin_b: float) -> tuple[GreedyText, GreedyText]:
    """Texts of 200 tokens, with rounding up to 0.09, that part at the last."""
    a = text("x" * 199 + "a", at199={"a": -0.5, "b": -0.5 - margin_a})
    b = text("x" * 199 + "b", noise=0.01, at199={"b": -0.5, "a": -0.5 - margin_b})
    return a, b


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [((0.02, 0.03), "tie"), ((0.05, 0.0399), "tie"), ((0.08, 0.02), "bug"), ((2.0, 0.0), "bug")],
)
def test_a_split_is_a_tie_within_the_rounding_that_was_measured(margins: tuple[float, float], verdict: str) -> None:
    a, b = parted(*margins)
    found = compare(("A", "B"), [a], [b])
    assert found.bound == pytest.approx(0.09) and len(found.noise) == 199
    (split,) = found.splits
    assert (split.text, split.position, split.token_a, split.token_b, split.verdict) == (0, 199, "a", "b", verdict)
    assert found.worst == verdict and found.tie_share == 0
    assert (split.margin_a, split.margin_b) == (pytest.approx(margins[0]), pytest.approx(margins[1]))


def test_between_the_quantile_and_the_largest_noise_nothing_is_decided() -> None:
    a, b = parted(0.1, 0.05)
    rare = {"x": -0.1, "z": -0.1 - 2.0 - 0.3}
    b = GreedyText(prompt="p", tokens=b.tokens, top=(rare, *b.top[1:]))
    found = compare(("A", "B"), [a], [b])
    assert (found.noise[-1], found.splits[0].verdict) == (pytest.approx(0.3), "unclear")
    assert "unclear, above 99 % of the rounding" in str(found)


def test_what_the_engines_do_not_tell_is_unknown() -> None:
    a, b = parted(0.01, 0.01)
    for top in (None, {"b": -0.1}):
        blind = GreedyText(prompt="p", tokens=b.tokens, top=(*b.top[:-1], top))
        assert compare(("A", "B"), [a], [blind]).splits[0].verdict == "unknown"
    short = [text("xa", at1={"a": -0.5, "b": -0.6})], [text("xb", at1={"b": -0.5, "a": -0.6})]
    found = compare(("A", "B"), *short)
    assert found.bound is None and found.worst == "unknown"
    assert "unknown, too little rounding was measured" in str(found) and "100 are needed" in str(found)
    blind = GreedyText(prompt="p", tokens=a.tokens)
    found = compare(("A", "B"), [a], [blind])
    assert (found.worst, found.missing) == ("same", (0, 200))


def test_small_margins_make_a_bug_look_like_a_tie() -> None:
    a, b = parted(0.01, 0.01)
    close = text("y" * 100, margin=0.05), text("y" * 100, margin=0.05)
    found = compare(("A", "B"), [a, close[0]], [b, close[1]])
    assert found.tie_share == pytest.approx(100 / 299)


def test_the_share_of_equal_texts_by_length() -> None:
    pairs = [("aaaa", "aaaa"), ("bbbb", "bbxb"), ("cc", "cc"), ("dddd", "ddd")]
    found = compare(("A", "B"), [text(one) for one, _ in pairs], [text(other) for _, other in pairs])
    assert found.same_by_length == ((1, 1.0), (2, 1.0), (3, 2 / 3), (4, 1 / 3))
    assert [(split.text, split.position, split.word_b) for split in found.splits] == [(1, 2, "x"), (3, 3, "the end")]
    assert found.tokens == 4 + 3 + 2 + 4


def test_texts_of_other_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="A has 1 and B 2"):
        compare(("A", "B"), [text("a")], [text("a")] * 2)
    other = GreedyText(prompt="q", tokens=("a",))
    with pytest.raises(ValueError, match="prompt 1 of A is not that of B"):
        compare(("A", "B"), [text("a")], [other])
