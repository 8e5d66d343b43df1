"""How draft and target denoise the same tokens: their paths in a plane, and how far apart they go."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import plotly.graph_objects as go

from traces.schema import Fate, PathPair, Trace
from visualizers.figure import Figure, Traces, grouped, labels, missing, side_by_side, too_many
from visualizers.style import NEUTRAL, series

MOST_PATHS: Final = 3
"""Drafts in a panel; more paths than that are a tangle."""
MOST_GROUPS: Final = 6


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


def shown(trace: Trace, step: int | None) -> list[Entry]:
    """Return the few drafts to draw: from the verification at `step` or before, else from the first rejection."""
    found = list(recorded(trace))
    if step is None:
        first = next((one.step for one in found if one.fate is not Fate.ACCEPTED), found[0].step)
    else:
        first = max((one.step for one in found if one.step <= step), default=found[0].step)
    return [one for one in found if one.step >= first][:MOST_PATHS]


def mean_distances(runs: Sequence[Trace]) -> list[float]:
    """Return the mean squared distance of draft and target over the judged drafts of runs, at x_T ... x_0."""
    columns = zip(*(one.pair.distance_squared for trace in runs for one in recorded(trace)), strict=True)
    return [sum(column) / len(column) for column in columns]


def _has(trace: Trace) -> bool:
    return next(recorded(trace), None) is not None


def _paths(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    chosen = [shown(trace, step) for trace in drawn]
    when = [
        f"from forward pass {drafts[0].step} of {len(trace.steps)} on"
        for drafts, trace in zip(chosen, drawn, strict=True)
    ]
    figure = side_by_side([f"{name}<br>{on}" for name, on in zip(labels(drawn), when, strict=True)])
    positions = sorted({draft.position for drafts in chosen for draft in drafts})
    looks = {position: (series(i).color, _STARTS[i % len(_STARTS)]) for i, position in enumerate(positions)}
    for panel, drafts in enumerate(chosen, start=1):
        for draft in drafts:
            _pair(figure, draft, looks[draft.position], panel)
        figure.update_yaxes(scaleanchor=f"x{panel}" if panel > 1 else "x", row=1, col=panel)
    for position, (color, symbol) in looks.items():
        _key(figure, f"position {position}, start (x_T)", color, None, symbol)
    for name, dash, symbol in _KEY:
        _key(figure, name, NEUTRAL, dash, symbol)
    points = [point for drafts in chosen for draft in drafts for point in (*draft.pair.draft, *draft.pair.target)]
    for axis, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        low, high = min(point[axis] for point in points), max(point[axis] for point in points)
        margin = 0.06 * (high - low) + 0.01
        update(range=[low - margin, high + margin], zeroline=False, constrain="domain")
    figure.update_xaxes(title_text="Along (1, 1, 1 ...)")
    figure.update_yaxes(title_text="Along (1, -1, 1 ...)", col=1)
    if len(drawn) == 1:
        figure.update_layout(title_text=f"Denoising paths of draft and target, {when[0]}")
    return figure.update_layout(height=600 if len(drawn) == 1 else 520, showlegend=True)


_KEY: Final = (
    ("target", "solid", "square"),
    ("draft, kept", "dot", "triangle-up"),
    ("draft, rejected", "dot", "x"),
)
"""What is drawn the same way for every draft: dash of the line, mark of its end."""
_STARTS: Final = ("circle-open", "diamond-open", "pentagon-open", "hexagram-open", "square-open")


def _key(figure: go.Figure, name: str, color: str, dash: str | None, symbol: str) -> None:
    """Name a look in the legend."""
    figure.add_scatter(
        x=[None],
        y=[None],
        name=name,
        mode="lines+markers" if dash else "markers",
        line={"color": color, "dash": dash or "solid", "width": 2},
        marker={"color": color, "symbol": symbol, "size": 10, "line": {"width": 0 if dash else 2}},
        hoverinfo="skip",
    )


def _pair(figure: go.Figure, draft: Entry, look: tuple[str, str], panel: int) -> None:
    """Draw both paths in a colour, from a symbol of their own on."""
    color, start = look
    kept = draft.fate is Fate.ACCEPTED
    ways = (
        ("target", draft.pair.target, "solid", "square"),
        ("draft", draft.pair.draft, "dot", "triangle-up" if kept else "x"),
    )
    for name, points, dash, symbol in ways:
        last = len(points) - 1
        figure.add_scatter(
            x=[x for x, _ in points],
            y=[y for _, y in points],
            customdata=[[last - i, squared] for i, squared in enumerate(draft.pair.distance_squared)],
            mode="lines+markers",
            name=f"position {draft.position}, {name}",
            showlegend=False,
            line={"color": color, "dash": dash, "width": 2},
            marker={
                "color": color,
                "opacity": 1,
                "symbol": [start, *["circle"] * (last - 1), symbol],
                "size": [12, *[3] * (last - 1), 11],
                "line": {"width": [2, *[0] * (last - 1), 1]},
            },
            hovertemplate=f"position {draft.position}, {name}<br>after step %{{pointNumber}}, x_%{{customdata[0]}}<br>"
            f"squared distance %{{customdata[1]:.3g}}<extra>{'kept' if kept else 'rejected'}</extra>",
            row=1,
            col=panel,
        )


def _apart(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _has(trace)]).items()):
        means = mean_distances(runs)
        count = sum(1 for trace in runs for _ in recorded(trace))
        look = series(i)
        figure.add_scatter(
            x=list(range(len(means))),
            y=[mean or None for mean in means],
            name=f"{name}: ends {means[-1]:.3g} apart, {count} drafts",
            **look.curve(6),
            hovertemplate="after step %{x}<br>mean squared distance %{y:.3g}<extra></extra>",
        )
    figure.update_xaxes(title_text="Denoising step (0: noise)")
    figure.update_yaxes(title_text="Mean squared distance", type="log", exponentformat="power")
    return figure.update_layout(height=440, showlegend=True)


def _few(traces: Traces) -> str | None:
    groups = len(grouped([trace for trace in traces if _has(trace)]))
    return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None


_NEEDED: Final = "judged drafts with denoising `paths`"

TRAJECTORIES = Figure(
    name="trajectories",
    title="Denoising paths of draft and target",
    caption=(
        f"How the first {MOST_PATHS} drafts that were judged from a verification on came to be, from noise (open mark) "
        "to token (square, triangle or cross), the target's path solid, the draft's dotted. With the same noise both "
        "start at one point and stay together; with noise of their own they end apart. Two directions are shown, the "
        "same for every token and run; what lies across them is not seen. The verification is the last one up to the "
        "given step, or the first with a rejection when no step is given."
    ),
    paper="CSpD, Fig. 4",
    supports=lambda traces: missing(traces, _has, _NEEDED) or too_many(traces, _has),
    drawing=_paths,
    stepped=True,
)

DIVERGENCE = Figure(
    name="divergence",
    title="How far draft and target lie apart along denoising",
    caption=(
        "Squared distance of the draft's state and the target's after each denoising step, over all components, as a "
        "mean over judged drafts. Aligned paths start from the same noise, at distance 0, which a logarithmic axis "
        "cannot show; paths that are not aligned start as far apart as two draws of noise. Where steps are tied, most "
        "paths meet and the rest jump; where whole paths are judged, both are the same until the target leaves. Runs "
        "that differ in seed or prompt alone are taken together."
    ),
    paper="CSpD, Fig. 4 and Table 4 (distance), step by step",
    supports=lambda traces: missing(traces, _has, _NEEDED) or _few(traces),
    drawing=_apart,
)
