"""Figures of a comparison of greedy texts: margins at splits against the noise, and how long texts stay the same."""

from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.divergences import Divergence
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.plot import axes, curve, dots, plain

_MAX_POINTS: Final = 400
_KINDS: Final = {"tie": "within rounding", "unclear": "unclear", "bug": "more than rounding"}


def _about(found: Divergence) -> str:
    return plain(f"A {found.names[0]}, B {found.names[1]}; {found.texts:,} prompts")


@DataFigure(
    name="margins",
    title="Margins where the texts part, and rounding",
    caption="The curve is the share of positions with at most that much rounding, where the texts agree: the "
    "difference between the log-probability margins of the two likeliest tokens in A and in B. Marks are the splits: "
    "the margin of A's token in A plus that of B's token in B. The dotted line is the 99 % quantile, up to which a "
    "split is a tie.",
)
def margins(found: Divergence) -> go.Figure:
    """Return the distribution of the noise with the splits on it."""
    figure = go.Figure()
    noise = found.noise[:: max(1, len(found.noise) // _MAX_POINTS)]
    shares = [100 * (index + 1) / len(noise) for index in range(len(noise))]
    curve(figure, 0, "rounding", (noise, shares), "%{x:.3g}: %{y:.1f} % of positions", mode="lines")
    for index, (kind, name) in enumerate(_KINDS.items(), 1):
        chosen = [split for split in found.splits if split.verdict == kind]
        sums = [(split.margin_a or 0.0) + (split.margin_b or 0.0) for split in chosen]
        labels = [f"prompt {split.text + 1}, token {split.position + 1}" for split in chosen]
        if chosen:
            points = sums, [100.0 - 4 * index] * len(chosen)
            dots(figure, index, name, points, "%{customdata}: %{x:.3g}<extra></extra>", customdata=labels)
    if found.bound is not None:
        figure.add_vline(x=found.bound, line={"dash": "dot", "width": 1.5})
    title = "Difference of margins (log-probability)"
    return axes(figure, title, "Positions (%)", title_subtitle_text=_about(found), bounds=(0, 104))


@DataFigure(
    name="agreement",
    title="Prompts whose texts stay the same",
    caption="The share of prompts whose texts agree up to a length, of those whose text is as long or has parted "
    "before.",
)
def agreement(found: Divergence) -> go.Figure:
    """Return the share of equal texts by length."""
    figure = go.Figure()
    points = [length for length, _ in found.same_by_length], [100 * share for _, share in found.same_by_length]
    curve(figure, 0, "same", points, "%{x} tokens: %{y:.1f} %<extra></extra>", mode="lines")
    title = "Prompts with the same text (%)"
    return axes(figure, "Tokens", title, title_subtitle_text=_about(found), bounds=(0, 104), showlegend=False)


DIVERGENCE_FIGURES: Final = (margins, agreement)
"""All of them, in the order of a page."""
