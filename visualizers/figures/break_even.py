"""When drafting pays: the speed that Eq. 51 of CSpD gives, over the cost of a draft and the acceptance rate."""

import statistics
from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from traces.paying import acceptance_for
from traces.timings import Timing, Timings, read_timings
from visualizers.figure import FileFigure, plain
from visualizers.style import series

_POINTS: Final = 60
_WIDEST: Final = 1.2
"""The draft cost at which the axis ends, unless a point lies beyond."""


def _draw(timings: Timings) -> go.Figure:
    figure = go.Figure()
    rows = [row for row in timings.rows if row.costed]
    if not rows:
        return figure.add_annotation(
            text="These rows do not say what a draft costs; measure anew.", showarrow=False
        ).update_layout(title_subtitle_text=plain(timings.title))
    widest = max(_WIDEST, *(1.1 * row.draft_cost for row in rows))
    for i, gamma in enumerate(sorted({row.gamma for row in rows})):
        own = [row for row in rows if row.gamma == gamma]
        look, verify = series(i), statistics.median(row.verify_cost for row in own)
        cost = [widest * k / _POINTS for k in range(_POINTS + 1)]
        needed = [acceptance_for(verify + gamma * each, gamma) for each in cost]
        figure.add_scatter(
            x=[each for each, a in zip(cost, needed, strict=True) if a is not None],
            y=[a for a in needed if a is not None],
            mode="lines",
            name=f"γ {gamma}, break-even",
            line=look.line,
            hovertemplate=f"γ {gamma}: a draft that costs %{{x:.2f}} pays above %{{y:.2f}}<extra></extra>",
        )
        figure.add_scatter(
            x=[row.draft_cost for row in own],
            y=[row.acceptance for row in own],
            mode="markers+text",
            text=[row.way or f"batch {row.batch}" for row in own],
            textposition="top center",
            name=f"γ {gamma}, measured",
            marker=look.marker(10),
            customdata=_beside(own),
            hovertemplate="%{text}, batch %{customdata[0]}: acceptance %{y:.2f}, %{customdata[1]:.2f} × as fast"
            "<extra></extra>",
        )
    figure.update_xaxes(title_text="Cost of a draft (tokens of ordinary decoding)", range=[0, widest])
    figure.update_yaxes(title_text="Acceptance rate of judged drafts", range=[0, 1])
    return figure.update_layout(height=520, showlegend=True, title_subtitle_text=plain(timings.title))


def _beside(rows: Sequence[Timing]) -> list[tuple[int, float]]:
    return [(row.batch, row.faster_median) for row in rows]


BREAK_EVEN: Final[FileFigure[Timings]] = FileFigure(
    name="break-even",
    title="What a draft may cost",
    caption=(
        "Lines: the acceptance rate α at which drafting is as fast as ordinary decoding, given the cost c of a draft, "
        "from (1 − α^(γ+1)) / (1 − α) = v + γ c with the cost v of a verification as measured; above a line it pays. "
        "Points: what was measured, by drafter and verdict. Costs are in tokens of ordinary decoding."
    ),
    paper="CSpD, Eq. 51",
    drawing=_draw,
    benchmark="continuous",
    column="gamma",
    read=read_timings,
)
