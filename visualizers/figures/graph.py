"""The draft graph of a pass: which sets of drafts were verified, and which were accepted."""

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from traces.replay import state_after
from traces.schema import Node, Step, Token, Trace
from visualizers.figure import Figure, Traces, panels_at, pass_to_show
from visualizers.palette import BLUE
from visualizers.plot import plain
from visualizers.style import NEUTRAL, Look

LOOKS: Final = {"kept": ("star", BLUE), "accepted": ("circle", BLUE), "rejected": ("x-open", NEUTRAL)}
"""What became of a node -> symbol and colour."""

AROUND: Final = 4
"""Tokens that a label shows to each side of the last draft."""

Place = tuple[int, int]
"""Level of a node, and its index within the level."""


def pass_with_graph(trace: Trace, step: int | None) -> int | None:
    """Return the pass whose graph to show: the last up to `step`, else the first whose drafts went deepest."""
    graphs = {number: each.graph for number, each in enumerate(trace.steps, start=1) if each.graph}
    return pass_to_show(
        {n: max(len(node.positions) * node.accepted for node in graph) for n, graph in graphs.items()}, step
    )


def places(graph: Sequence[Node]) -> list[Place]:
    """Return the place of every node."""
    levels = [len(node.positions) for node in graph]
    return [(level, levels[:index].count(level)) for index, level in enumerate(levels)]


def _name(trace: Trace, token: Token | None) -> str:
    """What a token is called."""
    if not isinstance(token, int):
        return "?"
    return plain((trace.legend.vocabulary or {}).get(token, f"#{token}").replace("\n", "↵"))


def _words(trace: Trace, step: Step) -> dict[int, str]:
    """Return the drafted token at every position."""
    drafts = step.draft or (None,) * len(step.position)
    words: dict[int, str] = {}
    for position, draft, token in zip(step.position, drafts, step.token or drafts, strict=True):
        words.setdefault(position, _name(trace, token if draft is None else draft))
    return words


def _labels(trace: Trace, number: int, words: dict[int, str]) -> list[str]:
    """What a node of a pass's graph adds: of a text, in the words around it, drafts in bold and open places as ▢."""
    before = state_after(trace, number - 1)
    labels = []
    for node in trace.steps[number - 1].graph or ():
        if not node.positions:
            labels.append("no drafts")
            continue
        last = node.positions[-1]
        if trace.canvas.kind != "text":
            labels.append(f"+ {words.get(last, '?').strip() or '␣'}")
            continue
        drafted = {position: words.get(position, "?") for position in node.positions}
        parts = [
            f"<b>{drafted[position].strip(' ') or '␣'}</b>"
            if position in drafted
            else _name(trace, before.tokens[position])
            if before.final[position]
            else "▢"
            for position in range(max(0, last - AROUND), min(len(before.final), last + AROUND))
        ]
        labels.append("".join(parts).replace(plain("<end>"), "").strip())
    return labels


@Figure(
    name="graph",
    title="Drafts of later steps",
    paper="PSD, Fig. 1",
    caption="The sets of open positions that were drafted in one pass, by their size; below a mark is the text around "
    "the least confident token it adds: drafts bold, open positions as boxes. A set is accepted when an accepted "
    "smaller set's distributions accept what it adds (thick line); the largest accepted set is kept (star).",
    needs=lambda trace: pass_with_graph(trace, None) is not None,
    needed="a draft graph",
    at_most="panels",
    stepped=True,
)
def _draw(traces: Traces, step: int | None) -> go.Figure:
    chosen = [pass_with_graph(trace, step) or 1 for trace in traces]
    figure, moment = panels_at(traces, chosen)
    for panel, (trace, number) in enumerate(zip(traces, chosen, strict=True), start=1):
        drafting = trace.steps[number - 1]
        graph = drafting.graph or ()
        at = places(graph)
        _draw_edges(figure, graph, at, panel)
        _draw_nodes(figure, at, trace, number, panel)
        # Room for the labels below the outermost marks.
        levels = [-0.6, max((level for level, _ in at), default=0) + 0.6]
        rows = [max((place for _, place in at), default=0) + 0.8, -0.6]
        where = {"row": 1, "col": panel, "zeroline": False}
        figure.update_xaxes(title_text="Level: drafted positions", dtick=1, range=levels, **where)
        bare = {"showticklabels": False, "showgrid": False, "ticks": ""}
        figure.update_yaxes(title_text="Sets of the level", range=rows, **bare, **where)
    title = f"Drafts of {moment}" if len(traces) == 1 else "Drafts of later steps"
    return figure.update_layout(height=460, title_text=title, showlegend=True)


def _draw_edges(figure: go.Figure, graph: Sequence[Node], at: Sequence[Place], panel: int) -> None:
    """Join nodes with those one level below, and with those under whose distributions they were accepted."""
    parents = [(p, k) for k, node in enumerate(graph) for p in node.parents if at[p][0] + 1 == at[k][0]]
    accepted = [(p, k) for k, node in enumerate(graph) for p in node.vouched_by]
    dotted, thick = {"color": NEUTRAL, "width": 1, "dash": "dot"}, {"color": BLUE, "width": 2.5, "dash": "solid"}
    for name, pairs, line in (("parent", parents, dotted), ("accepted under", accepted, thick)):
        x, y = ([value for p, k in pairs for value in (at[p][i], at[k][i], None)] for i in (0, 1))
        look: Look = {"mode": "lines", "line": line, "hoverinfo": "skip", "legendgroup": name}
        figure.add_scatter(x=x, y=y, name=name, showlegend=panel == 1, row=1, col=panel, **look)


def _draw_nodes(figure: go.Figure, at: Sequence[Place], trace: Trace, number: int, panel: int) -> None:
    """Mark the nodes by what became of them; each is labelled with what it adds, the least confident token."""
    step = trace.steps[number - 1]
    graph, words, winner = step.graph or (), _words(trace, step), step.signals.get("winner")
    fates = ["kept" if k == winner else "accepted" if node.accepted else "rejected" for k, node in enumerate(graph)]
    texts = [[words.get(position, "?").strip() or "␣" for position in node.positions] for node in graph]
    labels = _labels(trace, number, words)
    for name, (symbol, color) in LOOKS.items():
        members = [k for k, fate in enumerate(fates) if fate == name]
        look: Look = {"marker": {"symbol": symbol, "size": 15, "color": color}, "legendgroup": name}
        look |= {"textposition": "bottom center", "textfont": {"size": 11}, "cliponaxis": False}
        figure.add_scatter(
            x=[at[k][0] for k in members],
            y=[at[k][1] for k in members],
            mode="markers+text",
            text=[labels[k] for k in members],
            customdata=[", ".join(texts[k]) or "no drafts" for k in members],
            name=name,
            showlegend=panel == 1,
            hovertemplate=f"%{{customdata}}<extra>{name}</extra>",
            row=1,
            col=panel,
            **look,
        )
