"""Drafts of later steps: the draft graph of a pass, how well a pass predicts the next, what each mechanism adds."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.prediction import MECHANISMS, STAGES, contributions, forecasts, foresight
from draftscope.traces.replay import CanvasState, state_after
from draftscope.traces.schema import Fate, Node, Step, Token, Trace
from draftscope.traces.words import canvas_texts, words
from draftscope.visualizers.figure import Figure, Traces, panels_at, select_pass
from draftscope.visualizers.palette import BLUE
from draftscope.visualizers.plot import axes, curve, error_bars, in_panel, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, fate_color, series

LOOKS: Final = {"kept": ("star", BLUE), "accepted": ("circle", BLUE), "rejected": ("x-open", NEUTRAL)}
"""Outcome of a node -> symbol and colour."""

ROW: Final = 130
"""Pixels between two sets of a level, for a label."""
LABEL_LETTERS: Final = 11
"""Letters on a line of a label."""
_TAG: Final = re.compile(r"</?b>")
AROUND: Final = 4
"""Tokens that a label shows to each side of the last draft."""

Place = tuple[int, int]
"""Level of a node, and its index within the level."""


def pass_with_graph(trace: Trace, step: int | None) -> int | None:
    """Return the pass whose draft graph to show, from 1; None if no pass has one.

    Args:
        trace: Run.
        step: The last pass up to this one is chosen; None for the first whose accepted drafts went deepest.
    """
    graphs = {number: each.graph for number, each in enumerate(trace.steps, start=1) if each.graph}
    return select_pass(
        {n: max(len(node.positions) * node.accepted for node in graph) for n, graph in graphs.items()}, step
    )


def coordinates(graph: Sequence[Node]) -> list[Place]:
    """Return the coordinates of every node."""
    levels = [len(node.positions) for node in graph]
    return [(level, levels[:index].count(level)) for index, level in enumerate(levels)]


def _drafts(step: Step) -> dict[int, Token | None]:
    """Return the draft at each position that a pass covers."""
    drafts = step.draft or (None,) * len(step.position)
    return {
        position: token if draft is None else draft
        for position, draft, token in reversed(list(zip(step.position, drafts, step.token or drafts, strict=True)))
    }


def _shown(trace: Trace, before: CanvasState, drafts: Mapping[int, Token | None]) -> dict[int, str]:
    """Return what the final tokens and some drafts show."""
    tokens = [token if final else None for token, final in zip(before.tokens, before.final, strict=True)]
    for position, token in drafts.items():
        tokens[position] = token
    shown = enumerate(words(canvas_texts(trace.legend.vocabulary or {}, tokens)))
    return {position: plain(word.replace("\n", "↵")) for position, word in shown if word is not None}


def _labels(trace: Trace, number: int) -> list[str]:
    """Return what each node of a pass's graph adds.

    For texts with the words around it, drafts in bold, open ones as ▢.
    """
    before, step = state_after(trace, number - 1), trace.steps[number - 1]
    drafts = _drafts(step)
    labels = []
    for node in step.graph or ():
        texts = _shown(trace, before, {position: drafts.get(position) for position in node.positions})
        if not node.positions:
            labels.append("no drafts")
            continue
        last = node.positions[-1]
        if trace.canvas.kind != "text":
            labels.append(f"+ {texts.get(last, '?').strip() or '␣'}")
            continue
        drafted = {position: texts.get(position, "?") for position in node.positions}
        parts = [
            f"<b>{drafted[position].strip(' ') or '␣'}</b>"
            if position in drafted
            else texts.get(position, "?")
            if before.final[position]
            else "▢"
            for position in range(max(0, last - AROUND), min(len(before.final), last + AROUND))
        ]
        labels.append(_in_lines([part for part in parts if part != plain("<end>")]))
    return labels


def _in_lines(parts: Sequence[str]) -> str:
    """Join the parts of a label in lines that are short enough for its column."""
    lines = [""]
    for part in parts:
        if len(_TAG.sub("", lines[-1] + part)) > LABEL_LETTERS and lines[-1].strip():
            lines.append("")
        lines[-1] += part
    return "<br>".join(line.strip() for line in lines)


@Figure(
    name="graph",
    title="Drafts of later steps",
    paper="PSD, Fig. 1",
    caption="The sets of open positions that were drafted in one pass, by their size; below a mark is the text around "
    "the least confident token it adds: drafts bold, open positions as boxes. A set is accepted when an accepted "
    "smaller set's distributions accept what it adds (thick line); the largest accepted set is kept (star).",
    accepts=lambda trace: pass_with_graph(trace, None) is not None,
    requirement="a draft graph",
    limit="panels",
    takes_step=True,
)
def _draw(traces: Traces, step: int | None) -> go.Figure:
    chosen = [pass_with_graph(trace, step) or 1 for trace in traces]
    figure, moment = panels_at(traces, chosen)
    for panel, (trace, number) in enumerate(zip(traces, chosen, strict=True), start=1):
        drafting = trace.steps[number - 1]
        graph = drafting.graph or ()
        at = coordinates(graph)
        parents = [(p, k) for k, node in enumerate(graph) for p in node.parents if at[p][0] + 1 == at[k][0]]
        accepted = [(p, k) for k, node in enumerate(graph) for p in node.vouched_by]
        dotted, thick = {"color": NEUTRAL, "width": 1, "dash": "dot"}, {"color": BLUE, "width": 2.5, "dash": "solid"}
        for name, pairs, line in (("parent", parents, dotted), ("accepted under", accepted, thick)):
            x, y = ([value for p, k in pairs for value in (at[p][i], at[k][i], None)] for i in (0, 1))
            look: Look = {"mode": "lines", "line": line, "hoverinfo": "skip", "legendgroup": name}
            figure.add_scatter(x=x, y=y, name=name, showlegend=panel == 1, row=1, col=panel, **look)
        _draw_nodes(figure, at, trace, number, panel)
        # Room for the labels below the outermost marks.
        levels = [-0.6, max((level for level, _ in at), default=0) + 0.6]
        rows = [max((height for _, height in at), default=0) + 0.8, -0.6]
        where = {"row": 1, "col": panel, "zeroline": False}
        figure.update_xaxes(title_text="Level: drafted positions", dtick=1, range=levels, **where)
        bare = {"showticklabels": False, "showgrid": False, "ticks": ""}
        figure.update_yaxes(title_text="Sets of the level", range=rows, **bare, **where)
    title = f"Drafts of {moment}" if len(traces) == 1 else "Drafts of later steps"
    high = ROW * max(
        2,
        1
        + max(
            height
            for number, trace in zip(chosen, traces, strict=True)
            for _, height in coordinates(trace.steps[number - 1].graph or ())
        ),
    )
    return figure.update_layout(height=200 + high, title_text=title, showlegend=True, meta={"panel_height": high})


def _draw_nodes(figure: go.Figure, at: Sequence[Place], trace: Trace, number: int, panel: int) -> None:
    """Mark the nodes by their outcome; each is labelled with what it adds, the least confident token."""
    step = trace.steps[number - 1]
    graph, winner = step.graph or (), step.signals.get("winner")
    shown = _shown(trace, state_after(trace, number - 1), _drafts(step))
    fates = ["kept" if k == winner else "accepted" if node.accepted else "rejected" for k, node in enumerate(graph)]
    texts = [[shown.get(position, "?").strip() or "␣" for position in node.positions] for node in graph]
    labels = _labels(trace, number)
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


SIZES: Final = (5, 7, 9)
"""Candidate sets, as in the paper."""
HORIZONS: Final = tuple(range(1, 9))
MECHANISM_LOOKS: Final = {
    "parallel": (Fate.UNMASKED, "solid"),
    "speculative": (Fate.ACCEPTED, "dash"),
    "corrected": (Fate.RESAMPLED, "dashdot"),
    "fallback": (Fate.FALLBACK, "dot"),
}
"""Mechanism -> the fate whose colour it has, and its dash."""


@Figure(
    name="foresight",
    title="How well one pass predicts the next ones",
    paper="PSD, Fig. 5",
    caption="After each pass the most confident open positions are candidates. Coverage: the share of what the next "
    "passes made final that was among them. Precision: the share of candidates that were final by then. Dashed: the "
    "best set of that size, chosen by an oracle. Passes near the end of their block are left out. Error bars are "
    "standard errors over runs.",
    accepts=lambda trace: (
        trace.canvas.kind == "text" and any(len(one.candidates) >= SIZES[0] for one in forecasts(trace.steps))
    ),
    requirement="a text with ranked open positions",
    limit="one group",
)
def _foresight(traces: Traces) -> go.Figure:
    rows = foresight([trace.steps for trace in traces], SIZES, HORIZONS)
    figure = side_by_side(["Coverage of what was decoded", "Precision of the candidates"], horizontal_spacing=0.1)
    for i, size in enumerate(SIZES):
        here, look = [one for one in rows if one.size == size], series(i)
        horizons = [one.horizon for one in here]
        best: Look = {"line": {"color": look.color, "dash": "dash", "width": 1.5}}
        best["marker"] = {**look.marker(6), "symbol": f"{look.symbol}-open"}
        for panel, name in enumerate(("coverage", "precision"), start=1):
            words = f"{size} candidates"
            points = horizons, [100 * getattr(one, name) for one in here]
            solid: Look = {"line": {**look.line, "dash": "solid"}, **in_panel(panel, i)}
            solid |= error_bars([100 * getattr(one, f"{name}_error") for one in here])
            curve(figure, i, words, points, f"{words}, %{{x}} passes: %{{y:.1f}} %", **solid)
            points = horizons, [100 * getattr(one, f"{name}_best") for one in here]
            words += ", by the oracle"
            curve(figure, i, words, points, f"{words}, %{{x}} passes: %{{y:.1f}} %", **best, **in_panel(panel, i))
    axes(figure, "Passes ahead", "Share of decoded positions (%)", "Share of candidates (%)", bounds=(0, 103))
    return figure.update_xaxes(dtick=1)


@Figure(
    name="contributions",
    title="What each mechanism adds along a block",
    paper="PSD, Fig. 6",
    caption="Tokens that the policy revealed (parallel), that drafts of later steps added (speculative), that a "
    "verifier drew in place of a draft (corrected), and that were revealed although nothing was confident (fallback), "
    "in per cent of the block's positions for each twentieth of its passes. Of three or more blocks, the one in which "
    "the text ended is left out. Means over runs with standard errors.",
    accepts=lambda trace: (
        trace.canvas.kind == "text" and trace.canvas.block != 1 and bool(contributions([trace.steps]))
    ),
    requirement="tokens revealed in blocks of several",
    limit="one group",
)
def _contributions(traces: Traces) -> go.Figure:
    rows = contributions([trace.steps for trace in traces])
    stages = [stage for stage in STAGES if any(one.stage == stage for one in rows)]
    heads = [f"{stage.capitalize()} block" for stage in stages]
    figure = side_by_side(heads, horizontal_spacing=0.07, shared_yaxes=True)
    for panel, stage in enumerate(stages, start=1):
        for i, name in enumerate(MECHANISMS):
            here = [one for one in rows if (one.stage, one.mechanism) == (stage, name)]
            if not here:
                continue
            fate, dash = MECHANISM_LOOKS[name]
            color = fate_color(fate)
            look: Look = {"line": {"color": color, "dash": dash, "width": 2}, "marker": {"color": color, "size": 6}}
            points = [100 * one.progress for one in here], [one.percent for one in here]
            look |= error_bars([one.error for one in here])
            hover = f"{name} at %{{x:.0f}} %: %{{y:.1f}} % of the block, {here[0].blocks} blocks<extra></extra>"
            curve(figure, i, name, points, hover, **look, **in_panel(panel, i))
    axes(figure, "Progress: share of the block's passes (%)", "Tokens (% of the block)")
    return figure.update_xaxes(range=[0, 100])
