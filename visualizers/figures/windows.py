"""How far passes and time fall as the window grows, for everything that was decoded, on one axis."""

from typing import Final

import plotly.graph_objects as go

from traces.windows import Windows, read_windows
from visualizers.figure import FileFigure, plain, side_by_side
from visualizers.style import NEUTRAL, series

_PANELS: Final = {"nfe_ratio": "Forward passes", "time_ratio": "Time"}
_DASHES: Final = ("solid", "dot", "dash", "dashdot")


def _windows(measured: Windows) -> go.Figure:
    figure = side_by_side(list(_PANELS.values()), horizontal_spacing=0.11)
    kinds = list(dict.fromkeys(row.kind for row in measured.rows))
    decoders = list(dict.fromkeys(row.decoder for row in measured.rows))
    for i, kind in enumerate(kinds):
        for k, decoder in enumerate(decoders):
            rows = sorted((r for r in measured.rows if (r.kind, r.decoder) == (kind, decoder)), key=lambda r: r.window)
            look = series(k)
            for column, name in enumerate(_PANELS, 1):
                figure.add_scatter(
                    x=[row.window for row in rows],
                    y=[getattr(row, name) for row in rows],
                    error_y={"array": [getattr(row, f"{name}_error") for row in rows], "thickness": 1.2},
                    mode="lines+markers",
                    name=plain(f"{decoder}, {kind}"),
                    legendgroup=f"{kind} {decoder}",
                    showlegend=column == 1 and bool(rows),
                    line={**look.line, "dash": _DASHES[i % len(_DASHES)]},
                    marker={**look.marker(9), "symbol": look.symbol + ("-open" if i else "")},
                    hovertemplate="L %{x}: %{y:.2f} ×",
                    row=1,
                    col=column,
                )
    figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    figure.update_xaxes(title_text="Window L", type="log", tickvals=sorted({row.window for row in measured.rows}))
    figure.update_yaxes(title_text="Times fewer than ordinary decoding", rangemode="tozero", col=1)
    figure.update_yaxes(title_text="Times as fast as ordinary decoding", rangemode="tozero", col=2)
    return figure.update_layout(height=460, showlegend=True, title_subtitle_text=plain(measured.title))


WINDOWS: Final[FileFigure[Windows]] = FileFigure(
    name="windows",
    title="Passes and time by window, video and pictures",
    caption=(
        "Left: forward passes of ordinary decoding over those of SJD (drafts not coupled), MC-SJD (maximal coupling) "
        "and GS-SJD (Gumbel coupling). Right: the same with processor seconds of one thread. Bars are standard errors "
        "over clips and pictures. In a video much stays as it was a moment ago, so coupled drafts settle and a longer "
        "window pays; without coupling it does not."
    ),
    paper="SCD, Tables 1 and 2, Fig. 10",
    drawing=_windows,
    benchmark="video",
    column="window",
    read=read_windows,
)
