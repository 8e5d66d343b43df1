"""Drafts of many runs: how many pass by one setting and along the sequence, and what their ratios are on average."""

from collections.abc import Mapping
from math import exp, prod, sqrt
from statistics import fmean, stdev
from typing import Any, Final

import plotly.graph_objects as go

from traces.schema import Fate, Trace
from traces.stats import acceptance_by_position, evaluated_drafts
from visualizers.figure import Figure, Traces, grouped, missing, plain, side_by_side
from visualizers.figures.by_setting import by_value
from visualizers.figures.densities import few, judged
from visualizers.style import NEUTRAL, series
from visualizers.summary import Mean, mean_of, spread

BINS: Final = 8
"""Parts of the sequence that positions are gathered in."""
FEWEST: Final = 5
"""Verdicts a part needs to be drawn."""


def acceptances(trace: Trace) -> tuple[float, float] | None:
    """Drafts kept over drafts judged, which end with the first rejection, and over all drafts that were evaluated."""
    made, drafts = trace.summary, sum(evaluated_drafts(step) for step in trace.steps)
    return (made.accepted / made.judged, made.accepted / drafts) if drafts else None


def tries(trace: Trace) -> float | None:
    """Mean number of proposals behind a replacement; None where none was recorded."""
    found = [one.value for one in judged(trace, "tries")]
    return fmean(found) if found else None


def swept(traces: Traces) -> tuple[str, Mapping[str, Mapping[Any, tuple[Trace, ...]]]] | None:
    """Return the setting that takes most values where nothing else changes, and the runs by it; None without any."""
    drafted = [trace for trace in traces if acceptances(trace) is not None]
    names = dict.fromkeys(name for trace in drafted for name in trace.config)
    found = {name: groups for name in names if (groups := by_value(drafted, name))}
    if not found:
        return None
    most = max(found, key=lambda name: len({value for each in found[name].values() for value in each}))
    return most, found[most]


def _by_setting(traces: Traces, step: int | None) -> go.Figure:
    setting, groups = swept(traces) or ("", {})
    proposed = any(tries(run) is not None for sweep in groups.values() for runs in sweep.values() for run in runs)
    figure = side_by_side(["Drafts kept", *(["Tries"] if proposed else [])], horizontal_spacing=0.11)
    for i, (name, sweep) in enumerate(groups.items()):
        look, x = series(i), [value if isinstance(value, int | float) else str(value) for value in sweep]
        rates = [[rate for run in runs if (rate := acceptances(run)) is not None] for runs in sweep.values()]
        for part, said in enumerate(("of those judged", "of those evaluated")):
            means = [mean_of([100 * rate[part] for rate in each]) for each in rates]
            marker = {**look.marker(9), "symbol": look.symbol + "-open" * part}
            line = {**look.line, "width": 2 - 0.8 * part}
            hover = f"{plain(setting)} %{{x}}: %{{y:.1f}} % {said}"
            _curve(figure, 1, (x, means), {"name": f"{name}, {said}", "marker": marker, "line": line}, hover)
        if proposed:
            found = [mean_of(counts) if (counts := _tries(runs)) else None for runs in sweep.values()]
            shared = {"name": name, "showlegend": False, "marker": look.marker(9), "line": look.line}
            _curve(figure, 2, (x, found), shared, f"{plain(setting)} %{{x}}: %{{y:.2f}} tries")
    figure.update_xaxes(title_text=plain(setting))
    figure.update_yaxes(title_text="Drafts kept (%)", rangemode="tozero", col=1)
    if proposed:
        figure.update_yaxes(title_text="Tries per replacement", rangemode="tozero", col=2)
    return figure.update_layout(height=460, showlegend=True)


def _tries(runs: tuple[Trace, ...]) -> list[float]:
    return [count for run in runs if (count := tries(run)) is not None]


def _curve(
    figure: go.Figure, panel: int, points: tuple[list[Any], list[Any]], look: dict[str, Any], hover: str
) -> None:
    x, means = points
    drawn: list[tuple[Any, Mean]] = [(value, mean) for value, mean in zip(x, means, strict=True) if mean is not None]
    figure.add_scatter(
        **look,
        x=[value for value, _ in drawn],
        y=[mean.value for _, mean in drawn],
        error_y=spread([mean for _, mean in drawn]),
        mode="lines+markers",
        hovertemplate=hover,
        row=1,
        col=panel,
    )


def _has_verdicts(trace: Trace) -> bool:
    return acceptances(trace) is not None


def _along(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _has_verdicts(trace)]).items()):
        verdicts, passed = [0] * BINS, [0] * BINS
        for run in runs:
            tallies = acceptance_by_position(run.steps, prod(run.canvas.shape))
            for position, tally in enumerate(tallies):
                place = position * BINS // len(tallies)
                verdicts[place] += tally.judged
                passed[place] += tally.accepted
        drawn = [k for k in range(BINS) if verdicts[k] >= FEWEST]
        look, share = series(i), sum(passed) / sum(verdicts)
        figure.add_scatter(
            x=[100 * (k + 0.5) / BINS for k in drawn],
            y=[100 * passed[k] / verdicts[k] for k in drawn],
            error_y={"array": [100 * _error(passed[k], verdicts[k]) for k in drawn], "thickness": 1.2},
            customdata=[verdicts[k] for k in drawn],
            name=f"{name}: {100 * share:.0f} % of {sum(verdicts)} kept",
            **look.curve(),
            hovertemplate="%{x:.0f} % along: %{y:.0f} % of %{customdata} drafts kept",
        )
    figure.update_xaxes(title_text="Place in the sequence (%)", range=[0, 100])
    figure.update_yaxes(title_text="Judged drafts kept (%)", rangemode="tozero")
    return figure.update_layout(height=460, showlegend=True)


def _error(passed: int, count: int) -> float:
    """Standard error of a share."""
    share = passed / count
    return sqrt(share * (1 - share) / count)


def _has_ratios(trace: Trace) -> bool:
    return len(judged(trace, "log_ratio")) > 1


def _means(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _has_ratios(trace)]).items()):
        verdicts = [one for run in runs for one in judged(run, "log_ratio")]
        ratios = [exp(min(one.value, 700)) for one in verdicts]  # beyond, it is no number any more
        kept = sum(one.fate is Fate.ACCEPTED for one in verdicts) / len(verdicts)
        mean, error = fmean(ratios), stdev(ratios) / sqrt(len(ratios))
        figure.add_scatter(
            x=[100 * kept],
            y=[mean],
            error_y={"array": [error], "thickness": 1.6},
            mode="markers",
            name=f"{name}: {mean:.3g} ± {error:.2g}",
            marker=series(i).marker(11),
            hovertemplate=f"mean ratio %{{y:.3f}} over {len(ratios)} drafts, %{{x:.1f}} % kept<extra></extra>",
        )
    figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    figure.update_xaxes(title_text="Judged drafts kept (%)", range=[0, 103])
    figure.update_yaxes(title_text="Mean ratio", rangemode="tozero")
    return figure.update_layout(height=460, showlegend=True)


BY_SETTING = Figure(
    name="by-setting",
    title="Drafts kept by one setting",
    caption=(
        "The share of drafts that were kept, by the setting that takes most values among the runs: of those judged, "
        "which end with the first rejection of a pass (filled), and of all that passes evaluated (open). Tries are the "
        "proposals it took to replace a rejected draft. Means over runs that differ in seed or prompt alone, error "
        "bars one standard deviation. Only complete runs count."
    ),
    paper="CSpD, Fig. 8 (draft length), Fig. 10 (tries, temperature, guidance) and Table 7 (DDIM)",
    supports=lambda traces: (
        missing(traces, _has_verdicts, "judged drafts")
        or (None if swept(traces) else "needs complete runs that differ in one setting")
    ),
    drawing=_by_setting,
)

ALONG = Figure(
    name="along",
    title="Drafts kept along the sequence",
    caption=(
        f"The share of judged drafts that were kept in each {BINS}th of the sequence, where at least {FEWEST} were "
        "judged, with standard errors; the legend has the share over all. Runs that differ in seed or prompt alone are "
        "taken together. A curve that begins low says that pre-filling pays."
    ),
    paper="CSpD, Fig. 9 and Table 5 (pre-filling)",
    supports=lambda traces: missing(traces, _has_verdicts, "judged drafts") or few(traces),
    drawing=_along,
)

RATIO_MEANS = Figure(
    name="ratio-means",
    title="Mean ratio of the judged drafts",
    caption=(
        "Mean of the ratio that drafts were judged by, with its standard error, over the share that was kept. Drafts "
        "are drawn from the distribution in the denominator, so that a ratio of two densities is 1 on average "
        "(dotted): what "
        "lies off biases the tokens. Where two distributions hardly overlap, as with a last denoising step as narrow "
        "as "
        "MAR's, the mean rests on drafts too rare to be seen, and comes out low. Where whole paths are judged, the "
        "ratio of all steps is cut at 1 on the way, and its mean is below 1 by design."
    ),
    paper="CSpD, Table 6 (likelihood ratios)",
    supports=lambda traces: (
        missing(traces, _has_ratios, "several judged drafts with `log_ratio`")
        or few([trace for trace in traces if _has_ratios(trace)])
    ),
    drawing=_means,
)
