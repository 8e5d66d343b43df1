"""Figures of sweeps: accuracy against speed, and both against one setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

import plotly.graph_objects as go

from traces.results import ResultRow, SweepError
from visualizers.boxes import Box
from visualizers.figure import plain, side_by_side, titled
from visualizers.groups import SPEEDS, Group, Speed, baseline_of, canonical, gathered, on_frontier, speeds, varied
from visualizers.style import NEUTRAL, series, themed

MOST_CURVES: Final = 12
_LETTER, _LINE = 0.0075, 0.025
"""Of what the points span: how wide a letter of a label is, and half the height of its line."""
_MARK: Final = (0.006, 0.016)
"""The same of a marker: half its width and height."""
_EDGE: Final = 0.05
"""How far beyond the outermost points a label may reach."""
_CORNERS: Final = ("top right", "top left", "bottom right", "bottom left")
_APART: Final = (0.25, 0.08)
"""Points closer than these shares of a curve's width and height have one label between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """What a reader chooses of a sweep."""

    speed: str = "tokens-per-forward"
    """A name of `visualizers.groups.SPEEDS`."""
    baseline: str | None = None
    """Label or method of the group that speed-ups are relative to; it is drawn as a star."""
    setting: str | None = None
    """The setting along the axis; by default the only one that varies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigure:
    """A figure of results instead of traces."""

    name: str
    title: str
    caption: str
    paper: str
    drawing: Callable[[Sequence[ResultRow], SweepView], go.Figure]

    def draw(self, rows: Sequence[ResultRow], view: SweepView | None = None) -> go.Figure:
        """Draw the rows.

        Raises:
            SweepError: They do not answer what the view asks for.
        """
        if not rows:
            raise SweepError("rows: there are none; give at least one result")
        view = view or SweepView()
        figure = self.drawing(rows, view)
        return themed(titled(figure, self.title, _subtitle(rows, view)), "light")


def _subtitle(rows: Sequence[ResultRow], view: SweepView) -> str:
    problems = len({row.problem for row in rows})
    relative = view.baseline is not None and view.speed in SPEEDS and SPEEDS[view.speed].relative
    against = f", speed-up against {view.baseline}" if relative else ""
    models = ", ".join(dict.fromkeys(row.model for row in rows if row.model))
    where = f" of {models}" if models else ""
    return plain(f"{len(rows)} runs{where} on {problems} problems in {len(gathered(rows))} settings{against}")


def _frontier(rows: Sequence[ResultRow], view: SweepView) -> go.Figure:
    groups = gathered(rows)
    base = baseline_of(groups, view.baseline) if view.baseline is not None else None
    every = zip(groups, speeds(groups, view.speed, view.baseline), strict=True)
    found = [(speed, group) for group, speed in every if speed is not None]
    if not found:
        raise SweepError(f"speed: the rows do not say {view.speed}; choose one of {', '.join(SPEEDS)}")
    middle = (min(speed for speed, _ in found) + max(speed for speed, _ in found)) / 2
    sign = -1 if SPEEDS[view.speed].falling else 1
    figure = go.Figure()
    for i, ((curve, model), name) in enumerate(_curve_names(groups).items()):
        points = sorted(
            (point for point in found if (point[1].curve, point[1].model) == (curve, model) and point[1] is not base),
            key=lambda point: point[0],
        )
        best = on_frontier([(sign * speed, group.accuracy) for speed, group in points])
        kept = [point for point, keep in zip(points, best, strict=True) if keep]
        others = [point for point, keep in zip(points, best, strict=True) if not keep]
        if kept:
            figure.add_trace(_curve(i, name, kept, middle))
        if others:
            figure.add_trace(_off_frontier(i, name, others))
    if base is not None:
        _mark_baseline(figure, [point for point in found if point[1] is base])
    figure.update_xaxes(title_text=_axis(SPEEDS[view.speed]))
    figure.update_yaxes(title_text="Accuracy (%)")
    _thin(figure, sign)
    return figure.update_layout(height=520, showlegend=True)


def _thin(figure: go.Figure, sign: int = 1) -> None:
    """Place labels where nothing else stands, the best settings' first; hovering says those that find no place.

    Args:
        figure: Whose curves have labels and where each would stand.
        sign: 1 where further to the right is better, -1 where it is worse.
    """
    points = [(x, y) for curve in figure.data for x, y in zip(curve.x, curve.y, strict=True)]
    wide, high = (max(max(ends) - min(ends), 1e-9) for ends in zip(*points, strict=True))
    ends = [end(x for x, _ in points) / wide for end in (min, max)]
    best = dict(zip(points, on_frontier([(sign * x, y) for x, y in points]), strict=True))
    taken = [_mark_at(x / wide, y / high) for x, y in points]
    asked = [(curve, i) for curve in figure.data for i, text in enumerate(curve.text or ()) if text]
    texts = {id(curve): [""] * len(curve.text) for curve, _ in asked}
    places = {id(curve): list(curve.textposition) for curve, _ in asked}
    for curve, i in sorted(asked, key=lambda one: not best[one[0].x[one[1]], one[0].y[one[1]]]):
        x, y, text = curve.x[i] / wide, curve.y[i] / high, curve.text[i]
        first = curve.textposition[i]
        for place in (first, *(corner for corner in _CORNERS if corner != first)):
            box = _label_at(x, y, text, place)
            inside = ends[0] - _EDGE < box.left and box.right < ends[1] + _EDGE
            if inside and not any(box.meets(other) for other in taken):
                taken.append(box)
                texts[id(curve)][i], places[id(curve)][i] = text, place
                break
    for curve in {id(curve): curve for curve, _ in asked}.values():
        curve.update(text=texts[id(curve)], textposition=places[id(curve)])


def _mark_at(x: float, y: float) -> Box:
    """Where a marker stands."""
    across, up = _MARK
    return Box(x - across, x + across, y - up, y + up)


def _label_at(x: float, y: float, text: str, place: str) -> Box:
    """Where Plotly writes a label at one of the corners of a point."""
    reach, middle = _LETTER * len(text), y + (2 * _LINE if place.startswith("top") else -2 * _LINE)
    left = x - _MARK[0] - reach if place.endswith("left") else x + _MARK[0]
    return Box(left, left + reach, middle - _LINE, middle + _LINE)


def _curve_names(groups: Sequence[Group]) -> dict[tuple[str, str], str]:
    """Name curves as the rows say, and by model where there are several."""
    several = len({group.model for group in groups}) > 1
    return {
        (group.curve, group.model): f"{group.curve} on {group.model or 'another model'}" if several else group.curve
        for group in groups
    }


def _axis(speed: Speed) -> str:
    return f"{speed.axis} (less is better)" if speed.falling else speed.axis


def _mark_baseline(figure: go.Figure, points: Sequence[tuple[float, Group]]) -> None:
    """Draw a star, and its accuracy as a line across: what lies above it lost nothing."""
    for _, group in points:
        figure.add_hline(y=100 * group.accuracy, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
        figure.add_scatter(
            **_places(points),
            mode="markers",
            error_y={**_errors([group]), "color": NEUTRAL},
            name=f"{plain(group.label)}, the baseline",
            marker={"symbol": "star", "size": 15, "color": NEUTRAL},
        )


def _curve(index: int, name: str, points: Sequence[tuple[float, Group]], middle: float) -> go.Scatter:
    look, side = series(index), "bottom" if index % 2 else "top"
    return go.Scatter(
        **_places(points),
        mode="lines+markers+text",
        text=_spaced_labels(points),
        textposition=[f"{side} right" if speed <= middle else f"{side} left" for speed, _ in points],
        textfont={"size": 11, "shadow": "auto"},  # lines pass behind
        cliponaxis=False,
        error_y=_errors([group for _, group in points]),
        name=plain(name),
        legendgroup=str(index),
        line=look.line,
        marker=look.marker(10),
    )


def _spaced_labels(points: Sequence[tuple[float, Group]]) -> list[str]:
    """Labels of points in order of speed; none where one beside it would be written over."""
    reach = max(points[-1][0] - points[0][0], 1e-9)
    heights = [100 * group.accuracy for _, group in points]
    drop = max(max(heights) - min(heights), 1e-9)
    named: list[int] = []
    for i, (speed, _) in enumerate(points):
        clear = all(
            abs(speed - points[j][0]) > _APART[0] * reach or abs(heights[i] - heights[j]) > _APART[1] * drop
            for j in named
        )
        named += [i] if clear else []
    return [plain(group.label) if i in named else "" for i, (_, group) in enumerate(points)]


def _off_frontier(index: int, name: str, points: Sequence[tuple[float, Group]]) -> go.Scatter:
    look = series(index)
    return go.Scatter(
        **_places(points),
        mode="markers",
        error_y={**_errors([group for _, group in points]), "color": look.band(0.25), "width": 0},
        name=f"{plain(name)}, beaten by another setting",
        legendgroup=str(index),
        marker={**look.marker(8), "symbol": f"{look.symbol}-open", "opacity": 0.8},
    )


def _places(points: Sequence[tuple[float, Group]]) -> dict[str, object]:
    return {
        "x": [speed for speed, _ in points],
        "y": [100 * group.accuracy for _, group in points],
        "customdata": [[plain(group.label), group.problems] for _, group in points],
        "hovertemplate": "%{customdata[0]}: %{y:.1f} % right at %{x:.3~g}, %{customdata[1]} problems",
    }


def _errors(groups: Sequence[Group]) -> dict[str, object]:
    """Return error bars of one standard error; none where a group has a single problem."""
    return {"array": [100 * (group.accuracy_error or 0.0) for group in groups], "thickness": 1.2, "width": 4}


def swept(rows: Sequence[ResultRow], wanted: str | None) -> str:
    """Return the setting along the axis: the wanted one, or the only one that varies.

    Raises:
        SweepError: No or several settings vary, or the wanted one does not.
    """
    names = varied(rows)
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return str(wanted)
    if not names:
        raise SweepError("setting: none varies within a method; give rows that differ in one")
    said = f"{wanted!r} does not vary" if wanted is not None else f"{len(names)} vary"
    raise SweepError(f"setting: {said}; choose one of {', '.join(names)}")


def curves(groups: Sequence[Group], setting: str) -> Mapping[str, tuple[Group, ...]]:
    """Gather groups that differ in nothing but `setting`, by name; single points are left out, too."""
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups:
        if setting in group.config:
            rest = {name: value for name, value in group.config.items() if name != setting}
            found.setdefault((group.curve, group.model, canonical(rest)), []).append(group)
    kept = {key: tuple(each) for key, each in found.items() if len(each) > 1}
    heads = [each[0] for each in kept.values()]
    return dict(zip(_names(heads, setting), kept.values(), strict=True))


def _names(heads: Sequence[Group], setting: str) -> list[str]:
    """Name curves as the rows say, by model if there are several, and by settings in which those of a name differ."""
    names, curves_of = [], _curve_names(heads)
    for head in heads:
        rivals = [other for other in heads if other.curve == head.curve]
        differing = [
            name
            for name in head.config
            if name != setting and len({canonical({"": rival.config.get(name)}) for rival in rivals}) > 1
        ]
        said = ", ".join(f"{name} {head.config[name]}" for name in differing)
        name = curves_of[head.curve, head.model]
        names.append(f"{name} ({said})" if said else name)
    return names


def _setting(rows: Sequence[ResultRow], view: SweepView) -> go.Figure:
    groups, setting = gathered(rows), swept(rows, view.setting)
    fast = dict(zip(map(id, groups), speeds(groups, view.speed, view.baseline), strict=True))
    found = curves(groups, setting)
    if len(found) > MOST_CURVES:
        raise SweepError(f"rows: {len(found)} curves over {setting} are more than {MOST_CURVES}; give fewer settings")
    numeric = all(_number(group.config[setting]) is not None for each in found.values() for group in each)
    figure = side_by_side(["Accuracy", "Speed"], horizontal_spacing=0.1)
    for i, (name, each) in enumerate(found.items()):
        ordered = sorted(each, key=lambda group: _number(group.config[setting]) or 0.0) if numeric else each
        values = [group.config[setting] for group in ordered]
        x = [_number(value) if numeric else plain(_said(value)) for value in values]
        look = series(i)
        shared = {
            "x": x,
            "name": plain(name),
            "legendgroup": str(i),
            **look.curve(),
        }
        accuracy = [100 * group.accuracy for group in ordered]
        said = f"{plain(setting)} %{{x}}: %{{y:.3~g}}"
        figure.add_scatter(
            **shared, y=accuracy, error_y=_errors(ordered), hovertemplate=said + " % right", row=1, col=1
        )
        speed = [fast[id(group)] for group in ordered]
        figure.add_scatter(**shared, y=speed, showlegend=False, hovertemplate=said, row=1, col=2)
    figure.update_xaxes(title_text=plain(setting), type="linear" if numeric else "category")
    figure.update_yaxes(title_text="Accuracy (%)", row=1, col=1)
    figure.update_yaxes(title_text=_axis(SPEEDS[view.speed]), rangemode="tozero", row=1, col=2)
    return figure.update_layout(height=460, showlegend=True)


def _number(value: object) -> float | None:
    """A number, or one written as text: choices such as the block size are."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


FRONTIER = SweepFigure(
    name="frontier",
    title="Accuracy against speed",
    caption=(
        "Each point is a setting: the share of problems that it answered right, by how fast it decoded; error bars "
        "are one standard error over problems. Lines join the settings of a method that no other setting of it "
        "beats in both; an open mark is a setting that another one beats. A star is the baseline, the dotted line "
        "its accuracy. Up is better, and so is right, or left where the axis says that less is better. Speed is a "
        "ratio of totals over all problems."
    ),
    paper="S2D2, Fig. 3 and Tables 1 to 3; PSD, Fig. 2 to 4",
    drawing=_frontier,
)

SETTING = SweepFigure(
    name="setting",
    title="Accuracy and speed by one setting",
    caption=(
        "What one setting does while the others stay: share of problems answered right, with one standard error over "
        "problems, and speed as a ratio of totals. A curve joins groups that differ in nothing else."
    ),
    paper="SimSD, Table 3 (gamma); S2D2, Tables 5 to 10 (routing) and 11 (tempering); PSD, section 4.2 (depth)",
    drawing=_setting,
)
