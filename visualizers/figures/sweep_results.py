"""Figures of sweeps: accuracy against speed, and both against one setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

import plotly.graph_objects as go

from draftscope.analysis.groups import SPEEDS, Group, baseline_of, canonical, gathered, speeds, varied
from draftscope.analysis.results import ResultRow, SweepError
from draftscope.analysis.tradeoffs import on_frontier
from draftscope.visualizers.figure import FigureText, with_title
from draftscope.visualizers.label_layout import arrange_labels
from draftscope.visualizers.plot import add_level_line, axes, curve, in_panel, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, series, themed, translucent

MAX_CURVES: Final = 12


class SweepView(NamedTuple):
    """Choices of the reader of a sweep."""

    speed: str = "tokens-per-forward"
    """A name of `draftscope.analysis.groups.SPEEDS`."""
    baseline: str | None = None
    """Label or method of the group that speed-ups are relative to; it is drawn as a star."""
    setting: str | None = None
    """The setting along the axis; by default the only one that varies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigure(FigureText):
    """A figure of results instead of traces."""

    def draw(self, rows: Sequence[ResultRow], view: SweepView | None = None) -> go.Figure:
        """Draw the rows.

        Raises:
            SweepError: They do not answer what the view asks for.
        """
        if not rows:
            raise SweepError("rows: there are none; give at least one result")
        view = view or SweepView()
        problems = len({row.problem for row in rows})
        relative = view.baseline is not None and view.speed in SPEEDS and SPEEDS[view.speed].relative
        against = f", speed-up against {view.baseline}" if relative else ""
        models = ", ".join(dict.fromkeys(row.model for row in rows if row.model))
        where = f" of {models}" if models else ""
        subtitle = plain(f"{len(rows)} runs{where} on {problems} problems in {len(gathered(rows))} settings{against}")
        return themed(with_title(self.drawing(rows, view), self.title, subtitle), "light")


@SweepFigure(
    name="frontier",
    title="Accuracy against speed",
    paper="S2D2, Fig. 3 and Tables 1 to 3; PSD, Fig. 2 to 4",
    caption="Each point is a setting: the share of problems answered right, by how fast it decoded; error bars are "
    "one standard error over problems. Lines join the settings of a method that no other setting of it beats in "
    "both; open marks are beaten. A star is the baseline, the dotted line its accuracy. Speed is a ratio of "
    "totals.",
)
def _frontier(rows: Sequence[ResultRow], view: SweepView) -> go.Figure:
    groups = gathered(rows)
    base = baseline_of(groups, view.baseline) if view.baseline is not None else None
    by_speed = zip(speeds(groups, view.speed, view.baseline), groups, strict=True)
    points = [(speed, group) for speed, group in by_speed if speed is not None]
    if not points:
        raise SweepError(f"speed: the rows do not say {view.speed}; choose one of {', '.join(SPEEDS)}")
    chosen, names = SPEEDS[view.speed], _curve_names(groups)
    curves_of: dict[str, list[Point]] = {name: [] for name in names.values()}
    for point in points:
        if point[1] is not base:
            curves_of[names[point[1].curve, point[1].model]].append(point)
    best = {
        id(group) for groups_of_curve in curves_of.values() for _, group in _unbeaten(groups_of_curve, chosen.falling)
    }
    labels = _labels(points, {id(group) for _, group in _unbeaten(points, chosen.falling)})
    figure = go.Figure()
    for i, (name, groups_of_curve) in enumerate(curves_of.items()):
        on, off = [p for p in groups_of_curve if id(p[1]) in best], [p for p in groups_of_curve if id(p[1]) not in best]
        if on:
            ordered = sorted(on, key=lambda point: point[0])
            texts = [labels.get(id(group), ("", "top right")) for _, group in ordered]
            text: Look = {"text": [text for text, _ in texts], "textposition": [side for _, side in texts]}
            text |= {"mode": "lines+markers+text", "textfont": {"size": 11, "shadow": "auto"}, "cliponaxis": False}
            _draw(figure, i, plain(name), ordered, **text)
        if off:
            look = series(i)
            faded: Look = {"marker": {**look.marker(8), "symbol": f"{look.symbol}-open", "opacity": 0.8}}
            error = {**_errors([group for _, group in off]), "color": translucent(look.color, 0.25), "width": 0}
            _draw(figure, i, plain(name), off, mode="markers", showlegend=False, error_y=error, **faded)
    for point in (point for point in points if point[1] is base):
        add_level_line(figure, 100 * point[1].accuracy)
        star: Look = {"mode": "markers", "marker": {"symbol": "star", "size": 15, "color": NEUTRAL}}
        star |= {"legendgroup": None, "error_y": {**_errors([point[1]]), "color": NEUTRAL}}
        _draw(figure, 0, f"{plain(point[1].label)}, the baseline", [point], **star)
    return axes(figure, chosen.title, "Accuracy (%)", height=520).update_yaxes(rangemode="normal")


Point = tuple[float, Group]
"""Speed and group."""


def _unbeaten(points: Sequence[Point], falling: bool) -> list[Point]:
    """Return the points than which no other is as good in both and better in one."""
    unbeaten = on_frontier([(-speed if falling else speed, group.accuracy) for speed, group in points])
    return [point for point, keep in zip(points, unbeaten, strict=True) if keep]


def _draw(figure: go.Figure, index: int, name: str, points: Sequence[Point], **look: Any) -> None:
    """Draw groups with the standard errors of their accuracy."""
    groups = [group for _, group in points]
    xy = [speed for speed, _ in points], [100 * group.accuracy for group in groups]
    data = {"customdata": [[plain(group.label), group.problems] for group in groups], "error_y": _errors(groups)}
    hover = "%{customdata[0]}: %{y:.1f} % right at %{x:.3~g}, %{customdata[1]} problems"
    curve(figure, index, name, xy, hover, **{"legendgroup": str(index), **data, **look})


def _errors(groups: Sequence[Group]) -> Look:
    """Return error bars of one standard error; none where a group has a single problem."""
    return {"array": [100 * (group.accuracy_error or 0.0) for group in groups], "thickness": 1.2, "width": 4}


def _labels(points: Sequence[Point], wanted: set[int]) -> Mapping[int, tuple[str, str]]:
    """Return id of a group -> label and its position, for the requested groups that have space."""
    across, up = _shares([speed for speed, _ in points]), _shares([group.accuracy for _, group in points])
    order = sorted(range(len(points)), key=lambda i: -points[i][1].accuracy)  # the most accurate first
    labels = [
        (i, points[i][1].label, "top right" if across[i] <= 0.5 else "top left")
        for i in order
        if id(points[i][1]) in wanted
    ]
    placed = arrange_labels(list(zip(across, up, strict=True)), labels, beyond=(0.05, 0.1))
    return {id(points[i][1]): (plain(points[i][1].label), side) for i, side in placed.items()}


def _shares(values: Sequence[float]) -> list[float]:
    """Return where values lie between the least and the greatest of them."""
    low = min(values)
    wide = max(max(values) - low, 1e-9)
    return [(value - low) / wide for value in values]


def _curve_names(groups: Sequence[Group]) -> dict[tuple[str, str], str]:
    """Name curves as the rows say, and by model where there are several."""
    several = len({group.model for group in groups}) > 1
    return {
        (group.curve, group.model): f"{group.curve} on {group.model or 'another model'}" if several else group.curve
        for group in groups
    }


def swept(rows: Sequence[ResultRow], wanted: str | None) -> str:
    """Return the setting along the axis.

    Args:
        rows: Rows of results.
        wanted: Setting that must vary; None for the only one that does.

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
    problem = f"{wanted!r} does not vary" if wanted is not None else f"{len(names)} vary"
    raise SweepError(f"setting: {problem}; choose one of {', '.join(names)}")


def curves(groups: Sequence[Group], setting: str) -> Mapping[str, tuple[Group, ...]]:
    """Gather groups that differ in nothing but `setting`, by name; single points are left out, too."""
    gathering: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups:
        if setting in group.config:
            other_settings = {name: value for name, value in group.config.items() if name != setting}
            gathering.setdefault((group.curve, group.model, canonical(other_settings)), []).append(group)
    long_enough = [tuple(each) for each in gathering.values() if len(each) > 1]
    return dict(zip(_names([each[0] for each in long_enough], setting), long_enough, strict=True))


def _names(heads: Sequence[Group], setting: str) -> list[str]:
    """Name curves as the rows say, by model if there are several, and by settings in which those of a name differ."""
    names, curve_names = [], _curve_names(heads)
    for head in heads:
        rivals = [other for other in heads if other.curve == head.curve]
        differing = [
            f"{name} {value}"
            for name, value in head.config.items()
            if name != setting and len({canonical({"": rival.config.get(name)}) for rival in rivals}) > 1
        ]
        names.append(curve_names[head.curve, head.model] + (f" ({', '.join(differing)})" if differing else ""))
    return names


@SweepFigure(
    name="setting",
    title="Accuracy and speed by one setting",
    paper="SimSD, Table 3 (gamma); S2D2, Tables 5 to 10 (routing) and 11 (tempering); PSD, section 4.2 (depth)",
    caption="The share of problems answered right, with one standard error over problems, and speed as a ratio of "
    "totals, by one setting while the others stay. A curve joins groups that differ in nothing else.",
)
def _setting(rows: Sequence[ResultRow], view: SweepView) -> go.Figure:
    groups, setting = gathered(rows), swept(rows, view.setting)
    fast = dict(zip(map(id, groups), speeds(groups, view.speed, view.baseline), strict=True))
    named_curves = curves(groups, setting)
    if len(named_curves) > MAX_CURVES:
        raise SweepError(
            f"rows: {len(named_curves)} curves over {setting} are more than {MAX_CURVES}; give fewer settings"
        )
    numeric = all(_number(group.config[setting]) is not None for each in named_curves.values() for group in each)
    figure = side_by_side(["Accuracy", "Speed"], horizontal_spacing=0.1)
    for i, (name, each) in enumerate(named_curves.items()):
        ordered = sorted(each, key=lambda group: _number(group.config[setting]) or 0.0) if numeric else each
        values = [group.config[setting] for group in ordered]
        words = [", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values]
        x = [_number(value) for value in values] if numeric else [plain(word) for word in words]
        hover = f"{plain(setting)} %{{x}}: %{{y:.3~g}}"
        points = x, [100 * group.accuracy for group in ordered]
        curve(figure, i, plain(name), points, f"{hover} % right", error_y=_errors(ordered), **in_panel(1, i))
        curve(figure, i, plain(name), (x, [fast[id(group)] for group in ordered]), hover, **in_panel(2, i))
    axes(figure, plain(setting), "Accuracy (%)", SPEEDS[view.speed].title, height=460)
    figure.update_yaxes(rangemode="normal", col=1)
    return figure.update_xaxes(type="linear" if numeric else "category")


def _number(value: object) -> float | None:
    """A number, or one written as text: choices such as the block size are."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None
