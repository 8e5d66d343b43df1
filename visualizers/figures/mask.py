"""The attention mask of a forward pass."""

import re
from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from draftscope.traces.schema import Mask, Trace
from draftscope.visualizers.figure import Figure, Traces, panels_at, select_pass
from draftscope.visualizers.palette import BLUE
from draftscope.visualizers.plot import plain, thin_ticks
from draftscope.visualizers.style import NEUTRAL, Look, discrete_colorscale, translucent

MAX_LABELS: Final = 36
"""Labels along one axis of a panel; beyond that, every few are written."""


def cells(mask: Mask) -> list[list[int]]:
    """Return 1 where a query sees a key and 0 where it does not [queries, keys]."""
    return [[index % 2 for index, length in enumerate(runs) for _ in range(length)] for runs in mask.runs]


def pass_with_mask(trace: Trace, step: int | None) -> int | None:
    """Return the pass whose mask to show, from 1; None if no pass has one.

    Args:
        trace: Run.
        step: The last pass up to this one is chosen; None for the first that has the most queries.
    """
    return select_pass({n: len(each.mask.queries) for n, each in enumerate(trace.steps, start=1) if each.mask}, step)


def boundaries(names: Sequence[str]) -> list[float]:
    """Return the boundaries between kinds of labels; a kind is a label without the number at its end."""
    kinds = [name.rstrip("0123456789") for name in names]
    return [index - 0.5 for index in range(1, len(kinds)) if kinds[index] != kinds[index - 1]]


def numbered(labels: Sequence[str]) -> list[str]:
    """Return labels as they are shown: a trace numbers positions from 0, what is shown from 1."""
    return [re.sub(r"\d+$", lambda number: str(int(number[0]) + 1), plain(label)) for label in labels]


@Figure(
    name="mask",
    title="The attention mask of a forward pass",
    paper="S2D2, Fig. 1 (c); SimSD, Fig. 2 (c)",
    caption="A row is a position that is computed (query), a column one that it may attend to (key); a filled cell "
    "says that it may. Lines separate kinds of tokens, such as cached ones, drafts and mask tokens.",
    accepts=lambda trace: pass_with_mask(trace, None) is not None,
    requirement="a recorded attention mask",
    limit="panels",
    takes_step=True,
)
def _draw(traces: Traces, step: int | None) -> go.Figure:
    chosen = [pass_with_mask(trace, step) or 1 for trace in traces]
    figure, moment = panels_at(traces, chosen, horizontal_spacing=0.12)
    masks = [mask for trace, at in zip(traces, chosen, strict=True) if (mask := trace.steps[at - 1].mask) is not None]
    for panel, mask in enumerate(masks, start=1):
        _panel(figure, mask, panel, len(traces))
    tallest = max(len(mask.queries) for mask in masks)
    for name, color, symbol in (("the query sees the key", BLUE, "square"), ("it does not", NEUTRAL, "square-open")):
        key = {"color": color, "symbol": symbol, "size": 11}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=key, row=1, col=1)
    mode = plain(traces[0].steps[chosen[0] - 1].call.mode)
    title = f"Attention mask of {moment} ({mode})" if len(traces) == 1 else "Attention masks"
    height = max(420, min(900, 190 + tallest * (16 if len(traces) == 1 else 11)))
    return figure.update_layout(height=height, title_text=title, showlegend=True)


def _panel(figure: go.Figure, mask: Mask, panel: int, panels: int) -> None:
    queries, keys, sees = numbered(mask.queries), numbered(mask.keys), cells(mask)
    verbs, where = ("does not see", "sees"), {"row": 1, "col": panel}
    text = [
        [f"query {query} {verbs[seen]} key {key}" for key, seen in zip(keys, row, strict=True)]
        for query, row in zip(queries, sees, strict=True)
    ]
    look: Look = {"zmin": -0.5, "zmax": 1.5, "colorscale": discrete_colorscale([translucent(NEUTRAL, 0.12), BLUE])}
    look |= {"showscale": False, "xgap": 1, "ygap": 1, "hovertemplate": "%{text}<extra></extra>"}
    figure.add_heatmap(z=sees, text=text, **look, **where)
    line = {"color": NEUTRAL, "width": 2}
    for boundary in boundaries(keys):
        figure.add_vline(x=boundary, line=line, **where)
    for boundary in boundaries(queries):
        figure.add_hline(y=boundary, line=line, **where)
    bare = {"showgrid": False, "zeroline": False, **where}
    figure.update_xaxes(title_text="Key (what is seen)", tickangle=-90, **_ticks(keys, MAX_LABELS // panels), **bare)
    figure.update_yaxes(range=[len(queries) - 0.5, -0.5], **_ticks(queries, MAX_LABELS), **bare)
    figure.update_yaxes(title_text="Query (who sees)", row=1, col=1)


def _ticks(names: list[str], maximum: int) -> dict[str, object]:
    ticks = thin_ticks(names, maximum)
    return {"tickvals": list(range(len(names)))[ticks], "ticktext": names[ticks]}
