"""How often drafts are accepted by their place in the draft."""

from math import sqrt
from typing import Final

import plotly.graph_objects as go

from traces.places import Place, Places, by_place
from traces.schema import Trace
from visualizers.figure import Figure, Traces, grouped, in_panel, missing, side_by_side
from visualizers.figures.densities import few
from visualizers.style import series

FEWEST: Final = 5
"""Verdicts that a conditional rate needs to be drawn."""
MOST_PLACES: Final = 32
_CONDITIONAL, _MARGINAL = "Of the drafts judged there", "Of all passes that verified drafts"


def _verified(trace: Trace) -> bool:
    return by_place([trace.steps]) is not None


def _drawing(traces: Traces, step: int | None) -> go.Figure:
    runs = grouped([trace for trace in traces if _verified(trace)])
    found = {name: places for name, each in runs.items() if (places := by_place(run.steps for run in each))}
    known = any(_conditional(places) for places in found.values())
    titles = [_CONDITIONAL, _MARGINAL] if known else [_MARGINAL]
    figure = side_by_side(titles, horizontal_spacing=0.11)
    for i, (name, places) in enumerate(found.items()):
        count = len(runs[name])
        said = name if count == 1 else f"{name}, {count} runs"
        label = f"{said}: mean accepted length {places.mean_accepted_length:.2f}"
        marginal = [(place, place.marginal, places.passes) for place in places.places[:MOST_PLACES]]
        curves = [_conditional(places), marginal] if known else [marginal]
        for panel, curve in enumerate(curves, start=1):
            figure.add_scatter(
                x=[place.number for place, _, _ in curve],
                y=[100 * rate for _, rate, _ in curve],
                error_y={"array": [100 * sqrt(rate * (1 - rate) / of) for _, rate, of in curve], "thickness": 1.2},
                customdata=[[place.accepted, of] for place, _, of in curve],
                name=label,
                **series(i).curve(8),
                hovertemplate="place %{x}: %{y:.1f} %, %{customdata[0]} of %{customdata[1]}",
                **in_panel(panel, i),
            )
    longest = min(MOST_PLACES, max(len(places.places) for places in found.values()))
    figure.update_xaxes(title_text="Place in the draft", range=[0.5, longest + 0.5])
    if longest <= 12:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title_text="Drafts accepted (%)", range=[0, 104])
    return figure.update_layout(height=460, showlegend=True)


def _conditional(places: Places) -> list[tuple[Place, float, int]]:
    """Place, rate and verdicts where there are enough of these."""
    return [
        (place, place.conditional, place.judged)
        for place in places.places[:MOST_PLACES]
        if place.conditional is not None and place.judged is not None and place.judged >= min(FEWEST, places.passes)
    ]


BY_PLACE = Figure(
    name="by-place",
    title="Acceptance by place in the draft",
    caption=(
        "How often the first draft of a pass is accepted, the second, and so on. Left: of the drafts that were judged "
        f"at a place, where there are at least {FEWEST}; a curve that falls says that later drafts are worse. Right: "
        "of all passes that verified drafts, which vLLM calls the per-position acceptance rate; where the curve has "
        "fallen to nothing, longer drafts gain nothing. The rates on the right add up to the mean accepted length; "
        "mean acceptance length (vLLM) and accept length (SGLang) count the pass's own token, too, and are one more. "
        "In a draft graph the place is the level. Runs that differ in seed or prompt alone are taken together; error "
        f"bars are standard errors. At most {MOST_PLACES} places are drawn."
    ),
    paper="",
    supports=lambda traces: (
        missing(traces, _verified, "drafts that were verified") or few([trace for trace in traces if _verified(trace)])
    ),
    drawing=_drawing,
)
