"""The page of a comparison of greedy texts: the verdict, pictures, and both texts with the first different token."""

import html
from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

from draftscope.analysis.divergences import Divergence, GreedyText, Split, SplitView, split_views
from draftscope.visualizers.figure_page import page_of
from draftscope.visualizers.figures.divergences import DIVERGENCE_FIGURES

_MAX_SPLITS: Final = 50
_STYLE: Final = (
    ".split { margin: 32px 0 0; } .split p { margin: 4px 0; white-space: pre-wrap; overflow-wrap: anywhere; } "
    ".split mark { padding: 0 4px; border-radius: 4px; } .split .after { opacity: 0.6; } pre { white-space: pre-wrap; }"
)


def divergence_page(found: Divergence, a: Sequence[GreedyText], b: Sequence[GreedyText]) -> str:
    """Return a self-contained page that compares the texts of two engines.

    Args:
        found: Where they differ.
        a: Texts of A, one a prompt.
        b: Texts of B, in the same order.
    """
    splits = "\n".join(_split(split, a[split.text], b[split.text]) for split in found.splits[:_MAX_SPLITS])
    head = (
        f"<style>{_STYLE}</style>\n<h1>{html.escape(found.verdict.capitalize())}</h1>\n"
        f"<pre>{html.escape(str(found))}</pre>\n{splits}"
    )
    return page_of([(figure, figure.draw(found)) for figure in DIVERGENCE_FIGURES], before=head)


def _split(split: Split, a: GreedyText, b: GreedyText) -> str:
    views = zip(("A", "B"), split_views(split, a, b), strict=True)
    sides = "\n".join(f"<p><b>{name}</b> {_side(view)}</p>" for name, view in views)
    return (
        f'<section class="split"><h2>Prompt {split.text + 1}, token {split.position + 1}</h2>\n'
        f"<p>{html.escape(a.prompt[:500])}</p>\n{sides}</section>"
    )


def _side(view: SplitView) -> str:
    before, marked, after, probabilities = map(html.escape, astuple(view))
    return f'{before}<mark>{marked}</mark><span class="after">{after}</span><br>{probabilities}'
