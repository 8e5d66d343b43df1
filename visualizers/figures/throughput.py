"""Tokens a second by the number of drafts, from the times and the acceptance of a run."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.break_even import tokens_of
from draftscope.traces.schema import Fate
from draftscope.traces.stats import cost
from draftscope.visualizers.figure import Figure, Traces, group_runs
from draftscope.visualizers.plot import axes, curve, dots

MAX_DRAFTS: Final = 16


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured times and acceptance of a pair of models."""

    draft_seconds: float
    """T_phi: a pass of the drafter."""
    verify_seconds: float
    """T_theta: a pass of the target over the drafts."""
    acceptance: float
    """Probability that a verified draft is accepted, given that all earlier ones were."""
    drafts: float
    """gamma: drafts per verification, on average."""
    measured: float
    """Tokens a second of all passes together."""

    def per_second(self, drafts: float) -> float:
        """Expected tokens a second: accepted drafts and the replacement of the first rejected over their time."""
        return tokens_of(self.acceptance, drafts - 1) / (drafts * self.draft_seconds + self.verify_seconds)


def rates(traces: Traces) -> Rates | None:
    """Return the rates of timed runs with a drafter and a target; None for other runs."""
    steps = [step for trace in traces for step in trace.steps]
    drafting = [step for step in steps if step.call.role == "draft"]
    judging = [step for step in steps if step.call.role == "target" and any(fate.judged for fate in step.fate)]
    if not drafting or not judging:
        return None
    judged = [fate for step in judging for fate in step.fate if fate.judged]
    final = sum(fate.final for step in steps for fate in step.fate)
    draft_seconds, verify_seconds, seconds = (
        cost(passes).milliseconds.total / 1000 for passes in (drafting, judging, steps)
    )
    if not (draft_seconds and verify_seconds):
        return None
    return Rates(
        draft_seconds=draft_seconds / len(drafting),
        verify_seconds=verify_seconds / len(judging),
        acceptance=judged.count(Fate.ACCEPTED) / len(judged),
        drafts=len(drafting) / len(judging),
        measured=final / seconds,
    )


@Figure(
    name="throughput",
    title="Tokens a second by the number of drafts",
    paper="SimSD, section 4 (time of a round); compare Table 3",
    caption="Lines: the expected throughput with gamma drafts a verification, (1 - a^gamma) / (1 - a) tokens in gamma "
    "T_phi + T_theta, with the run's mean times of a draft and of a verification and the share a of verified drafts "
    "that were accepted. Marks: what the run reached, at its mean number of drafts.",
    accepts=lambda trace: rates([trace]) is not None,
    requirement="timed passes of a drafter and of its target",
    limit="groups",
)
def _draw(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        pair = rates(runs)
        assert pair is not None
        drafts = list(range(1, MAX_DRAFTS + 1))
        about = f"{1000 * pair.draft_seconds:.1f} ms a draft, {1000 * pair.verify_seconds:.1f} ms a verification"
        about += f", {100 * pair.acceptance:.0f} % accepted"
        hover = "%{x} drafts: %{y:.1f} tokens a second expected<extra></extra>"
        points = drafts, [pair.per_second(count) for count in drafts]
        curve(figure, i, f"{name}: {about}", points, hover, mode="lines", legendgroup=str(i))
        hover = "%{x:.2f} drafts: %{y:.1f} tokens a second measured<extra></extra>"
        dots(figure, i, f"{name}: measured", ([pair.drafts], [pair.measured]), hover, legendgroup=str(i))
    axes(figure, "Drafts per verification, gamma", "Tokens a second")
    return figure.update_xaxes(dtick=1, range=[0.5, MAX_DRAFTS + 0.5])
