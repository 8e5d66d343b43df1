"""How much faster drafts would make a model, by how many there are, by batch and by device: computed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import plotly.graph_objects as go

from traces.hardware import DEVICES, HardwareError
from traces.speculating import MeasuredSpeeds, Plan
from traces.tradeoffs import Tradeoff
from visualizers.figure import DataFigure
from visualizers.plot import axes, bars, curve, dots, guide, plain, side_by_side
from visualizers.style import NEUTRAL, Look, series

DRAFTS: Final = (*range(1, 17), 20, 24, 28, 32, 40, 48, 64, 96, 128)
BATCHES: Final = tuple(2**power for power in range(11))


@dataclass(frozen=True, slots=True)
class Calculation:
    """A plan, what was measured with one drafter on other hardware, and what papers report of settings near it."""

    plan: Plan
    measured: MeasuredSpeeds | None = None
    reported: tuple[Tradeoff, ...] = ()
    """Each with a window, of one token more than drafts."""


def _drawn(calculation: Calculation) -> go.Figure:
    plan, measured = calculation.plan, calculation.measured
    figure = side_by_side(["By draft length", "By batch", "By device", "A verification"], horizontal_spacing=0.09)
    _balance(figure, plan)
    for panel, (field, values, name) in enumerate((("drafts", DRAFTS, "γ"), ("batch", BATCHES, "batch")), 1):
        plans = fitting(plan, field, values)
        points = [getattr(each, field) for each in plans], [each.speed_up for each in plans]
        place: Look = {"row": 1, "col": panel, "showlegend": False}
        hover = f"{name} %{{x}}: %{{y:.2f}} × as fast<extra></extra>"
        curve(figure, 0, "computed", points, hover, mode="lines", **place)
        chosen: Look = {"marker": {"size": 12, "symbol": "circle-open", "line": {"width": 2.5}, "color": NEUTRAL}}
        dots(figure, 1, "as chosen", ([getattr(plan, field)], [plan.speed_up]), hover, **chosen, **place)
        guide(figure, 1, row=1, col=panel)
    best, hover = plan.at_best(), "γ %{x}: %{y:.2f} × as fast, the fastest<extra></extra>"
    star = {"size": 11, "symbol": "star", "color": series(0).color}
    dots(figure, 0, "fastest", ([best.drafts], [best.speed_up]), hover, marker=star, row=1, col=1, showlegend=False)
    if measured:
        _measured(figure, measured, plan.drafts)
    if near := calculation.reported:
        points = [one.window - 1 for one in near], [one.speed for one in near]
        tables = [f"{one.setting}, {one.source}" for one in near]
        cross = {"size": 9, "symbol": "x-thin-open", "line": {"width": 2}}
        hover = "γ %{x}: %{y:.2f} × as fast, reported<br>%{text}<extra></extra>"
        dots(figure, 3, "reported", points, hover, row=1, col=1, marker=cross, text=tables, showlegend=False)
    devices = fitting(plan, "device", DEVICES.values())
    rows = [each.speed_up for each in devices], [each.device.name for each in devices]
    hover, place = "%{y}: %{x:.2f} × as fast<extra></extra>", {"row": 1, "col": 3, "showlegend": False}
    bars(figure, 0, "device", rows, hover, orientation="h", **place)
    figure.add_vline(x=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5}, row=1, col=3)
    axes(figure, *["Times as fast as ordinary decoding"] * 2, height=420, showlegend=False)
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title_text="Passes of ordinary decoding", row=1, col=4)
    figure.update_xaxes(type="log", tickvals=BATCHES, title_text="Drafts to a verification, γ", row=1, col=1)
    figure.update_xaxes(type="log", tickvals=BATCHES, title_text="Sequences decoded together", row=1, col=2)
    figure.update_yaxes(autorange="reversed", rangemode="normal", row=1, col=3)
    drafter = plan.draft.name if plan.draft else "no network"
    about = (
        f"Computed: {plan.target.name}, drafts by {drafter}, {plan.device.name}, {plan.engine.name}, "
        f"acceptance {plan.acceptance:g}, γ {plan.drafts}, batch {plan.batch}, context {plan.context}"
    )
    if measured:
        about += f". Diamonds: measured, {measured}, {measured.place}, quartiles"
    if calculation.reported:
        about += ". Crosses: reported by papers, with their own acceptance and engine"
    return figure.update_layout(title_subtitle_text=plain(about))


def _balance(figure: go.Figure, plan: Plan) -> None:
    """What a verification yields above what it and its drafts take, in passes of ordinary decoding."""
    its_pass, drafts = (seconds / plan.ordinary.seconds for seconds in (plan.verification.seconds, plan.drafting))
    parts = (("yield", 0.0, plan.tokens), ("its pass", 0.0, its_pass), ("drafts", its_pass, drafts))
    for index, (name, base, passes) in enumerate(parts):
        hover = f"{name}: {passes:.2f} passes<extra></extra>"
        look: Look = {"orientation": "h", "base": [base], "row": 1, "col": 4, "showlegend": False}
        bars(figure, index, name, ([passes], [name]), hover, **look)
    figure.update_yaxes(autorange="reversed", rangemode="normal", row=1, col=4)


def _measured(figure: go.Figure, pair: MeasuredSpeeds, drafts: int) -> None:
    """What was measured one at a time by draft length, and with so many drafts by batch."""
    alone = {length: speed for (length, batch), speed in pair.speeds.items() if batch == 1}
    together = {batch: speed for (length, batch), speed in pair.speeds.items() if length == drafts}
    for panel, (name, speeds) in enumerate((("γ", alone), ("batch", together)), 1):
        if not speeds:
            continue
        median, low, high = zip(*speeds.values(), strict=True)
        spread = {
            "array": [top - middle for top, middle in zip(high, median, strict=True)],
            "arrayminus": [middle - bottom for middle, bottom in zip(median, low, strict=True)],
        }
        hover = f"{name} %{{x}}: %{{y:.2f}} × as fast, measured<extra></extra>"
        mark = {"size": 9, "symbol": "diamond", "color": series(2).color}
        look: Look = {"marker": mark, "error_y": {"type": "data", **spread}}
        dots(figure, 2, "measured", ([*speeds], median), hover, row=1, col=panel, showlegend=False, **look)


def fitting(plan: Plan, field: str, values: Iterable[Any]) -> list[Plan]:
    """The plan with every value of a field that fits the memory of the device."""
    plans = []
    for value in values:
        try:
            plans.append(replace(plan, **{field: value}))
        except HardwareError:
            continue
    return plans


CALCULATOR: Final[DataFigure[Calculation]] = DataFigure(
    name="calculator",
    title="What drafts would gain on other hardware",
    caption="Computed: tokens that a verification yields at this acceptance rate, over the time of its "
    "pass and of its drafts; the bars are these three, in passes of ordinary decoding. "
    "Below the dotted line drafting is slower. The ring is what is "
    "chosen, the star the fastest draft length; batches and devices with too little memory are left out. "
    "Diamonds were measured with another model on other hardware, by draft length one at a time.",
    drawing=_drawn,
)
