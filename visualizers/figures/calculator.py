"""How much faster drafts would make a model, by how many there are, on every device, and by batch: computed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.hardware import DEVICES
from draftscope.analysis.speedup_model import MAX_DRAFTS, MeasuredSpeeds, SpeedupModel
from draftscope.analysis.tradeoffs import Tradeoff
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.plot import add_level_line, axes, bars, curve, dots, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, series

DRAFTS: Final = (*range(1, 17), 20, 24, 28, 32, 40, 48, 64, 96, 128)
BATCHES: Final = tuple(2**power for power in range(11))


@dataclass(frozen=True, slots=True)
class Calculation:
    """A plan, what was measured with one drafter on other hardware, and what papers report of settings near it."""

    plan: SpeedupModel
    measured: MeasuredSpeeds | None = None
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
        """The draft length that is fastest, the shortest of equals."""
        return max(self.speeds, key=self.speeds.__getitem__)

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
    "drafts; the bars are these three, in passes of ordinary decoding. Below the dotted line drafting is slower. The "
    "ring is what is chosen, the star the fastest draft length, thin lines are the other devices; batches and devices "
    "with too little memory are left out. Diamonds were measured with another model on other hardware, by draft length "
    "one at a time.",
)
def calculator_figure(calculation: Calculation) -> go.Figure:
    """Curves by draft length and by batch, and the balance of a verification."""
    plan, measured = calculation.plan, calculation.measured
    figure = side_by_side(["By draft length", "By batch", "A verification"], horizontal_spacing=0.09)
    its_pass, drafts = (seconds / plan.baseline_pass.seconds for seconds in (plan.verification.seconds, plan.drafting))
    parts = (("yield", 0.0, plan.tokens), ("its pass", 0.0, its_pass), ("drafts", its_pass, drafts))
    for index, (name, base, passes) in enumerate(parts):
        hover = f"{name}: {passes:.2f} passes<extra></extra>"
        look: Look = {"orientation": "h", "base": [base], "row": 1, "col": 3, "showlegend": False}
        bars(figure, index, name, ([passes], [name]), hover, **look)
    figure.update_yaxes(autorange="reversed", rangemode="normal", row=1, col=3)
    _devices(figure, plan)
    for panel, (field, values, name) in enumerate((("drafts", DRAFTS, "γ"), ("batch", BATCHES, "batch")), 1):
        plans = plan.with_each(field, values)
        points = [getattr(each, field) for each in plans], [each.speed_up for each in plans]
        placement: Look = {"row": 1, "col": panel, "showlegend": False}
        hover = f"{name} %{{x}}: %{{y:.2f}} × as fast<extra></extra>"
        curve(figure, 0, "computed", points, hover, mode="lines", **placement)
        chosen: Look = {"marker": {"size": 12, "symbol": "circle-open", "line": {"width": 2.5}, "color": NEUTRAL}}
        dots(figure, 1, "as chosen", ([getattr(plan, field)], [plan.speed_up]), hover, **chosen, **placement)
        add_level_line(figure, 1, row=1, col=panel)
    best, hover = plan.with_best_draft_length(), "γ %{x}: %{y:.2f} × as fast, the fastest<extra></extra>"
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
    axes(figure, *["Times as fast as ordinary decoding"] * 2, height=420, showlegend=False)
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title_text="Passes of ordinary decoding", row=1, col=3)
    figure.update_xaxes(type="log", tickvals=BATCHES, title_text="Drafts to a verification, γ", row=1, col=1)
    figure.update_xaxes(type="log", tickvals=BATCHES, title_text="Sequences decoded together", row=1, col=2)
    drafter = plan.draft.name if plan.draft else "no network"
    about = (
        f"Computed: {plan.target.name}, drafts by {drafter}, {plan.device.name}, {plan.engine.name}, "
        f"acceptance {plan.acceptance:g}, γ {plan.drafts}, batch {plan.batch}, context {plan.context}"
    )
    if measured:
        about += f". Diamonds: measured, {measured}, {measured.location}, quartiles"
    if calculation.reported:
        about += ". Crosses: reported by papers, with their own acceptance and engine"
    return figure.update_layout(title_subtitle_text=plain(about))


def _devices(figure: go.Figure, plan: SpeedupModel) -> None:
    """The curves of all other devices, thin."""
    thin = {"color": NEUTRAL, "width": 1}
    for each in device_curves(plan):
        speeds = {drafts: speed for drafts, speed in each.speeds.items() if drafts in DRAFTS}
        if not speeds or each.device == plan.device.name:
            continue
        hover = f"{each.device}, γ %{{x}}: %{{y:.2f}} × as fast<extra></extra>"
        look: Look = {"mode": "lines", "line": thin, "opacity": 0.5, "showlegend": False}
        curve(figure, 0, each.device, ([*speeds], [*speeds.values()]), hover, row=1, col=1, **look)


def _measured(figure: go.Figure, pair: MeasuredSpeeds, drafts: int) -> None:
    """Draw the measurements at batch 1 by draft length, and with `drafts` drafts by batch."""
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
