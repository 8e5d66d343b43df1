"""What a pair of models can gain: tokens a second by the number of drafts, from one run's times and acceptance."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from traces.schema import Fate, Step, Trace
from visualizers.figure import Figure, Traces, grouped, missing
from visualizers.style import series

MOST_DRAFTS: Final = 16
MOST_GROUPS: Final = 6


@dataclass(frozen=True, slots=True)
class Rates:
    """What the model of a pair rests on."""

    draft_seconds: float
    """T_phi: a pass of the drafter."""
    verify_seconds: float
    """T_theta: a pass of the target over the drafts."""
    acceptance: float
    """Chance that a judged draft passes, given that those before it did."""
    drafts: float
    """gamma: drafts per verification, on average."""
    measured: float
    """Tokens a second of all passes together."""

    def tokens(self, drafts: float) -> float:
        """Expected tokens a round of `drafts` makes final: the accepted ones and the first rejection's replacement."""
        a = self.acceptance
        return drafts if a == 1 else (1 - a**drafts) / (1 - a)

    def per_second(self, drafts: float) -> float:
        """Expected tokens a second: tokens over gamma T_phi + T_theta."""
        return self.tokens(drafts) / (drafts * self.draft_seconds + self.verify_seconds)


def rates(traces: Traces) -> Rates | None:
    """The rates of runs in which one model drafts and another judges; None for other runs."""
    steps = [step for trace in traces for step in trace.steps]
    drafting = [step for step in steps if step.call.role == "draft"]
    judging = [step for step in steps if step.call.role == "target" and any(fate.judged for fate in step.fate)]
    if not drafting or not judging:
        return None
    judged = [fate for step in judging for fate in step.fate if fate.judged]
    final = sum(fate.final for step in steps for fate in step.fate)
    return Rates(
        draft_seconds=_seconds(drafting) / len(drafting),
        verify_seconds=_seconds(judging) / len(judging),
        acceptance=judged.count(Fate.ACCEPTED) / len(judged),
        drafts=len(drafting) / len(judging),
        measured=final / _seconds(steps),
    )


def _seconds(steps: list[Step]) -> float:
    return sum(step.call.milliseconds.total for step in steps) / 1000


def _timed(trace: Trace) -> bool:
    found = rates([trace])
    return found is not None and min(found.draft_seconds, found.verify_seconds) > 0


def _few(traces: Traces) -> str | None:
    groups = len(grouped(traces))
    return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None


def _draw(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _timed(trace)]).items()):
        found, look = rates(runs), series(i)
        assert found is not None
        drafts = list(range(1, MOST_DRAFTS + 1))
        about = (
            f"{1000 * found.draft_seconds:.1f} ms a draft, {1000 * found.verify_seconds:.1f} ms a verification, "
            f"{100 * found.acceptance:.0f} % pass"
        )
        figure.add_scatter(
            x=drafts,
            y=[found.per_second(count) for count in drafts],
            mode="lines",
            name=f"{name}: {about}",
            legendgroup=str(i),
            line=look.line,
            hovertemplate="%{x} drafts: %{y:.1f} tokens a second expected<extra></extra>",
        )
        figure.add_scatter(
            x=[found.drafts],
            y=[found.measured],
            mode="markers",
            name="measured",
            legendgroup=str(i),
            marker=look.marker(11),
            hovertemplate="%{x:.2f} drafts: %{y:.1f} tokens a second measured<extra></extra>",
        )
    figure.update_xaxes(title_text="Drafts per verification, gamma", dtick=1, range=[0.5, MOST_DRAFTS + 0.5])
    figure.update_yaxes(title_text="Tokens a second", rangemode="tozero")
    return figure.update_layout(height=440, showlegend=True)


THROUGHPUT = Figure(
    name="throughput",
    title="Tokens a second by the number of drafts",
    caption=(
        "Lines: what the throughput would be with gamma drafts a verification, (1 - a^gamma) / (1 - a) tokens in "
        "gamma T_phi + T_theta, where T_phi and T_theta are this run's mean times of a draft and of a verification "
        "and a is the share of judged drafts that passed. It takes every draft to pass with the same chance and a "
        "verification to cost the same for any gamma. Marks: what the run itself reached, at its mean number of "
        "drafts; blocks that are nearly full leave less to draft, and other passes take their time."
    ),
    paper="SimSD, section 4 (time of a round); compare Table 3",
    supports=lambda traces: missing(traces, _timed, "timed passes of a drafter and of its judge") or _few(traces),
    drawing=_draw,
)
