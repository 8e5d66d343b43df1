"""How draft and target denoise the same tokens: their paths in a plane, and how far apart they go."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final, NamedTuple

import plotly.graph_objects as go

from traces.schema import Fate, PathPair, Trace
from visualizers.figure import Figure, Traces, grouped, panels_at
from visualizers.plot import axes, curve
from visualizers.style import NEUTRAL, Look, series

MOST_PATHS: Final = 3
"""Drafts in a panel; more paths than that are a tangle."""


class Entry(NamedTuple):
    """A judged draft with its paths."""

    step: int
    """Counted from 1."""
    position: int
    fate: Fate
    pair: PathPair


def recorded(trace: Trace) -> Iterator[Entry]:
    """Return the judged drafts of a run that have paths, in the order of their verdicts."""
    for number, step in enumerate(trace.steps, start=1):
        for position, fate, pair in zip(step.position, step.fate, step.paths or (), strict=False):
            if pair is not None:
                yield Entry(number, position, fate, pair)


def first_drafts(trace: Trace, step: int | None) -> list[Entry]:
    """Return the few drafts to draw: from the verification at `step` or before, else from the first rejection."""
    entries = list(recorded(trace))
    if step is None:
        first = next((one.step for one in entries if one.fate is not Fate.ACCEPTED), entries[0].step)
    else:
        first = max((one.step for one in entries if one.step <= step), default=entries[0].step)
    return [one for one in entries if one.step >= first][:MOST_PATHS]


def _has(trace: Trace) -> bool:
    return next(recorded(trace), None) is not None


@Figure(
    name="trajectories",
    title="Denoising paths of draft and target",
    paper="CSpD, Fig. 4",
    caption="The first 3 drafts judged from a verification on, from noise (open mark) to token (square, triangle or "
    "cross): the target's path solid, the draft's dotted. With the same noise both start at one point. Two directions "
    "are shown, the same for every token and run.",
    needs=_has,
    needed="judged drafts with denoising `paths`",
    at_most="panels",
    stepped=True,
)
def _trajectories(traces: Traces, step: int | None) -> go.Figure:
    chosen = [first_drafts(trace, step) for trace in traces]
    figure, start = panels_at(traces, [drafts[0].step for drafts in chosen])
    positions = sorted({draft.position for drafts in chosen for draft in drafts})
    looks = {position: (series(i).color, _STARTS[i % len(_STARTS)]) for i, position in enumerate(positions)}
    for panel, drafts in enumerate(chosen, start=1):
        for draft in drafts:
            for path in ("target", "draft"):
                figure.add_trace(_path(draft, path, *looks[draft.position]), row=1, col=panel)
        figure.update_yaxes(scaleanchor=f"x{panel}" if panel > 1 else "x", row=1, col=panel)
    entries = [(f"position {at}, start (x_T)", color, "", symbol) for at, (color, symbol) in looks.items()]
    for name, color, dash, symbol in (*entries, *((name, NEUTRAL, *look) for name, look in _LOOKS.items())):
        marker = {"color": color, "symbol": symbol, "size": 10, "line": {"width": 0 if dash else 2}}
        line, mode = {"color": color, "dash": dash or "solid", "width": 2}, "lines+markers" if dash else "markers"
        figure.add_scatter(x=[None], y=[None], name=name, mode=mode, line=line, marker=marker, hoverinfo="skip")
    axes(figure, "Along (1, 1, 1 ...)", "Along (1, -1, 1 ...)", height=600 if len(traces) == 1 else 520)
    points = [point for drafts in chosen for draft in drafts for point in (*draft.pair.draft, *draft.pair.target)]
    for axis, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        low, high = min(point[axis] for point in points), max(point[axis] for point in points)
        margin = 0.06 * (high - low) + 0.01
        update(range=[low - margin, high + margin], rangemode="normal", zeroline=False, constrain="domain")
    if len(traces) == 1:
        figure.update_layout(title_text=f"Denoising paths of draft and target from {start} on")
    return figure


_LOOKS: Final = {
    "target": ("solid", "square"),
    "draft, accepted": ("dot", "triangle-up"),
    "draft, rejected": ("dot", "x"),
}
"""What is drawn the same way for every draft: dash of the line, mark of its end."""
_STARTS: Final = ("circle-open", "diamond-open", "pentagon-open", "hexagram-open", "square-open")


def _path(draft: Entry, path: str, color: str, start: str) -> go.Scatter:
    """Return one of the two paths of a draft in a colour, from a symbol of its own on."""
    verdict = "accepted" if draft.fate is Fate.ACCEPTED else "rejected"
    dash, end = _LOOKS["target" if path == "target" else f"draft, {verdict}"]
    points = draft.pair.target if path == "target" else draft.pair.draft
    last = len(points) - 1
    between = last - 1
    marker: Look = {"color": color, "opacity": 1, "symbol": [start, *["circle"] * between, end]}
    marker |= {"size": [12, *[3] * between, 11], "line": {"width": [2, *[0] * between, 1]}}
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        customdata=[[last - i, squared] for i, squared in enumerate(draft.pair.distance_squared)],
        mode="lines+markers",
        name=f"position {draft.position}, {path}",
        showlegend=False,
        line={"color": color, "dash": dash, "width": 2},
        marker=marker,
        hovertemplate=f"position {draft.position}, {path}<br>after step %{{pointNumber}}, x_%{{customdata[0]}}<br>"
        f"squared distance %{{customdata[1]:.3g}}<extra>{verdict}</extra>",
    )


@Figure(
    name="divergence",
    title="Distance of draft and target along denoising",
    paper="CSpD, Fig. 4 and Table 4 (distance), step by step",
    caption="Squared distance of the draft's state and the target's after each denoising step, over all components, as "
    "a mean over judged drafts. Aligned paths start at distance 0, which a logarithmic axis cannot show.",
    needs=_has,
    needed="judged drafts with denoising `paths`",
    at_most="groups",
)
def _divergence(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped(traces).items()):
        drafts = [one.pair.distance_squared for trace in runs for one in recorded(trace)]
        distances = [fmean(column) for column in zip(*drafts, strict=True)]  # at x_T ... x_0
        label = f"{name}: ends {distances[-1]:.3g} apart, {len(drafts)} drafts"
        points = list(range(len(distances))), [distance or None for distance in distances]  # 0 has no logarithm
        hover = "after step %{x}<br>mean squared distance %{y:.3g}<extra></extra>"
        curve(figure, i, label, points, hover, marker=series(i).marker(6))
    axes(figure, "Denoising step (0: noise)", "Mean squared distance")
    return figure.update_yaxes(type="log", exponentformat="power")
