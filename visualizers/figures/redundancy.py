"""Whether a video's drafts pass more often where it stays as it was in the latent frame before."""

from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from traces.schema import Trace
from traces.video import Kept, kept_by_change
from visualizers.figure import Figure, Traces, grouped, missing
from visualizers.style import hatched, series

GROUPS: Final = ("the same token", "another token")
_PATTERNS: Final = ("", "/", "x", ".", "-", "+")
MOST_GROUPS: Final = len(_PATTERNS)
FEWEST: Final = 2
"""Judged drafts on either side; of fewer there is no error to speak of."""


def pooled(traces: Sequence[Trace]) -> tuple[Kept, Kept]:
    """Judged drafts of several runs together, where the token stays and where it changes."""
    found = [kept_by_change(trace) for trace in traces]
    same, other = (
        Kept(sum(kept[side].judged for kept in found), sum(kept[side].accepted for kept in found)) for side in (0, 1)
    )
    return same, other


def _tells(trace: Trace) -> bool:
    return all(kept.judged >= FEWEST for kept in kept_by_change(trace))


def _groups(traces: Traces) -> Mapping[str, tuple[Trace, ...]]:
    return grouped([trace for trace in traces if _tells(trace)])


def _supports(traces: Traces) -> str | None:
    reason = missing(
        traces, _tells, "a video with judged drafts behind its first latent frame, some of tokens that stay"
    )
    if reason:
        return reason
    count = len(_groups(traces))
    return f"draws up to {MOST_GROUPS} groups of runs, {count} given" if count > MOST_GROUPS else None


def _draw(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for index, (label, runs) in enumerate(_groups(traces).items()):
        kept = pooled(runs)
        figure.add_bar(
            x=list(GROUPS),
            y=[side.share for side in kept],
            error_y={"array": [side.error for side in kept], "thickness": 1.5},
            name=label,
            marker={"color": series(index).color, "pattern": hatched(_PATTERNS[index])},
            text=[f"{side.share:.0%} of {side.judged:,}" for side in kept],
            textposition="inside",
            insidetextanchor="start",
            hovertemplate="%{x}: %{y:.3f} of %{text}<extra>" + label + "</extra>",
        )
    figure.update_xaxes(title_text="Against the same place in the latent frame before, the final token is")
    figure.update_yaxes(title_text="Judged drafts accepted", range=[0, 1], tickformat=".0%")
    return figure.update_layout(height=460, barmode="group", bargap=0.5, showlegend=len(figure.data) > 1)


REDUNDANCY = Figure(
    name="redundancy",
    title="Acceptance against change from the latent frame before",
    caption=(
        "Judged drafts of a video in two groups: where the final token is that of the same place in the latent frame "
        "before, and where it is another. If drafts profit from what successive frames have in common, the left bars "
        "are higher. Accepted over judged drafts; the first latent frame has none before it in the trace and is left "
        "out. Error bars are standard errors, drafts taken for independent."
    ),
    paper="",
    supports=_supports,
    drawing=_draw,
)
