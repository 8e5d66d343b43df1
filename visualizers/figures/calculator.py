"""How much faster drafts would make a model: by acceptance, draft length, batch and device; all computed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log10
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.acceptance_rate import AcceptanceRate
from draftscope.analysis.hardware import DEVICES
from draftscope.analysis.speedup_model import MAX_DRAFTS, SHORT, MeasuredSpeeds, SpeedupModel
from draftscope.analysis.tradeoffs import Tradeoff
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.plot import add_level_line, axes, curve, dots, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, series

DRAFTS: Final = (*range(1, 17), 20, 24, 28, 32, 40, 48, 64, 96, 128)
BATCHES: Final = tuple(2**power for power in range(11))


@dataclass(frozen=True, slots=True)
class Calculation:
    """A plan, how well its acceptance is known, what was measured elsewhere, and what papers report near it."""

    plan: SpeedupModel
    rate: AcceptanceRate
    measured: MeasuredSpeeds | None = None
    """With one drafter on other hardware."""
    reported: tuple[Tradeoff, ...] = ()
    """Each with a window, of one token more than drafts."""


@dataclass(frozen=True, slots=True)
class DeviceCurve:
    """How much faster drafts make a plan's model on one device, by draft length."""

    device: str
    speeds: Mapping[int, float]
    """Draft length -> times as fast as ordinary decoding, for those that fit the memory; none where none does."""

    @property
    def best(self) -> int:
        """The draft length among `SHORT` that is fastest, the shortest of equals."""
        return max(self.speeds.keys() & {*SHORT}, key=lambda drafts: (self.speeds[drafts], -drafts))

    @property
    def pays_to(self) -> int:
        """The longest draft length that is not slower than ordinary decoding; 0 where none is."""
        return max((drafts for drafts, speed in self.speeds.items() if speed >= 1), default=0)


def device_curves(plan: SpeedupModel) -> tuple[DeviceCurve, ...]:
    """The curve of every device that is known; the same ones for every draft length of a plan."""
    return _curves(replace(plan, drafts=1))


@lru_cache(maxsize=8)
def _curves(plan: SpeedupModel) -> tuple[DeviceCurve, ...]:
    lengths = range(1, MAX_DRAFTS + 1)
    devices = {each.device.name: each for each in plan.with_each("device", DEVICES.values())}
    plans = {name: devices[name].with_each("drafts", lengths) if name in devices else [] for name in DEVICES}
    return tuple(DeviceCurve(name, {one.drafts: one.speed_up for one in each}) for name, each in plans.items())


@DataFigure(
    name="calculator",
    title="What drafts would gain on other hardware",
    caption="Computed: tokens that a verification yields at this acceptance rate, over the time of its pass and of its "
    "drafts. Below the dotted line drafting is slower. The band is the interval of the acceptance rate, the upright "
    "line where it breaks even, the ring what is chosen, the star the fastest draft length to 16, thin lines are other "
    "devices; batches and devices with too little memory are left out. On the right every mark is a batch, with its "
    "fastest draft length. Diamonds were measured with another model on other hardware, by draft length one at a time.",
)
def calculator_figure(calculation: Calculation) -> go.Figure:
    """Curves by acceptance, by draft length and by batch, and the speed of one user against that of all."""
    plan = calculation.plan
    figure = side_by_side(["By acceptance", "By draft length", "By batch", "One user and all"], horizontal_spacing=0.07)
    _by_acceptance(figure, calculation)
    _devices(figure, plan)
    for panel, (field, values, name) in enumerate((("drafts", DRAFTS, "γ"), ("batch", BATCHES, "batch")), 2):
        plans = plan.with_each(field, values)
        points = [getattr(each, field) for each in plans], [each.speed_up for each in plans]
        placement: Look = {"row": 1, "col": panel, "showlegend": False}
        hover = f"{name} %{{x}}: %{{y:.2f}} × as fast<extra></extra>"
        curve(figure, 0, "computed", points, hover, mode="lines", **placement)
        _chosen(figure, getattr(plan, field), plan.speed_up, hover, panel)
        add_level_line(figure, 1, row=1, col=panel)
    best, hover = plan.with_best_draft_length(), "γ %{x}: %{y:.2f} × as fast, the fastest<extra></extra>"
    star = {"size": 11, "symbol": "star", "color": series(0).color}
    dots(figure, 0, "fastest", ([best.drafts], [best.speed_up]), hover, marker=star, row=1, col=2, showlegend=False)
    _users(figure, plan)
    if calculation.measured:
        _measured(figure, calculation.measured, plan.drafts)
    if near := calculation.reported:
        points = [one.window - 1 for one in near], [one.speed for one in near]
        tables = [f"{one.setting}, {one.source}" for one in near]
        cross = {"size": 9, "symbol": "x-thin-open", "line": {"width": 2}}
        hover = "γ %{x}: %{y:.2f} × as fast, reported<br>%{text}<extra></extra>"
        dots(figure, 3, "reported", points, hover, row=1, col=2, marker=cross, text=tables, showlegend=False)
    axes(figure, "", "Times as fast as ordinary decoding", height=420, showlegend=False)
    figure.update_yaxes(title_text="Tokens a second, all", type="log", rangemode="normal", row=1, col=4)
    figure.update_xaxes(type="log", title_text="Tokens a second, one user", row=1, col=4)
    figure.update_xaxes(tickformat=".0%", range=[0, 1], title_text="Drafts accepted", row=1, col=1)
    ticks = (1, 4, 16, 64, 256, 1024)
    figure.update_xaxes(type="log", tickvals=ticks, title_text="Drafts to a verification, γ", row=1, col=2)
    figure.update_xaxes(type="log", tickvals=ticks, title_text="Sequences decoded together", row=1, col=3)
    return figure.update_layout(title_subtitle_text=plain(_subtitle(calculation)))


def _subtitle(calculation: Calculation) -> str:
    plan, measured = calculation.plan, calculation.measured
    drafter = plan.draft.name if plan.draft else "no network"
    about = (
        f"Computed: {plan.target.name}, drafts by {drafter}, {plan.gpus} {plan.device.name}, {plan.engine.name}, "
        f"acceptance {calculation.rate}, γ {plan.drafts}, batch {plan.batch}, context {plan.context}"
    )
    if measured:
        about += f". Diamonds: measured, {measured}, {measured.location}, quartiles"
    if calculation.reported:
        about += ". Crosses: reported by papers, with their own acceptance and engine"
    return about


def _chosen(figure: go.Figure, x: float, y: float, hover: str, panel: int) -> None:
    """Ring what the plan has."""
    ring = {"size": 12, "symbol": "circle-open", "line": {"width": 2.5}, "color": NEUTRAL}
    dots(figure, 1, "as chosen", ([x], [y]), hover, marker=ring, row=1, col=panel, showlegend=False)


def _by_acceptance(figure: go.Figure, calculation: Calculation) -> None:
    """Draw the speed by acceptance rate, the interval of the rate as a band, and the rate that breaks even."""
    plan, rate = calculation.plan, calculation.rate
    plans = plan.with_each("acceptance", [step / 50 for step in range(51)])
    points = [each.acceptance for each in plans], [each.speed_up for each in plans]
    hover = "%{x:.0%} accepted: %{y:.2f} × as fast<extra></extra>"
    curve(figure, 0, "by acceptance", points, hover, mode="lines", row=1, col=1, showlegend=False)
    figure.add_vrect(x0=rate.low, x1=rate.high, fillcolor=series(0).color, opacity=0.15, line_width=0, row=1, col=1)
    if plan.break_even is not None:
        words = f"breaks even<br>at {plan.break_even:.0%}"
        side = "right" if plan.break_even < 0.6 else "left"
        look: Look = {"annotation_text": words, "annotation_position": f"top {side}"}
        figure.add_vline(x=plan.break_even, line={"color": NEUTRAL, "width": 1.5}, row=1, col=1, **look)
    _chosen(figure, plan.acceptance, plan.speed_up, hover, 1)
    add_level_line(figure, 1, row=1, col=1)


def _users(figure: go.Figure, plan: SpeedupModel) -> None:
    """Draw tokens a second of one user against those of all, by batch, ordinarily and with drafts."""
    plans = [each.with_best_draft_length() for each in plan.with_each("batch", BATCHES)]
    hover = "batch %{text}: %{x:.0f} tokens a second for each, %{y:,.0f} for all<extra></extra>"
    for index, (name, drafting) in enumerate((("with drafts", True), ("ordinary", False))):
        users = [each.rates[drafting] for each in plans]
        everyone = [each.batch * user for each, user in zip(plans, users, strict=True)]
        batches = [str(each.batch) for each in plans]
        look: Look = {"line": {"color": series(0).color if drafting else NEUTRAL, "width": 2}}
        look["marker"] = {"size": 6, "color": series(0).color if drafting else NEUTRAL}
        look |= {"mode": "lines+markers", "text": batches, "showlegend": False}
        curve(figure, index, name, (users, everyone), hover, row=1, col=4, **look)
        if users:
            figure.add_annotation(
                x=log10(users[0]), y=log10(everyone[0]), text=name, showarrow=False, yshift=-12, xanchor="right",
                font={"size": 12}, row=1, col=4,
            )  # fmt: skip


def _devices(figure: go.Figure, plan: SpeedupModel) -> None:
    """The curves of all other devices, thin."""
    thin = {"color": NEUTRAL, "width": 1}
    for each in device_curves(plan):
        speeds = {drafts: speed for drafts, speed in each.speeds.items() if drafts in DRAFTS}
        if not speeds or each.device == plan.device.name:
            continue
        hover = f"{each.device}, γ %{{x}}: %{{y:.2f}} × as fast<extra></extra>"
        look: Look = {"mode": "lines", "line": thin, "opacity": 0.5, "showlegend": False}
        curve(figure, 0, each.device, ([*speeds], [*speeds.values()]), hover, row=1, col=2, **look)


def _measured(figure: go.Figure, pair: MeasuredSpeeds, drafts: int) -> None:
    """Draw the measurements at batch 1 by draft length, and with `drafts` drafts by batch."""
    alone = {length: speed for (length, batch), speed in pair.speeds.items() if batch == 1}
    together = {batch: speed for (length, batch), speed in pair.speeds.items() if length == drafts}
    for panel, (name, speeds) in enumerate((("γ", alone), ("batch", together)), 2):
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
