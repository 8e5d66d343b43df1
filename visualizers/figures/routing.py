"""Routing: whether to verify, what was expected of it, and how many drafts were accepted."""

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from draftscope.analysis.block_stats import RouterDecision, estimator_errors, router_decisions
from draftscope.traces.measures import MEASURES
from draftscope.visualizers.figure import Figure, Traces, group_runs, labels
from draftscope.visualizers.palette import BLUE, VERMILLION
from draftscope.visualizers.plot import add_once, axes, dots, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, translucent

LOWEST: Final = -0.9
"""Vertical position of the decision, below the drafts."""


@Figure(
    name="routing",
    title="Routing: what was expected, what was accepted",
    paper="S2D2, Fig. 1 (d), over a run",
    caption="At every decision the router estimates how many drafts of the first open span would be accepted (circles) "
    "and has the span verified (triangles) where the score is positive. Squares are the drafts that were accepted, "
    "corrected draws not counted.",
    accepts=lambda trace: any(
        one.score is not None or one.expected is not None for one in router_decisions(trace.steps)
    ),
    requirement="a router's estimates or scores",
    limit="panels",
)
def _routing(traces: Traces) -> go.Figure:
    figure = side_by_side(labels(traces), shared_yaxes=True, horizontal_spacing=0.05)
    for panel, trace in enumerate(traces, start=1):
        for mark in _marks(router_decisions(trace.steps)):
            add_once(figure, mark, row=1, col=panel)
    axes(figure, "Forward pass", "Drafts (tokens)", height=480)
    return figure.update_yaxes(rangemode="normal")


def _marks(decisions: Sequence[RouterDecision]) -> list[go.Scatter | go.Bar]:
    """Return the marks of one run, spans first so that they are in the background."""
    spans = [(one.step, one.span) for one in decisions if one.span is not None]
    scores = [(one.step, one.score) for one in decisions if one.score is not None]
    expected = [(one.step, one.expected) for one in decisions if one.expected is not None]
    accepted = [(one.step, one.accepted) for one in decisions if one.accepted is not None]
    dashed: Look = {"mode": "lines", "line": {"color": NEUTRAL, "dash": "dash", "width": 1.5}}
    ring = {"color": BLUE, "symbol": "circle-open", "size": 8, "line": {"width": 2}}
    square = {"color": VERMILLION, "symbol": "square", "size": 8}
    x, y = [step + 1 for step, _ in spans], [span for _, span in spans]
    hover, pale = "pass %{x}: span of %{y}", {"color": translucent(NEUTRAL, 0.3)}
    marks = [
        go.Bar(x=x, y=y, name="span that may be verified", marker=pale, hovertemplate=hover),
        _curve(scores, "score: expected less the cost of verifying", "pass %{x}: score %{y:.2f}", **dashed),
    ]
    for points, name, marker in (
        (expected, "drafts expected to be accepted", ring),
        (accepted, "drafts accepted", square),
    ):
        marks.append(_curve(points, name, f"pass %{{x}}: %{{y:.3~g}} {name}", mode="markers", marker=marker))
    lowest = min([LOWEST, *(score - 0.6 for _, score in scores)])
    for verify, name, symbol in ((True, "verify", "triangle-up"), (False, "do not verify", "line-ew-open")):
        grey = {"color": NEUTRAL, "symbol": symbol, "size": 9, "line": {"width": 2, "color": NEUTRAL}}
        points = [(one.step, lowest) for one in decisions if one.verify is verify]
        name = f"decision: {name}"
        marks.append(_curve(points, name, f"pass %{{x}}: {name}", mode="markers", marker=grey))
    return [mark for mark in marks if mark.x]


def _curve(points: Sequence[tuple[int, float]], name: str, hover: str, **look: Any) -> go.Scatter:
    x, y = [step + 1 for step, _ in points], [value for _, value in points]
    return go.Scatter(x=x, y=y, name=name, hovertemplate=hover, **look)


@Figure(
    name="estimators",
    title="How well estimators predict the accepted prefix",
    paper="S2D2, Table 4",
    caption="The error is the number of drafts an estimator expected to be accepted minus those that were, corrected "
    "draws not counted, over all passes that verified drafts. Markers are mean errors, bars one standard deviation, "
    "numbers the mean absolute error (MAE).",
    accepts=lambda trace: bool(estimator_errors([trace.steps])),
    requirement="estimates and verified drafts",
    limit="groups",
)
def _estimators(traces: Traces) -> go.Figure:
    groups = {name: estimator_errors([trace.steps for trace in runs]) for name, runs in group_runs(traces).items()}
    names = list(dict.fromkeys(row.name for rows in groups.values() for row in rows))
    figure = go.Figure()
    for i, (name, rows) in enumerate(groups.items()):
        shift = 0.7 * ((i + 0.5) / len(groups) - 0.5)
        points = [row.mean for row in rows], [names.index(row.name) + shift for row in rows]
        label = f"{name}: mean error ± standard deviation, {max(row.count for row in rows)} verifications"
        look: Look = {"mode": "markers+text", "textposition": "top center", "textfont": {"size": 11}}
        look["error_x"] = {"array": [row.deviation for row in rows], "thickness": 1.5, "width": 5}
        look["text"] = [f"MAE {row.mean_absolute:.2f}" for row in rows]
        look["customdata"] = [[estimator(row.name), row.deviation, row.mean_absolute, row.count] for row in rows]
        hover = "%{customdata[0]}: mean error %{x:.3f}, standard deviation %{customdata[1]:.3f}, "
        hover += "mean absolute error %{customdata[2]:.3f}, %{customdata[3]} verifications<extra></extra>"
        dots(figure, i, label, points, hover, **look)
    figure.add_vline(x=0, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    panel_height, bounds = len(names) * (30 + 22 * len(groups)), (len(names) - 0.4, -0.8)
    axes(figure, "Expected minus accepted drafts (tokens)", "Estimator", height=200 + panel_height, bounds=bounds)
    figure.update_layout(meta={"panel_height": panel_height})
    ticks = [estimator(name) for name in names]
    return figure.update_yaxes(zeroline=False, tickvals=list(range(len(names))), ticktext=ticks)


def estimator(name: str) -> str:
    """Return an estimator's name in words."""
    measure = MEASURES.get(f"expected_accepted_{name}")
    return measure.label.removeprefix("Expected, ").capitalize() if measure else "The router's own"
