"""What drafting gains in time, and where the time goes, from timings."""

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from traces.timings import Timing, Timings, read_timings
from visualizers.figure import FileFigure, plain, side_by_side
from visualizers.style import NEUTRAL, hatched, series

PARTS: Final = {
    "share_draft": "draft's network",
    "share_target": "target's network",
    "share_head": "heads of both",
    "share_deciding": "judging, replacing, the rest",
}
PATTERNS: Final = ("", "/", ".", "x")


def _by_kind(timings: Timings) -> dict[str, Sequence[Timing]]:
    """Rows that differ in gamma alone, by batch, drafter and verdict in words."""
    kinds = list(dict.fromkeys((row.batch, row.way) for row in timings.rows))
    ordered = sorted(timings.rows, key=lambda row: row.gamma)
    return {
        plain(f"batch {batch}" + (f", {way}" if way else "")): [r for r in ordered if (r.batch, r.way) == (batch, way)]
        for batch, way in sorted(kinds, key=lambda kind: kind[0])
    }


def _speed_up(timings: Timings) -> go.Figure:
    figure = side_by_side(["Speed", "Tokens"], horizontal_spacing=0.11)
    for i, (kind, rows) in enumerate(_by_kind(timings).items()):
        look, gammas = series(i), [row.gamma for row in rows]
        shared = {"x": gammas, "mode": "lines+markers", "legendgroup": kind}
        faster = [row.faster_median for row in rows]
        figure.add_scatter(
            **shared,
            y=faster,
            error_y={
                "symmetric": False,
                "array": [row.faster_high_quartile - row.faster_median for row in rows],
                "arrayminus": [row.faster_median - row.faster_low_quartile for row in rows],
                "thickness": 1.2,
            },
            name=kind,
            line=look.line,
            marker=look.marker(9),
            hovertemplate="γ %{x}: %{y:.2f} × as fast",
            row=1,
            col=1,
        )
        for name, open_ in (("tokens_per_verification", ""), ("tokens_expected", "-open")):
            figure.add_scatter(
                **shared,
                y=[getattr(row, name) for row in rows],
                name=f"{kind}, expected" if open_ else kind,
                showlegend=bool(open_),
                line={**look.line, "width": 1 if open_ else 2},
                marker={**look.marker(9), "symbol": look.symbol + open_},
                hovertemplate="γ %{x}: %{y:.2f} tokens a verification",
                row=1,
                col=2,
            )
    figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5}, row=1, col=1)
    figure.update_xaxes(title_text="Draft length γ", type="log", tickvals=sorted({row.gamma for row in timings.rows}))
    figure.update_yaxes(title_text="Times as fast as ordinary decoding", rangemode="tozero", col=1)
    figure.update_yaxes(title_text="Tokens per verification", rangemode="tozero", col=2)
    return figure.update_layout(height=460, showlegend=True, title_subtitle_text=plain(timings.title))


def _shares(timings: Timings) -> go.Figure:
    figure = go.Figure()
    kinds = _by_kind(timings)
    rows = [row for each in kinds.values() for row in each]
    places = [
        f"γ {row.gamma}" + (f", {kind}" if len(kinds) > 1 else "") for kind, each in kinds.items() for row in each
    ]
    for i, (name, said) in enumerate(PARTS.items()):
        figure.add_bar(
            x=[100 * getattr(row, name) for row in rows],
            y=places,
            orientation="h",
            name=said,
            marker={"color": series(i).color, "pattern": hatched(PATTERNS[i])},
            hovertemplate=f"%{{y}}: %{{x:.1f}} % {said}<extra></extra>",
        )
    figure.update_xaxes(title_text="Share of the time (%)", range=[0, 100])
    figure.update_yaxes(title_text="Setting", autorange="reversed")
    height = 220 + 36 * len(rows)
    return figure.update_layout(
        height=height, barmode="stack", showlegend=True, title_subtitle_text=plain(timings.title)
    )


SPEED_UP: Final[FileFigure[Timings]] = FileFigure(
    name="speed-up",
    title="Speed by draft length and batch",
    caption=(
        "Left: how many times as fast as ordinary decoding of the same batch, wall clock, median of pairs measured in "
        "turns with quartiles. Right: tokens that a verification yields, as counted (filled), and as expected if every "
        "draft passed with the measured rate α, (1 − α^(γ+1)) / (1 − α) (open). More tokens make a run faster only as "
        "far as drafts are cheap."
    ),
    paper="CSpD, Tables 1 and 2; Eq. 51",
    drawing=_speed_up,
    benchmark="continuous",
    column="gamma",
    read=read_timings,
)

SHARES: Final[FileFigure[Timings]] = FileFigure(
    name="time-shares",
    title="Where the time of drafting goes",
    caption=(
        "Shares of the time of a recorded run: the two networks, the heads that denoise tokens, and all else, which "
        "is mostly judging drafts and drawing replacements by acceptance and rejection."
    ),
    paper="CSpD, Table 8",
    drawing=_shares,
    benchmark="continuous",
    column="gamma",
    read=read_timings,
)
