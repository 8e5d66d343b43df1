"""Gains of drafting in passes and time, and shares of the time, as measured by a benchmark."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.break_even import acceptance_for
from draftscope.analysis.timings import Timing, Timings, Windows, read_timings, read_windows
from draftscope.visualizers.figure import FileFigure
from draftscope.visualizers.plot import (
    add_level_line,
    axes,
    bars,
    curve,
    dots,
    error_bars,
    in_panel,
    plain,
    side_by_side,
)
from draftscope.visualizers.style import Look, series

PARTS: Final = {
    "share_draft": "draft's network",
    "share_target": "target's network",
    "share_head": "heads of both",
    "share_deciding": "verification, replacements, the rest",
}
_DASHES: Final = ("solid", "dot", "dash", "dashdot")
_POINTS: Final = 60
_WIDEST: Final = 0.5
"""The draft cost at which the axis of `break-even` ends, unless a point lies beyond."""
_of_timings: Final = partial(FileFigure, benchmark="continuous", column="gamma", read=read_timings)


@FileFigure(
    name="windows",
    title="Passes and time by window, video and pictures",
    paper="SCD, Tables 1 and 2, Fig. 10",
    caption="Left: forward passes of ordinary decoding over those of SJD (drafts not coupled), MC-SJD (maximal "
    "coupling) and GS-SJD (Gumbel coupling). Right: the same with processor seconds of one thread. Bars are standard "
    "errors over clips and pictures.",
    benchmark="video",
    column="window",
    read=read_windows,
)
def _windows(measured: Windows) -> go.Figure:
    figure = side_by_side(["Forward passes", "Time"], horizontal_spacing=0.11)
    decoders = list(dict.fromkeys(row.decoder for row in measured.rows))
    for i, kind in enumerate(dict.fromkeys(row.kind for row in measured.rows)):
        for k, decoder in enumerate(decoders):
            rows = sorted((r for r in measured.rows if (r.kind, r.decoder) == (kind, decoder)), key=lambda r: r.window)
            look = series(k)
            shared = {
                "legendgroup": f"{kind} {decoder}",
                "line": {**look.line, "dash": _DASHES[i % len(_DASHES)]},
                "marker": {**look.marker(9), "symbol": look.symbol + ("-open" if i else "")},
            }
            for column, name in enumerate(("nfe_ratio", "time_ratio"), 1):
                points = [row.window for row in rows], [getattr(row, name) for row in rows]
                error = [getattr(row, f"{name}_error") for row in rows]
                placement: Look = {"showlegend": column == 1 and bool(rows), "row": 1, "col": column}
                label = plain(f"{decoder}, {kind}")
                curve(figure, k, label, points, "L %{x}: %{y:.2f} ×", **error_bars(error), **shared, **placement)
    add_level_line(figure, 1)
    y = "Times fewer than ordinary decoding", "Times as fast as ordinary decoding"
    axes(figure, "Window L (tokens)", *y, height=460, title_subtitle_text=plain(measured.title))
    return figure.update_xaxes(type="log", tickvals=sorted({row.window for row in measured.rows}))


def _by_kind(timings: Timings) -> dict[str, Sequence[Timing]]:
    """Return rows that differ in gamma alone, by batch, drafter and verdict in words."""
    kinds = list(dict.fromkeys((row.batch, row.way) for row in timings.rows))
    ordered = sorted(timings.rows, key=lambda row: row.gamma)
    return {
        plain(f"batch {batch}" + (f", {way}" if way else "")): [r for r in ordered if (r.batch, r.way) == (batch, way)]
        for batch, way in sorted(kinds, key=lambda kind: kind[0])
    }


@_of_timings(
    name="speed-up",
    title="Speed by draft length and batch",
    paper="CSpD, Tables 1 and 2; Eq. 51",
    caption="Left: speed-up over the baseline of the same batch, wall clock, median of pairs measured alternately, "
    "with quartiles. Right: tokens that a verification yields, as counted (filled), and as expected if every draft "
    "were accepted with the measured rate α, (1 − α^(γ+1)) / (1 − α) (open).",
)
def _speed_up(timings: Timings) -> go.Figure:
    figure = side_by_side(["Speed", "Tokens"], horizontal_spacing=0.11)
    for i, (kind, rows) in enumerate(_by_kind(timings).items()):
        look, gammas = series(i), [row.gamma for row in rows]
        quartiles: Look = {"symmetric": False, "thickness": 1.2}
        quartiles["array"] = [row.faster_high_quartile - row.faster_median for row in rows]
        quartiles["arrayminus"] = [row.faster_median - row.faster_low_quartile for row in rows]
        placement: Look = {"legendgroup": kind, "row": 1, "col": 1}
        points = gammas, [row.faster_median for row in rows]
        curve(figure, i, kind, points, "γ %{x}: %{y:.2f} × as fast", error_y=quartiles, **placement)
        placement["col"] = 2
        hover = "γ %{x}: %{y:.2f} tokens a verification"
        points = gammas, [row.tokens_per_verification for row in rows]
        curve(figure, i, kind, points, hover, showlegend=False, **placement)
        open_marks = {**look.marker(9), "symbol": f"{look.symbol}-open"}
        points = gammas, [row.tokens_expected for row in rows]
        thin: Look = {"line": {**look.line, "width": 1}, "marker": open_marks}
        curve(figure, i, f"{kind}, expected", points, hover, **thin, **placement)
    add_level_line(figure, 1, row=1, col=1)
    y = "Times as fast as ordinary decoding", "Tokens per verification"
    axes(figure, "Draft length γ (tokens)", *y, height=460, title_subtitle_text=plain(timings.title))
    return figure.update_xaxes(type="log", tickvals=sorted({row.gamma for row in timings.rows}))


@_of_timings(
    name="time-shares",
    title="Where the time of drafting goes",
    paper="CSpD, Table 8",
    caption="Shares of the time of a recorded run: the two networks, the heads that denoise tokens, and the rest, "
    "mostly verifying drafts and sampling replacements.",
)
def _shares(timings: Timings) -> go.Figure:
    figure = go.Figure()
    kinds = _by_kind(timings)
    rows = [(kind, row) for kind, each in kinds.items() for row in each]
    settings = [f"γ {row.gamma}" + (f", {kind}" if len(kinds) > 1 else "") for kind, row in rows]
    for i, (name, part) in enumerate(PARTS.items()):
        points = [100 * getattr(row, name) for _, row in rows], settings
        bars(figure, i, part, points, f"%{{y}}: %{{x:.1f}} % {part}<extra></extra>", orientation="h")
    more: Look = {"barmode": "stack", "title_subtitle_text": plain(timings.title)}
    axes(figure, "Share of the time (%)", "Setting", height=220 + 36 * len(rows), **more)
    return figure.update_xaxes(range=[0, 100]).update_yaxes(autorange="reversed")


@_of_timings(
    name="break-even",
    title="What a draft may cost",
    paper="CSpD, Eq. 51",
    caption="Lines: the acceptance rate α at which drafting is as fast as ordinary decoding, given the cost c of a "
    "draft, from (1 − α^(γ+1)) / (1 − α) = v + γ c with the measured cost v of a verification; above a line it is "
    "faster. Points: what was measured in the smallest batch, a panel for each drafter and verdict. Costs are in "
    "tokens of ordinary decoding.",
)
def _break_even(timings: Timings) -> go.Figure:
    rows = [row for row in timings.rows if row.costed]
    if not rows:
        problem = "These rows do not report the cost of a draft; measure again with benchmarks.continuous."
        return go.Figure().add_annotation(text=problem, showarrow=False)
    batch = min(row.batch for row in rows)
    rows = [row for row in rows if row.batch == batch]
    ways = list(dict.fromkeys(row.way for row in rows))
    figure = side_by_side([plain(way) for way in ways], horizontal_spacing=0.05, shared_yaxes=True)
    widest = max(_WIDEST, *(1.1 * row.draft_cost for row in rows))
    gammas = sorted({row.gamma for row in rows})
    for row in rows:
        gamma, panel = row.gamma, ways.index(row.way) + 1
        i = gammas.index(gamma)
        placement = in_panel(panel, i) | {"showlegend": next(r for r in rows if r.gamma == gamma) is row}
        costs = [widest * k / _POINTS for k in range(_POINTS + 1)]
        needed = [(cost, acceptance_for(row.verify_cost + gamma * cost, gamma)) for cost in costs]
        points = [cost for cost, rate in needed if rate is not None], [rate for _, rate in needed if rate is not None]
        hover = f"γ {gamma}: a draft of cost %{{x:.2f}} is faster above %{{y:.2f}}<extra></extra>"
        curve(figure, i, f"γ {gamma}, break-even", points, hover, **placement, mode="lines")
        hover = f"γ {gamma}: acceptance %{{y:.2f}}, %{{customdata:.2f}} × as fast<extra></extra>"
        points = [row.draft_cost], [row.acceptance]
        dots(figure, i, f"γ {gamma}, measured", points, hover, **placement, customdata=[row.faster_median])
    title = f"{timings.title}, batch {batch}"
    axes(
        figure,
        "Cost of a draft (tokens of ordinary decoding)",
        "Drafts accepted (share)",
        height=520,
        bounds=(0, 1),
        title_subtitle_text=plain(title),
    )
    return figure.update_xaxes(range=[0, widest])
