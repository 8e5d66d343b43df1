"""The page of a comparison of greedy texts: the verdict, pictures, and both texts with the first different token."""

import html
from collections.abc import Sequence
from math import exp
from typing import Final

from draftscope.analysis.divergences import Divergence, GreedyText, Split
from draftscope.visualizers.figure_page import page_of
from draftscope.visualizers.figures.divergences import DIVERGENCE_FIGURES

_MAX_SPLITS: Final = 50
_AROUND: Final = 40
"""Tokens that are shown before the first different one, and after it."""
_STYLE: Final = (
    ".split { margin: 32px 0 0; } .split p { margin: 4px 0; white-space: pre-wrap; overflow-wrap: anywhere; } "
    ".split mark { padding: 0 3px; border-radius: 3px; } .split .after { opacity: 0.6; } pre { white-space: pre-wrap; }"
)


def divergence_page(found: Divergence, a: Sequence[GreedyText], b: Sequence[GreedyText]) -> str:
    """Return a self-contained page."""
    splits = "\n".join(_split(split, a[split.text], b[split.text]) for split in found.splits[:_MAX_SPLITS])
    head = (
        f"<style>{_STYLE}</style>\n<h1>{html.escape(found.verdict.capitalize())}</h1>\n"
        f"<pre>{html.escape(str(found))}</pre>\n{splits}"
    )
    return page_of([(figure, figure.draw(found)) for figure in DIVERGENCE_FIGURES], before=head)


def _split(split: Split, a: GreedyText, b: GreedyText) -> str:
    sides = "\n".join(
        f"<p><b>{name}</b> {_marked(text, split.position)}<br>{_probabilities(text, split)}</p>"
        for name, text in (("A", a), ("B", b))
    )
    return (
        f'<section class="split"><h2>Prompt {split.text + 1}, token {split.position + 1}</h2>\n'
        f"<p>{html.escape(a.prompt[:500])}</p>\n{sides}</section>"
    )


def _marked(text: GreedyText, position: int) -> str:
    first = max(0, position - _AROUND)
    words = [html.escape(text.word_at(at)) for at in range(first, min(position + _AROUND, len(text.tokens)))]
    before, after = words[: position - first], words[position - first :]
    marked = f"<mark>{after[0]}</mark>" if after else "<mark>the end</mark>"
    return f'{"…" if first else ""}{"".join(before)}{marked}<span class="after">{"".join(after[1:])}</span>'


def _probabilities(text: GreedyText, split: Split) -> str:
    """The probabilities of both tokens, as far as they are known."""
    top = text.top_at(split.position)
    if top is None:
        return "no log-probabilities"
    parts = [
        f"p({html.escape(word)}) = {exp(top[token]):.4f}" if token in top else f"p({html.escape(word)}) is not listed"
        for token, word in ((split.token_a, split.word_a), (split.token_b, split.word_b))
    ]
    return ", ".join(parts)
