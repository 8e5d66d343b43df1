"""The draft graph of a pass: which sets were tried, which held, who vouched for them."""

import plotly.graph_objects as go

from traces.schema import Node, Step, Trace
from visualizers.figure import Figure, Traces, labels, missing, plain, side_by_side, too_many
from visualizers.palette import BLUE
from visualizers.style import NEUTRAL


def graphed_pass(trace: Trace, step: int | None) -> int | None:
    """Return the pass whose graph to show: the last up to `step`, else the first whose drafts went deepest."""
    found = [(index, each.graph) for index, each in enumerate(trace.steps, start=1) if each.graph]
    if step is None:
        return max(found, key=lambda pair: _reached(pair[1]), default=(None, None))[0]
    return max((index for index, _ in found if index <= step), default=found[0][0] if found else None)


def _reached(graph: tuple[Node, ...]) -> int:
    return max((len(node.positions) for node in graph if node.accepted), default=0)


def places(graph: tuple[Node, ...]) -> list[tuple[int, int]]:
    """Return level and place within the level of every node."""
    used: dict[int, int] = {}
    found = []
    for node in graph:
        level = len(node.positions)
        used[level] = used.get(level, -1) + 1
        found.append((level, used[level]))
    return found


def _has(trace: Trace) -> bool:
    return graphed_pass(trace, None) is not None


def _words(trace: Trace, step: Step) -> dict[int, str]:
    """The drafted token at every position."""
    vocabulary = trace.legend.vocabulary or {}
    drafts = step.draft or (None,) * len(step.position)
    found: dict[int, str] = {}
    for position, draft, token in zip(step.position, drafts, step.token or drafts, strict=True):
        held = token if draft is None else draft
        name = vocabulary.get(held, f"#{held}") if isinstance(held, int) else "?"
        found.setdefault(position, plain(name.replace("\n", "↵").strip() or "␣"))
    return found


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    chosen = [graphed_pass(trace, step) or 1 for trace in drawn]
    said = [f"forward pass {moment} of {len(trace.steps)}" for moment, trace in zip(chosen, drawn, strict=True)]
    figure = side_by_side([f"{name}<br>{words}" for name, words in zip(labels(drawn), said, strict=True)])
    for panel, (trace, moment) in enumerate(zip(drawn, chosen, strict=True), start=1):
        _panel(figure, trace, trace.steps[moment - 1], panel)
    title = f"Drafts of {said[0]}" if len(drawn) == 1 else "Drafts of later steps"
    return figure.update_layout(height=460, title_text=title, showlegend=True)


def _panel(figure: go.Figure, trace: Trace, step: Step, panel: int) -> None:
    graph, words = step.graph or (), _words(trace, step)
    at = places(graph)
    where = {"row": 1, "col": panel}
    near = [(p, k) for k, n in enumerate(graph) for p in n.parents if len(graph[p].positions) + 1 == len(n.positions)]
    vouched = [(p, k) for k, node in enumerate(graph) for p in node.vouched_by]
    edges = (
        ("parent", near, {"color": NEUTRAL, "width": 1, "dash": "dot"}),
        ("vouched for it", vouched, {"color": BLUE, "width": 2.5, "dash": "solid"}),
    )
    for name, pairs, line in edges:
        figure.add_scatter(
            x=[x for p, k in pairs for x in (at[p][0], at[k][0], None)],
            y=[y for p, k in pairs for y in (at[p][1], at[k][1], None)],
            mode="lines",
            name=name,
            legendgroup=name,
            showlegend=panel == 1,
            line=line,
            hoverinfo="skip",
            **where,
        )
    won = step.signals.get("winner")
    kinds = {"kept": [], "accepted": [], "rejected": []}  # type: dict[str, list[int]]
    for k, node in enumerate(graph):
        kinds["kept" if k == won else "accepted" if node.accepted else "rejected"].append(k)
    for name, members in kinds.items():
        symbol = {"kept": "star", "accepted": "circle", "rejected": "x-open"}[name]
        figure.add_scatter(
            x=[at[k][0] for k in members],
            y=[at[k][1] for k in members],
            mode="markers+text",
            text=[_adds(graph, k, words) for k in members],
            customdata=[
                ", ".join(words.get(p, "?") for p in graph[k].positions) or "the text as it was" for k in members
            ],
            textposition="bottom center",
            textfont={"size": 11},
            cliponaxis=False,
            name=name,
            legendgroup=name,
            showlegend=panel == 1,
            marker={"symbol": symbol, "size": 15, "color": NEUTRAL if name == "rejected" else BLUE},
            hovertemplate="%{customdata}<extra>" + name + "</extra>",
            **where,
        )
    deepest = max((level for level, _ in at), default=0)
    span = [-0.6, deepest + 0.6]  # room for the words below the outermost marks
    figure.update_xaxes(title_text="Level: positions filled ahead", dtick=1, range=span, zeroline=False, **where)
    tallest = max((place for _, place in at), default=0)
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""}
    figure.update_yaxes(title_text="Sets of the level", range=[tallest + 0.8, -0.6], **bare, **where)


def _adds(graph: tuple[Node, ...], index: int, words: dict[int, str]) -> str:
    """The last position that a node fills, the least confident one."""
    positions = graph[index].positions
    return f"… {words.get(positions[-1], '?')}" if positions else "text as it was"


GRAPH = Figure(
    name="graph",
    title="Drafts of later steps",
    caption=(
        "The sets of open positions that were filled in ahead of time in one pass, by how many they fill; a mark is "
        "labelled with the least confident token it adds. A draft is accepted when the distributions of an accepted "
        "one below "
        "it let everything pass that it adds (thick line); of those accepted, the largest is kept (star). The pass is "
        "the last one with drafts up to the given step, or the one that reached deepest when no step is given."
    ),
    paper="PSD, Fig. 1",
    supports=lambda traces: missing(traces, _has, "a draft graph") or too_many(traces, _has),
    drawing=_draw,
    stepped=True,
)
