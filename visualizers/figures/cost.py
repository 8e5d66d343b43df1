"""Cost of decoding: the race to the last token, time by stage, comparison of runs, and one setting by seed."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from draftscope.analysis.oracle import oracle_savings
from draftscope.analysis.run_report import run_reports
from draftscope.analysis.seeds import estimate, runs_by_seed, seconds, target_forwards
from draftscope.analysis.stats import latency_breakdown, progress_curve
from draftscope.traces.schema import Trace
from draftscope.visualizers.figure import MAX_GROUPS, Figure, Traces, group_runs, labels
from draftscope.visualizers.palette import BLUE, GREEN, VERMILLION
from draftscope.visualizers.plot import axes, bars, curve, dots, error_bars, in_panel, side_by_side, step_curve
from draftscope.visualizers.style import NEUTRAL, Look, hatched

STAGES: Final = {
    "prepare": "Prepare: drafts, masks, cache",
    "forward": "Forward: the network",
    "logits": "Logits: guidance, truncation, softmax",
    "decide": "Decide: draw, verify, keep",
}
"""Fields of `Milliseconds` in words."""
_STAGE_LOOKS: Final = ((NEUTRAL, "/"), (BLUE, ""), (VERMILLION, "."), (GREEN, "x"))
_ROOM: Final = 1.75
"""Length of an axis relative to its longest bar, so that the number fits next to the bar."""


@Figure(
    name="race",
    title="The race to the last token",
    paper="SCD, Table 1 (NFE and latency), step by step",
    caption="Final tokens by forward passes and by measured time. Ordinary decoding adds one token a pass. A run can "
    "win in passes and lose in time, when its passes process more tokens.",
    accepts=lambda trace: bool(trace.steps),
    requirement="steps",
    limit="runs",
)
def _race(traces: Traces) -> go.Figure:
    timed = any(trace.summary.seconds for trace in traces)
    heads = ["By forward passes", "By time"] if timed else [""]
    figure = side_by_side(heads, shared_yaxes=True, horizontal_spacing=0.05)
    for i, (name, trace) in enumerate(zip(labels(traces), traces, strict=True)):
        run = progress_curve(trace.steps)
        passes = tuple(range(len(run.tokens)))
        clocks = [(passes, "forward passes")] + ([(run.milliseconds, "ms")] if trace.summary.seconds else [])
        for panel, (clock, unit) in enumerate(clocks, start=1):
            hover, placement = f"%{{y}} tokens after %{{x:.4~g}} {unit}", in_panel(panel, i)
            step_curve(figure, i, name, (clock, run.tokens), hover, **placement)
            dots(figure, i, name, (clock[-1:], run.tokens[-1:]), hover, **placement | {"showlegend": False})
    axes(figure, "Forward passes", "Tokens decoded").update_xaxes(rangemode="tozero")
    return figure.update_xaxes(title_text="Time (ms)", col=2) if timed else figure


@Figure(
    name="latency",
    title="Where the time of a forward pass goes",
    paper="SCD, Table 4",
    caption="Mean milliseconds of a forward pass by stage, as measured in the run. Forward and logits are the model; "
    "preparing and deciding are the method. Times hold for this machine and batch.",
    accepts=lambda trace: trace.summary.seconds > 0,
    requirement="measured times",
    limit="runs",
)
def _latency(traces: Traces) -> go.Figure:
    breakdowns = [{stage.name: stage for stage in latency_breakdown(trace.steps)} for trace in traces]
    sums = [" + ".join(f"{row[name].mean_milliseconds:.2f}" for name in STAGES) + " ms" for row in breakdowns]
    names = [f"{name}<br>{figures}" for name, figures in zip(labels(traces), sums, strict=True)]
    figure = go.Figure()
    for (stage, words), (color, pattern) in zip(STAGES.items(), _STAGE_LOOKS, strict=True):
        rows = [breakdown[stage] for breakdown in breakdowns]
        look: Look = {"marker": {"color": color, "pattern": hatched(pattern)}, "orientation": "h"}
        look["customdata"] = [[row.median_milliseconds, row.share] for row in rows]
        hover = "mean %{x:.3f} ms, median %{customdata[0]:.3f} ms, %{customdata[1]:.1%} of the time"
        bars(figure, 0, words, ([row.mean_milliseconds for row in rows], names), hover, **look)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_layout(legend_traceorder="normal", barmode="stack")
    return axes(figure, "Mean time per forward pass (ms)", height=240 + 56 * len(traces))


@Figure(
    name="comparison",
    title="What each run cost",
    paper="SCD, Tables 1 and 3",
    caption="Totals of each run; in brackets the gain over the first run (hatched), per token: more than 1× is better. "
    "Query tokens are the tokens fed to the network. Accepted drafts are counted up to the first rejection of each "
    "pass. Times are left out where a run has none.",
    accepts=lambda trace: bool(trace.steps),
    requirement="steps",
    limit="runs",
    refuses=lambda traces: "needs at least 2 runs" if len(traces) < 2 else None,
)
def _comparison(traces: Traces) -> go.Figure:
    rows = run_reports(traces)
    columns: dict[str, list[tuple[float, str]]] = {
        "Target passes": [_gain(row.passes, row.pass_ratio) for row in rows],
        "Time (ms)": [_gain(1000 * row.trace.summary.seconds, row.time_ratio) for row in rows],
        "Query tokens": [_gain(row.trace.summary.query_tokens, row.query_token_ratio) for row in rows],
        "Drafts accepted (%)": [
            (0.0, "no drafts") if (rate := row.trace.summary.acceptance) is None else (100 * rate, f"{100 * rate:,.0f}")
            for row in rows
        ],
    }
    if not all(row.trace.summary.seconds for row in rows):
        del columns["Time (ms)"]
    figure = make_subplots(rows=1, cols=len(columns), shared_yaxes=True, horizontal_spacing=0.03)
    for panel, (head, values) in enumerate(columns.items(), start=1):
        look: Look = {"marker": {"color": BLUE, "pattern": hatched(["/", *[""] * (len(rows) - 1)])}, "orientation": "h"}
        text: Look = {"textposition": "outside", "textfont": {"size": 11}, "cliponaxis": False, "showlegend": False}
        text["text"] = [label for _, label in values]
        points, hover = ([value for value, _ in values], labels(traces)), "%{y}: %{text}<extra></extra>"
        bars(figure, 0, "", points, hover, **look, **text, row=1, col=panel)
        longest = max([value for value, _ in values] + [1.0])
        figure.update_xaxes(title_text=head, range=[0, _ROOM * longest], nticks=4, row=1, col=panel)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure.update_layout(height=220 + 44 * len(rows))


def _gain(value: float, ratio: float | None) -> tuple[float, str]:
    return value, f"{value:,.0f}" if ratio is None else f"{value:,.0f} ({ratio:.2f}×)"


@Figure(
    name="hindsight",
    title="What the best choice of every pass would have saved",
    caption="What a run took up to each pass, and the least that would have done, as it is known after the run. Of "
    "drafts: those that were accepted. Of a draft graph: the rows of the accepted path. Of a window: as far as the "
    "last draft that stayed until it was accepted. Of verifications: those that did more than confidence would have. "
    "Of a confidence threshold: the lowest, pass by pass, that would have been right. The last three are estimates: "
    "tokens known earlier could change what is predicted next.",
    accepts=lambda trace: oracle_savings(trace) is not None,
    requirement="choices: drafts, a window, verifications or a confidence threshold",
    limit="panels",
)
def _oracle_savings(traces: Traces) -> go.Figure:
    runs = [one for trace in traces if (one := oracle_savings(trace))]
    heads = [
        f"{name}<br>{run.best} of {run.spent} {run.unit} were needed"
        for name, run in zip(labels(traces), runs, strict=True)
    ]
    figure = side_by_side(heads, horizontal_spacing=0.09)
    for panel, run in enumerate(runs, start=1):
        ways = {
            "as decoded": [one.spent for one in run.choices],
            "needed, known afterwards": [one.best for one in run.choices],
        }
        at = [one.step + 1 for one in run.choices]
        for i, (name, counts) in enumerate(ways.items()):
            points, hover = (at, list(accumulate(counts))), f"%{{y}} {run.unit} by pass %{{x}}"
            step_curve(figure, i, name, points, hover, **in_panel(panel, i))
    axes(figure, "Forward pass", *(f"{run.unit.capitalize()} ({run.setting})" for run in runs), height=460)
    return figure.update_xaxes(rangemode="tozero")


def _repeated(traces: Traces) -> Mapping[str, tuple[Trace, ...]]:
    """Return runs that differ in their seed alone, by name, where there are at least two whole ones."""
    return {name: runs for name, runs in group_runs(traces).items() if len(runs_by_seed(runs)) > 1}


def _not_repeated(traces: Traces) -> str | None:
    groups = _repeated(traces)
    if not groups:
        return "needs whole runs that differ in their seed alone"
    if len({trace.prompt for runs in groups.values() for trace in runs}) > 1:
        return "needs runs of one prompt"
    return f"draws up to {MAX_GROUPS} settings, {len(groups)} given" if len(groups) > MAX_GROUPS else None


@Figure(
    name="seeds",
    title="What every seed took",
    caption="Each grey line is one seed, decoded with one setting after another. Large marks are means with one "
    "standard error over seeds. Passes of a draft model are left out; times are those of single runs on one machine.",
    accepts=lambda trace: trace.summary.complete,
    requirement="whole runs",
    refuses=_not_repeated,
)
def _seeds(traces: Traces) -> go.Figure:
    groups = _repeated(traces)
    panels: dict[str, Callable[[Trace], float | None]] = {"Passes of the target": target_forwards}
    if all(seconds(trace) for runs in groups.values() for trace in runs):
        panels["Seconds"] = seconds
    figure = side_by_side(list(panels), horizontal_spacing=0.12)
    for panel, of in enumerate(panels.values(), start=1):
        _fill_seeds(figure, panel, groups, of)
    names = ["<br>".join(wrap(name, 22, break_long_words=False)) for name in groups]
    axes(figure, "", "Target passes", "Seconds of decoding", height=480)
    ends = [-0.5, len(groups) - 0.5]
    return figure.update_xaxes(tickvals=list(range(len(groups))), ticktext=names, range=ends, title_text=None)


def _fill_seeds(
    figure: go.Figure, panel: int, groups: Mapping[str, Sequence[Trace]], of: Callable[[Trace], float | None]
) -> None:
    """Draw a line for each seed, and a mean with its standard error for each setting."""
    values = [{seed: of(trace) for seed, trace in runs_by_seed(runs).items()} for runs in groups.values()]
    placement: Look = {"row": 1, "col": panel}
    grey: Look = {"line": {"color": NEUTRAL, "width": 1}, "marker": {"color": NEUTRAL, "size": 4}, "opacity": 0.55}
    for index, seed in enumerate(sorted({seed for each in values for seed in each})):
        points = [i for i, each in enumerate(values) if seed in each], [each[seed] for each in values if seed in each]
        entry: Look = {"legendgroup": "seed", "showlegend": panel == 1 and index == 0}
        curve(figure, 0, "one seed", points, f"seed {seed}: %{{y:.4~g}}<extra></extra>", **grey, **entry, **placement)
    for index, (name, each) in enumerate(zip(groups, values, strict=True)):
        mean = estimate([value for value in each.values() if value is not None])
        hover = f"{mean.mean:.4g} ± {mean.error or 0:.2g}<extra></extra>"
        label, error = f"{name}, mean of {mean.runs} seeds", [mean.error or 0.0]
        dots(figure, index, label, ([index], [mean.mean]), hover, **error_bars(error), **in_panel(panel, index))
