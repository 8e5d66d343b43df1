"""Agreement of the distributions that draft and that verify, along the denoising of a block."""

import plotly.graph_objects as go

from draftscope.analysis.block_stats import agreement_by_denoising_step
from draftscope.analysis.seeds import Estimate
from draftscope.visualizers.figure import Figure, Traces, group_runs, with_count
from draftscope.visualizers.plot import axes, curve, error_bars, in_panel, side_by_side


@Figure(
    name="denoising",
    title="How alike draft and target are along denoising",
    paper="SCD, Fig. 3, for block diffusion",
    caption="β is the probability that a draft is accepted by ratio: 1 minus the total variation (TV) between the "
    "distribution it was drafted from and the one that verified it; the other panel has their KL divergence, where it "
    "was recorded. A denoising step is a pass that makes tokens of its block final. Means over the drafts verified in "
    "that step of any block, with standard errors: over runs, or over the drafts of a single run.",
    accepts=lambda trace: bool(agreement_by_denoising_step([trace.steps])),
    requirement="drafts verified in blocks, with the measure `tv`",
    limit="groups",
)
def _denoising(traces: Traces) -> go.Figure:
    groups = group_runs(traces)
    rows = {name: agreement_by_denoising_step([trace.steps for trace in runs]) for name, runs in groups.items()}
    heads = ["Overlap β", *(["KL divergence"] if any(row.kl for each in rows.values() for row in each) else [])]
    figure = side_by_side(heads, horizontal_spacing=0.1)
    for i, (name, each) in enumerate(rows.items()):
        measures: list[list[Estimate | None]] = [[row.beta for row in each], [row.kl for row in each]]
        for panel, values in enumerate(measures, start=1):
            known = [(row, value) for row, value in zip(each, values, strict=True) if value is not None]
            if not known:
                continue
            points = [row.number for row, _ in known], [value.mean for _, value in known]
            more = {"customdata": [row.drafts for row, _ in known], **in_panel(panel, i)}
            hover = "step %{x}: %{y:.3f}, %{customdata} drafts"
            error = error_bars([value.error or 0.0 for _, value in known])
            curve(figure, i, with_count(name, groups[name]), points, hover, **error, **more)
    axes(figure, "Denoising step of the block", "Overlap β, 1 – total variation", "KL divergence (nats)")
    last = max(row.number for each in rows.values() for row in each)
    figure.update_yaxes(range=[0, 1.03], col=1)
    return figure.update_xaxes(range=[0.5, last + 0.5], dtick=1 if last <= 12 else None)
