"""First differences of greedy texts of two engines, and whether rounding explains them.

Where the texts agree, both engines saw the same tokens, so a difference between their log-probability margins of the
two likeliest tokens is rounding: the noise of this pair of engines. Where the texts part, the margin of A's token in A
plus that of B's token in B is such a difference, too. It is a tie if it is within the 99 % quantile of the noise,
unclear up to the largest noise, and a bug beyond. A bug parts texts anywhere, so that it looks like a tie as often as
positions have so small a margin; the report gives that share.

Where an engine gave no log-probabilities at a split, a reference model can score both tokens: one of the engines is off
by at least the difference of their log-probabilities. It is compared with the rounding of the reference itself,
bfloat16 against float32, or with that of the pair if it is larger.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, exp
from typing import Final, Literal, TypeAlias

TITLE: Final = "draftscope diff"
QUANTILE: Final = 0.99
MIN_NOISE: Final = 100
"""Positions with log-probabilities of both that a verdict needs."""
Verdict: TypeAlias = Literal["tie", "unclear", "bug", "unknown"]
Top: TypeAlias = Mapping[str, float] | None
"""Log-probabilities of the likeliest tokens at a position, by token; None where an engine gave none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyText:
    """A greedy text of one engine."""

    prompt: str
    tokens: tuple[str, ...]
    """Ids as text, or pieces of the text where ids are unknown."""
    words: tuple[str, ...] = ()
    """Text of each token, for the page; empty where unknown."""
    top: tuple[Top, ...] = ()
    by_character: bool = False
    """Whether its tokens are not known, so that these are characters."""

    def as_text(self) -> "GreedyText":
        """Return the same text by characters, without what is known of its tokens."""
        return GreedyText(prompt=self.prompt, tokens=tuple("".join(self.words or self.tokens)), by_character=True)

    def top_at(self, position: int) -> Top:
        """Return the likeliest tokens at a position; None if they are unknown, or all the probability is on one."""
        found = self.top[position] if position < len(self.top) else None
        return found if found and len(found) > 1 else None

    def word_at(self, position: int) -> str:
        """Return the text of a token."""
        return self.words[position] if position < len(self.words) else self.tokens[position]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A model that scored both tokens of splits."""

    name: str
    noise: tuple[float, ...]
    """Differences of its margins between bfloat16 and float32, sorted."""
    scores: Mapping[int, tuple[float, float]]
    """By the index of a prompt: the log-probabilities of A's and of B's token where their texts part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The first token that differs."""

    text: int
    """Index of the prompt."""
    position: int
    token_a: str
    """Token of A; empty where A's text has ended."""
    token_b: str
    word_a: str
    word_b: str
    margin_a: float | None
    """Log-probability of A's token less that of B's token, in A; None where A gave none."""
    margin_b: float | None
    """Log-probability of B's token less that of A's token, in B."""
    score_a: float | None = None
    """Log-probability of A's token by the reference; None where it was not asked."""
    score_b: float | None = None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Comparison of the greedy texts of two engines."""

    names: tuple[str, str]
    texts: int
    tokens: int
    """Tokens up to and including the first that differs."""
    splits: tuple[Split, ...]
    noise: tuple[float, ...]
    """Differences of margins where the texts agree, sorted."""
    bound: float | None
    """The quantile of the noise up to which a split is a tie; None for too little noise."""
    tie_share: float | None
    """Share of positions whose margin is within the bound: how often a bug looks like a tie."""
    missing: tuple[int, int]
    """Positions without log-probabilities in A and in B, where the texts agree."""
    same_by_length: tuple[tuple[int, float], ...]
    """Length, and share of the prompts whose texts agree up to it."""
    reference: Reference | None = None
    ended: str = ""
    """Why there are fewer texts than prompts; empty if there are not."""

    @property
    def verdict(self) -> str:
        """Result in a sentence."""
        if not self.splits:
            return f"same: all {self.texts} texts agree."
        kinds = {
            kind: sum(split.verdict == kind for split in self.splits) for kind in ("bug", "unknown", "unclear", "tie")
        }
        parts = [f"{count} {_WORDS[kind]}" for kind, count in kinds.items() if count]
        return f"{len(self.splits)} of {self.texts} texts part: {'; '.join(parts)}."

    @property
    def worst(self) -> Verdict | Literal["same"]:
        """The verdict that decides: a bug if there is one."""
        for kind in ("bug", "unknown", "unclear", "tie"):
            if any(split.verdict == kind for split in self.splits):
                return kind
        return "same"

    def __str__(self) -> str:
        """Verdict, noise and every split, as text."""
        lines = [self.verdict, f"A: {self.names[0]}\nB: {self.names[1]}"]
        if self.bound is None:
            lines.append(f"noise: {len(self.noise)} positions with log-probabilities of both, {MIN_NOISE} are needed")
        else:
            largest = self.noise[-1]
            lines.append(
                f"noise of margins on {len(self.noise)} positions: 99 % up to {self.bound:.2g}, all to {largest:.2g}; "
                f"{self.tie_share:.1%} of the positions have so small a margin"
            )
        if any(self.missing):
            lines.append(f"positions without log-probabilities: {self.missing[0]} in A, {self.missing[1]} in B")
        if self.reference is not None and (scale := _quantile(self.reference.noise)) is not None:
            largest = self.reference.noise[-1]
            lines.append(
                f"re-scored by {self.reference.name}; bfloat16 changes its margins by up to {scale:.2g} at 99 % of "
                f"{len(self.reference.noise)} positions, by {largest:.2g} at most"
            )
        if self.ended:
            lines.append(f"ended early: {self.ended}")
        lines += [
            f"prompt {split.text + 1}, token {split.position + 1}: A {split.word_a!r}, B {split.word_b!r}; "
            f"{_evidence(split)}: {self._words(split)}"
            for split in self.splits
        ]
        if any(split.verdict == "unknown" for split in self.splits) and self.reference is None:
            lines.append("A model that both serve, named by --score-with, scores splits without log-probabilities.")
        return "\n".join(lines)

    def _words(self, split: Split) -> str:
        is_measured = split.margin_a is not None and split.margin_b is not None
        is_short = split.verdict == "unknown" and (is_measured or split.score_a is not None)
        return "unknown, too little rounding was measured" if is_short else _WORDS[split.verdict]

    def dumps(self, a: Sequence[GreedyText], b: Sequence[GreedyText]) -> bytes:
        """Return the comparison with all texts, as JSON.

        Args:
            a: Texts of A, one a prompt.
            b: Texts of B, in the same order.
        """
        sides = {"a": [asdict(text) for text in a], "b": [asdict(text) for text in b]}
        found = {"title": TITLE, "version": 1, "verdict": self.verdict, **asdict(self), **sides}
        return f"{json.dumps(found, indent=1)}\n".encode()


_WORDS: Final = {
    "tie": "within rounding", "unclear": "unclear, above 99 % of the rounding", "bug": "more than rounding",
    "unknown": "unknown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitView:
    """A split as a page shows it, once for each engine."""

    before: str
    """The end of what both texts have in common."""
    marked: str
    """The token that differs."""
    after: str
    probabilities: str
    """Probabilities of both tokens, in words."""


AROUND: Final = 40
"""Tokens that are shown before the one that differs, and after it."""


def split_views(split: Split, a: GreedyText, b: GreedyText) -> tuple[SplitView, SplitView]:
    """Return what a page shows of a split, for A and for B.

    Args:
        split: Position at which the texts of a prompt differ first.
        a: Text of A for this prompt.
        b: Text of B for this prompt.
    """
    return _view(split, a), _view(split, b)


def _view(split: Split, text: GreedyText) -> SplitView:
    at, first = split.position, max(0, split.position - AROUND)
    words = [text.word_at(index) for index in range(first, min(at + AROUND, len(text.tokens)))]
    before, after = "".join(words[: at - first]), words[at - first :]
    marked = (after[0] if after else "") or "the end"
    return SplitView(("…" if first else "") + before, marked, "".join(after[1:]), _probabilities(split, text))


def _probabilities(split: Split, text: GreedyText) -> str:
    """The probabilities of both tokens, as far as they are known."""
    top, pairs = text.top_at(split.position), ((split.token_a, split.word_a), (split.token_b, split.word_b))
    if top is not None:
        parts = [
            f"p({word}) = {exp(top[token]):.4f}" if token in top else f"p({word}) is not listed"
            for token, word in pairs
        ]
        return ", ".join(parts)
    if split.score_a is None or split.score_b is None:
        return "no log-probabilities"
    scores = zip((split.score_a, split.score_b), (split.word_a, split.word_b), strict=True)
    return "by the reference: " + ", ".join(f"p({word}) = {exp(score):.4f}" for score, word in scores)


def compare(
    names: tuple[str, str],
    a: Sequence[GreedyText],
    b: Sequence[GreedyText],
    reference: Reference | None = None,
    ended: str = "",
) -> Divergence:
    """Compare the texts of two engines, prompt by prompt; by characters where only one engine tells its tokens.

    Args:
        names: Names of the engines.
        a: Texts of the first.
        b: Texts of the second.
        reference: Scores of splits by another model.
        ended: Why there are fewer texts than prompts.

    Raises:
        ValueError: If they are not texts of the same prompts.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"texts: A has {len(a)} and B {len(b)}; give texts of the same prompts.")
    for number, (one, other) in enumerate(zip(a, b, strict=True), 1):
        if one.prompt and other.prompt and one.prompt != other.prompt:
            raise ValueError(
                f"texts: prompt {number} of A is not that of B; give texts of the same prompts in one order."
            )
    a, b = comparable(a, b)
    agreed = [_agreed(one.tokens, other.tokens) for one, other in zip(a, b, strict=True)]
    noise, margins, missing = _noise(a, b, agreed)
    bound = _quantile(noise)
    splits = [
        _scored(_split(index, a[index], b[index], length, bound, noise), reference, noise)
        for index, length in enumerate(agreed)
        if length < max(len(a[index].tokens), len(b[index].tokens))
    ]
    share = sum(margin <= bound for margin in margins) / len(margins) if bound is not None and margins else None
    split_at = {split.text: split.position for split in splits}
    return Divergence(
        names=names,
        texts=len(a),
        tokens=sum(length + (index in split_at) for index, length in enumerate(agreed)),
        splits=tuple(splits),
        noise=tuple(noise),
        bound=bound,
        tie_share=share,
        missing=missing,
        same_by_length=_same_by_length([len(text.tokens) for text in a], split_at),
        reference=reference,
        ended=ended,
    )


def comparable(
    a: Sequence[GreedyText], b: Sequence[GreedyText]
) -> tuple[tuple[GreedyText, ...], tuple[GreedyText, ...]]:
    """Return both texts of each prompt by tokens or, where one engine does not report these, by characters.

    Args:
        a: Texts of A, one a prompt.
        b: Texts of B, in the same order.
    """
    pairs = [
        (one.as_text(), other.as_text()) if one.by_character != other.by_character else (one, other)
        for one, other in zip(a, b, strict=True)
    ]
    return tuple(one for one, _ in pairs), tuple(other for _, other in pairs)


def _quantile(noise: Sequence[float]) -> float | None:
    """The quantile up to which a split is a tie; None for too little noise."""
    return noise[ceil(QUANTILE * len(noise)) - 1] if len(noise) >= MIN_NOISE else None


def _scored(split: Split, reference: Reference | None, noise: Sequence[float]) -> Split:
    """A split with the scores of the reference, which give the verdict if an engine gave no log-probabilities."""
    scores = reference.scores.get(split.text) if reference else None
    if reference is None or scores is None:
        return split
    split = replace(split, score_a=scores[0], score_b=scores[1])
    bound = _quantile(reference.noise)
    if (split.margin_a is not None and split.margin_b is not None) or bound is None:
        return split
    of_pair = _quantile(noise)
    bound, largest = max(bound, of_pair or 0.0), max(reference.noise[-1], noise[-1] if of_pair is not None else 0.0)
    gap = abs(scores[0] - scores[1])
    return replace(split, verdict="tie" if gap <= bound else "unclear" if gap <= largest else "bug")


def _agreed(a: Sequence[str], b: Sequence[str]) -> int:
    """The number of tokens before the first that differs."""
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _noise(
    a: Sequence[GreedyText], b: Sequence[GreedyText], agreed: Sequence[int]
) -> tuple[list[float], list[float], tuple[int, int]]:
    """Differences of margins where texts agree, A's margins there, and the positions without log-probabilities."""
    noise, margins, missing = [], [], [0, 0]
    for one, other, length in zip(a, b, agreed, strict=True):
        for position in range(length):
            tops = one.top_at(position), other.top_at(position)
            for side, top in enumerate(tops):
                missing[side] += top is None
            if tops[0] is None or tops[1] is None:
                continue
            first, second = sorted(tops[0], key=tops[0].__getitem__, reverse=True)[:2]
            margins.append(tops[0][first] - tops[0][second])
            if first in tops[1] and second in tops[1]:
                noise.append(abs(margins[-1] - (tops[1][first] - tops[1][second])))
    return sorted(noise), margins, (missing[0], missing[1])


def _split(
    index: int, a: GreedyText, b: GreedyText, position: int, bound: float | None, noise: Sequence[float]
) -> Split:
    ends = position >= len(a.tokens), position >= len(b.tokens)
    token_a, token_b = ("" if end else text.tokens[position] for end, text in zip(ends, (a, b), strict=True))
    words = ["the end" if end else text.word_at(position) for end, text in zip(ends, (a, b), strict=True)]
    margin_a = None if any(ends) else _margin(a.top_at(position), token_a, token_b)
    margin_b = None if any(ends) else _margin(b.top_at(position), token_b, token_a)
    verdict: Verdict = "unknown"
    if margin_a is not None and margin_b is not None and bound is not None:
        total = margin_a + margin_b
        verdict = "tie" if total <= bound else "unclear" if total <= noise[-1] else "bug"
    return Split(
        text=index,
        position=position,
        token_a=token_a,
        token_b=token_b,
        word_a=words[0],
        word_b=words[1],
        margin_a=margin_a,
        margin_b=margin_b,
        verdict=verdict,
    )


def _margin(top: Top, token: str, other: str) -> float | None:
    """Log-probability of a token less that of another one, which is at most the lowest that is listed."""
    if top is None or token not in top:
        return None
    return top[token] - top.get(other, min(top.values()))


def _same_by_length(lengths: Sequence[int], split_at: Mapping[int, int]) -> tuple[tuple[int, float], ...]:
    points = []
    for length in range(1, max(lengths, default=0) + 1):
        chosen = [index for index, tokens in enumerate(lengths) if tokens >= length or index in split_at]
        same = sum(split_at.get(index, length) >= length for index in chosen)
        points.append((length, same / len(chosen)))
    return tuple(points)


def _evidence(split: Split) -> str:
    """Margins of a split or, without them, the probabilities by the reference, in words."""
    if split.score_a is None or split.score_b is None:
        return f"margins {_number(split.margin_a)} and {_number(split.margin_b)}"
    margins = f"margins {_number(split.margin_a)} and {_number(split.margin_b)}, "
    known = margins if split.margin_a is not None or split.margin_b is not None else ""
    return f"{known}by the reference p {exp(split.score_a):.4f} and {exp(split.score_b):.4f}"


def _number(margin: float | None) -> str:
    return "unknown" if margin is None else f"{margin:.3g}"
