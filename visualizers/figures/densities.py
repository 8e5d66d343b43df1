"""Drafts that are vectors: the ratios they were judged by, and how far they lie from the target's own tokens."""

from typing import Final, NamedTuple

import plotly.graph_objects as go

from traces.schema import Fate, Trace
from visualizers.figure import Figure, Traces, grouped, labels, missing, side_by_side, too_many
from visualizers.style import fate_marker, series

MOST_GROUPS: Final = 6
HIGHEST: Final = 10.0
"""Nats; what lies above is drawn at the edge, as such drafts pass in any case."""
LOWEST: Final = -30.0
NAMES: Final = {Fate.ACCEPTED: "draft kept", Fate.RESAMPLED: "draft rejected and replaced"}


class Judged(NamedTuple):
    """One verdict on a draft."""

    position: int
    fate: Fate
    value: float
    """The measure that was asked for."""
    bar: float | None
    coin: float | None
    tries: float | None


def judged(trace: Trace, measure: str) -> list[Judged]:
    """Return the verdicts of a run whose drafts have a measure."""
    found = []
    for step in trace.steps:
        empty = (None,) * len(step.position)
        columns = (
            step.numbers.get(measure, empty),
            step.accept_prob or empty,
            step.coin or empty,
            step.numbers.get("tries", empty),
        )
        for position, fate, value, *rest in zip(step.position, step.fate, *columns, strict=True):
            if fate.judged and value is not None:
                found.append(Judged(position, fate, value, *rest))
    return found


def _has(measure: str, trace: Trace) -> bool:
    return bool(judged(trace, measure))


def _ratios(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has("log_ratio", trace)]
    figure = side_by_side(labels(drawn), horizontal_spacing=0.06, shared_yaxes=True)
    for panel, trace in enumerate(drawn, start=1):
        verdicts = judged(trace, "log_ratio")
        for fate, name in NAMES.items():
            here = [one for one in verdicts if one.fate is fate]
            figure.add_scatter(
                x=[one.position for one in here],
                y=[min(HIGHEST, max(LOWEST, one.value)) for one in here],
                customdata=[(one.value, one.coin, one.tries) for one in here],
                mode="markers",
                name=name,
                legendgroup=name,
                showlegend=panel == 1,
                marker=fate_marker(fate, 8),
                hovertemplate="position %{x}<br>log ratio %{customdata[0]:.3g}<br>coin %{customdata[1]:.3f}<br>"
                "tries %{customdata[2]}<extra></extra>",
                row=1,
                col=panel,
            )
        figure.add_hline(y=0, line={"dash": "dot", "width": 1}, row=1, col=panel)
    figure.update_xaxes(title_text="Position")
    figure.update_yaxes(title_text="Log ratio (nats)", range=[LOWEST - 1, HIGHEST + 1], col=1)
    return figure.update_layout(height=440, showlegend=True)


def _distances(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([t for t in traces if _has("distance_squared", t)]).items()):
        verdicts = [one for trace in runs for one in judged(trace, "distance_squared")]
        distances = sorted(one.value for one in verdicts)
        kept = sum(one.fate is Fate.ACCEPTED for one in verdicts) / len(verdicts)
        mean = sum(distances) / len(distances)
        look = series(i)
        figure.add_scatter(
            x=distances,
            y=[100 * (rank + 1) / len(distances) for rank in range(len(distances))],
            mode="lines",
            name=f"{name}: {100 * kept:.0f} % kept, mean {mean:.3g}",
            line={**look.line, "shape": "hv"},
            hovertemplate="%{y:.0f} % of drafts lie within %{x:.3g}<extra></extra>",
        )
    figure.update_xaxes(title_text="Squared distance of draft and target's token", type="log")
    figure.update_yaxes(title_text="Share of judged drafts (%)", range=[0, 103])
    return figure.update_layout(height=440, showlegend=True)


def few(traces: Traces) -> str | None:
    """Return the reason why runs cannot be drawn in one panel when they form too many groups."""
    groups = len(grouped(traces))
    return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None


RATIOS = Figure(
    name="ratios",
    title="The ratio every draft was judged by",
    caption=(
        "Each judged draft by its ratio: how likely the target finds it over how likely the drafter did, both as "
        "densities, on a logarithmic scale. Above 0 a draft passes in any case, below with the probability that "
        "the ratio says. A wide spread means that the two distributions are narrow and hardly overlap. Ratios "
        f"beyond {HIGHEST:g} and {LOWEST:g} are drawn at the edge."
    ),
    paper="CSpD, Table 6 (likelihood ratios), draft by draft",
    supports=lambda traces: (
        missing(traces, lambda trace: _has("log_ratio", trace), "judged drafts with `log_ratio`")
        or too_many(traces, lambda trace: _has("log_ratio", trace))
    ),
    drawing=_ratios,
)

DISTANCES = Figure(
    name="distances",
    title="How far drafts lie from what the target makes of the same noise",
    caption=(
        "Share of judged drafts within a squared distance of the token that the target would have drawn there. With "
        "aligned trajectories both start from the same noise and end close to one another; the curve moves left, and "
        "more drafts are kept. The legend has the share kept and the mean. Runs that differ in seed or prompt alone "
        "are taken together."
    ),
    paper="CSpD, Table 4 (alignment), as a distribution",
    supports=lambda traces: (
        missing(traces, lambda trace: _has("distance_squared", trace), "judged drafts with `distance_squared`")
        or few(traces)
    ),
    drawing=_distances,
)
