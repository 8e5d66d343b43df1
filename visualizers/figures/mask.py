"""The attention mask of a forward pass."""

from typing import Final

import plotly.graph_objects as go

from traces.schema import Mask, Trace
from visualizers.figure import Figure, Traces, labels, missing, plain, side_by_side, thinned, too_many
from visualizers.palette import BLUE
from visualizers.style import NEUTRAL, levels, translucent

MOST_LABELS: Final = 36
"""Labels along one axis of a panel; beyond that, every few are written."""


def cells(mask: Mask) -> list[list[int]]:
    """Return 1 where a query sees a key and 0 where it does not [queries, keys]."""
    return [[index % 2 for index, length in enumerate(runs) for _ in range(length)] for runs in mask.runs]


def masked_pass(trace: Trace, step: int | None) -> int | None:
    """Return the pass whose mask to show: the last up to `step`, else the first that has the most queries."""
    found = [(index, found.mask) for index, found in enumerate(trace.steps, start=1) if found.mask is not None]
    if step is None:
        return max(found, key=lambda pair: len(pair[1].queries), default=(None, None))[0]
    return max((index for index, _ in found if index <= step), default=found[0][0] if found else None)


def borders(names: tuple[str, ...]) -> list[float]:
    """Return where one kind of label ends and the next begins; a kind is a label without the number behind it."""
    kinds = [name.rstrip("0123456789") for name in names]
    return [place - 0.5 for place in range(1, len(kinds)) if kinds[place] != kinds[place - 1]]


def _has(trace: Trace) -> bool:
    return masked_pass(trace, None) is not None


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    chosen = [masked_pass(trace, step) or 1 for trace in drawn]
    said = [f"forward pass {moment} of {len(trace.steps)}" for moment, trace in zip(chosen, drawn, strict=True)]
    modes = [plain(trace.steps[moment - 1].call.mode) for moment, trace in zip(chosen, drawn, strict=True)]
    heads = [f"{name}<br>{words}" for name, words in zip(labels(drawn), said, strict=True)]
    figure = side_by_side(heads, horizontal_spacing=0.12)
    tallest = 0
    for panel, (trace, moment) in enumerate(zip(drawn, chosen, strict=True), start=1):
        mask = trace.steps[moment - 1].mask
        if mask is not None:
            _panel(figure, mask, panel, len(drawn))
            tallest = max(tallest, len(mask.queries))
    for name, color, symbol in (("the query sees the key", BLUE, "square"), ("it does not", NEUTRAL, "square-open")):
        key = {"color": color, "symbol": symbol, "size": 11}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=key, row=1, col=1)
    title = f"Attention mask of {said[0]} ({modes[0]})" if len(drawn) == 1 else "Attention masks"
    height = max(420, min(900, 190 + tallest * (16 if len(drawn) == 1 else 11)))
    return figure.update_layout(height=height, title_text=title, showlegend=True)


def _panel(figure: go.Figure, mask: Mask, panel: int, panels: int) -> None:
    queries, keys = [tuple(map(plain, names)) for names in (mask.queries, mask.keys)]
    sees = cells(mask)
    words = [
        [f"query {query} {'sees' if seen else 'does not see'} key {key}" for key, seen in zip(keys, row, strict=True)]
        for query, row in zip(queries, sees, strict=True)
    ]
    figure.add_heatmap(
        z=sees,
        text=words,
        zmin=-0.5,
        zmax=1.5,
        colorscale=levels([translucent(NEUTRAL, 0.12), BLUE]),
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate="%{text}<extra></extra>",
        row=1,
        col=panel,
    )
    for place in borders(keys):
        figure.add_vline(x=place, line={"color": NEUTRAL, "width": 2}, row=1, col=panel)
    for place in borders(queries):
        figure.add_hline(y=place, line={"color": NEUTRAL, "width": 2}, row=1, col=panel)
    bare = {"showgrid": False, "zeroline": False, "row": 1, "col": panel}
    shown = thinned(keys, MOST_LABELS // panels)
    figure.update_xaxes(
        title_text="Key (what is seen)",
        tickvals=list(range(len(keys)))[shown],
        ticktext=keys[shown],
        tickangle=-90,
        **bare,
    )
    shown = thinned(queries, MOST_LABELS)
    ticks = {"tickvals": list(range(len(queries)))[shown], "ticktext": queries[shown]}
    figure.update_yaxes(range=[len(queries) - 0.5, -0.5], **ticks, **bare)
    figure.update_yaxes(title_text="Query (who sees)", row=1, col=1)


MASK = Figure(
    name="mask",
    title="The attention mask of a forward pass",
    caption=(
        "Which places a forward pass may look at while it computes others. Each row is a place that is computed, "
        "called a query, each column a place to look at, called a key; a filled cell says that the query may look "
        "at the key. Lines part kinds of tokens, such as cached ones, drafts and mask tokens. The pass is the last "
        "one with a mask up to the given step, or the one with most queries when no step is given."
    ),
    paper="S2D2, Fig. 1 (c); SimSD, Fig. 2 (c)",
    supports=lambda traces: missing(traces, _has, "a recorded attention mask") or too_many(traces, _has),
    drawing=_draw,
    stepped=True,
)
