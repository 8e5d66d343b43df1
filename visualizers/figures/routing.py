"""Routing: whether to verify, what was expected of it, and what it brought."""

from typing import Final

import plotly.graph_objects as go

from traces.measures import MEASURES
from traces.schema import Trace
from traces.text_stats import RouterDecision, decisions, estimator_errors
from visualizers.figure import Figure, Traces, grouped, labels, missing, side_by_side, too_many
from visualizers.palette import BLUE, VERMILLION
from visualizers.style import NEUTRAL, series, translucent

MOST_GROUPS: Final = 6
"""Groups of runs whose errors stay readable side by side."""
STRIP: Final = -0.9
"""Where the decision stands, below the drafts."""


def _has(trace: Trace) -> bool:
    return any(one.score is not None or one.expected is not None for one in decisions(trace.steps))


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    figure = side_by_side(labels(drawn), shared_yaxes=True, horizontal_spacing=0.05)
    named: set[str] = set()
    for panel, trace in enumerate(drawn, start=1):
        for mark in _marks(decisions(trace.steps)):
            mark.update(legendgroup=mark.name, showlegend=mark.name not in named)
            named.add(mark.name)
            figure.add_trace(mark, row=1, col=panel)
    figure.update_xaxes(title_text="Forward pass")
    figure.update_yaxes(title_text="Drafts (tokens)", col=1)
    return figure.update_layout(height=480, showlegend=True)


def _marks(found: tuple[RouterDecision, ...]) -> list[go.Scatter | go.Bar]:
    """Return the marks of one run, spans first so that they lie behind."""
    spans = [one for one in found if one.span is not None]
    expected = [one for one in found if one.expected is not None]
    accepted = [one for one in found if one.accepted is not None]
    scores = [one for one in found if one.score is not None]
    bars = go.Bar(
        x=[one.step + 1 for one in spans],
        y=[one.span for one in spans],
        name="span that may be verified",
        marker={"color": translucent(NEUTRAL, 0.3)},
        hovertemplate="pass %{x}: span of %{y}",
    )
    guesses = _dots(
        expected, "expected", "drafts expected to pass", {"color": BLUE, "symbol": "circle-open", "size": 8}
    )
    guesses.marker.line = {"width": 2}
    verdicts = _dots(accepted, "accepted", "drafts accepted", {"color": VERMILLION, "symbol": "square", "size": 8})
    curve = go.Scatter(
        x=[one.step + 1 for one in scores],
        y=[one.score for one in scores],
        mode="lines",
        name="score: expected less the cost of verifying",
        line={"color": NEUTRAL, "dash": "dash", "width": 1.5},
        hovertemplate="pass %{x}: score %{y:.2f}",
    )
    return [bars, curve, guesses, verdicts, *_choices(found)]


def _dots(found: list[RouterDecision], field: str, name: str, marker: dict[str, object]) -> go.Scatter:
    return go.Scatter(
        x=[one.step + 1 for one in found],
        y=[getattr(one, field) for one in found],
        mode="markers",
        name=name,
        marker=marker,
        hovertemplate="pass %{x}: %{y:.3~g} " + name,
    )


def _choices(found: tuple[RouterDecision, ...]) -> list[go.Scatter]:
    marks = []
    kinds = ((True, "the router verifies", "triangle-up"), (False, "it leaves the pass to confidence", "line-ew-open"))
    for chosen, name, symbol in kinds:
        here = [one for one in found if one.verify is chosen]
        lowest = min([STRIP, *(one.score - 0.6 for one in found if one.score is not None)])
        marks.append(
            go.Scatter(
                x=[one.step + 1 for one in here],
                y=[lowest] * len(here),
                mode="markers",
                name=name,
                marker={"color": NEUTRAL, "symbol": symbol, "size": 9, "line": {"width": 2, "color": NEUTRAL}},
                hovertemplate="pass %{x}: " + name,
            )
        )
    return [mark for mark in marks if mark.x]


def _estimated(trace: Trace) -> bool:
    return bool(estimator_errors([trace.steps]))


def _errors(traces: Traces, step: int | None) -> go.Figure:
    groups = grouped([trace for trace in traces if _estimated(trace)])
    errors = {name: estimator_errors([trace.steps for trace in runs]) for name, runs in groups.items()}
    names = list(dict.fromkeys(row.name for rows in errors.values() for row in rows))
    figure = go.Figure()
    for i, (name, rows) in enumerate(errors.items()):
        look, shift = series(i), 0.7 * ((i + 0.5) / len(errors) - 0.5)
        figure.add_scatter(
            x=[row.mean for row in rows],
            y=[names.index(row.name) + shift for row in rows],
            error_x={"array": [row.deviation for row in rows], "thickness": 1.5, "width": 5},
            text=[f"MAE {row.mean_absolute:.2f}" for row in rows],
            customdata=[[estimator(row.name), row.deviation, row.mean_absolute, row.count] for row in rows],
            mode="markers+text",
            textposition="top center",
            textfont={"size": 11},
            name=f"{name}: mean error ± standard deviation, {max(row.count for row in rows)} verifications",
            marker=look.marker(9),
            line=look.line,
            hovertemplate="%{customdata[0]}: mean error %{x:.3f}, standard deviation %{customdata[1]:.3f}, "
            "mean absolute error %{customdata[2]:.3f}, %{customdata[3]} verifications<extra></extra>",
        )
    figure.add_vline(x=0, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    figure.update_xaxes(title_text="Expected less accepted (tokens)")
    ticks = {"tickvals": list(range(len(names))), "ticktext": [estimator(name) for name in names]}
    figure.update_yaxes(title_text="Estimator", range=[len(names) - 0.4, -0.8], zeroline=False, **ticks)
    height = 200 + len(names) * (30 + 22 * len(errors))
    return figure.update_layout(height=height, showlegend=True)


def estimator(name: str) -> str:
    """Return an estimator's name in words."""
    measure = MEASURES.get(f"expected_accepted_{name}")
    return measure.label.removeprefix("Expected, ").capitalize() if measure else "The router's own"


ROUTING = Figure(
    name="routing",
    title="Routing: what was expected, what was accepted",
    caption=(
        "At every decision the router estimates how many drafts of the first open span would pass (circles) and has "
        "the span verified (triangles) where the score says that it pays. Squares are the drafts that did pass, "
        "corrected draws not counted. Circles far from their squares are misjudged; a dash below marks a pass that "
        "left the choice to confidence."
    ),
    paper="S2D2, Fig. 1 (d), over a run",
    supports=lambda traces: missing(traces, _has, "a router's estimates or scores") or too_many(traces, _has),
    drawing=_draw,
)

ESTIMATORS = Figure(
    name="estimators",
    title="How well estimators foresee the accepted prefix",
    caption=(
        "An estimator says beforehand how many drafts will pass. Its error is that number minus the drafts that "
        "did pass, corrected draws not counted, over all passes that verified drafts. Markers are mean errors, "
        "bars one standard deviation, numbers the mean absolute error (MAE). Left of zero an estimator is too "
        "cautious, right of it too hopeful. Runs that differ in seed or prompt alone are taken together."
    ),
    paper="S2D2, Table 4",
    supports=lambda traces: (
        missing(traces, _estimated, "estimates and verified drafts")
        or (f"draws up to {MOST_GROUPS} groups of runs" if _crowded(traces) else None)
    ),
    drawing=_errors,
)


def _crowded(traces: Traces) -> bool:
    return len(grouped([trace for trace in traces if _estimated(trace)])) > MOST_GROUPS
