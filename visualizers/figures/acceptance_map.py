"""How likely each draft was to be accepted, where it stood: over the picture, and on the words of a text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple
from unicodedata import east_asian_width

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from draftscope.traces.replay import PENDING, canvas_size, position_updates, state_after
from draftscope.traces.schema import FATES, Fate, Trace
from draftscope.traces.video import frame_count, frame_names
from draftscope.traces.words import canvas_texts, words
from draftscope.visualizers.figure import MAX_FRAMES, WIDTH, Figure, Traces, group_runs, with_count
from draftscope.visualizers.figures.canvas import HEIGHTS, mark_size, square_axes
from draftscope.visualizers.figures.pictures import TEXT_WIDTH
from draftscope.visualizers.palette import CIVIDIS, REJECTED, VERMILLION, ink
from draftscope.visualizers.picture import (
    cells,
    data_url,
    final_picture,
    grid,
    picture_of,
    recorded_picture,
    render_canvas,
)
from draftscope.visualizers.plot import add_once, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, fate_marker, translucent
from draftscope.visualizers.wrapping import PER_ROW

LETTERS: Final = 44
"""Letters on a line of a text."""
MAX_LINES: Final = 48
"""Lines of a text whose words are drawn; a longer one is drawn as a grid."""
_LINE: Final = 26
"""Pixels that a line takes."""
_LEAST: Final = 4
"""Lines of a text for which there is room, for the ticks of the colour bar."""
_FOOT: Final = 84
"""Pixels below the panels."""
_AROUND: Final = 1.2
"""Letters that a word's box is wider than the word."""
_OPACITY: Final = 0.72
"""Opacity of the colours over a picture."""
_MONOSPACED: Final = "DejaVu Sans Mono, Menlo, Consolas, monospace"


class Verdict(NamedTuple):
    """Verdict on the drafts at one position."""

    accept_prob: float
    """A mean where there are several runs."""
    rejected: bool
    """Whether the last draft was, in the only run."""
    runs: int
    """That verified a draft here."""


class Panel(NamedTuple):
    """A canvas, or one latent frame of a video, with the row and column of its panel."""

    runs: tuple[Trace, ...]
    frame: int
    row: int
    col: int


def verdicts(trace: Trace, step: int | None = None) -> dict[int, tuple[float, Fate]]:
    """Return the acceptance probability and the fate of every position's last verdict.

    Where a verdict compares tokens, not probabilities, the probability is 1 for a draft that passed and 0 otherwise.

    Args:
        trace: Run.
        step: Forward pass, from 1, whose verdicts are returned alone; by default those of all passes.
    """
    chosen = trace.steps if step is None else trace.steps[max(step - 1, 0) : step]
    last: dict[int, tuple[float, Fate]] = {}
    for one in chosen:
        column = one.accept_prob or (None,) * len(one.position)
        for position, fate, recorded in zip(one.position, one.fate, column, strict=False):
            accept_prob = float(fate is Fate.ACCEPTED) if recorded is None and fate.judged else recorded
            if accept_prob is not None and (step is not None or fate not in PENDING):
                last[position] = (accept_prob, fate)
    return last


def mean_verdicts(runs: Sequence[Trace], step: int | None = None) -> dict[int, Verdict]:
    """Return the verdicts of runs on one canvas, averaged at every position over the runs that have one there.

    Args:
        runs: Runs on canvases of one shape.
        step: Forward pass, from 1, or the last one of a shorter run; by default all passes.
    """
    found: dict[int, list[tuple[float, Fate]]] = defaultdict(list)
    for trace in runs:
        for position, verdict in verdicts(trace, None if step is None else min(step, len(trace.steps))).items():
            found[position].append(verdict)
    return {
        position: Verdict(fmean(prob for prob, _ in each), len(runs) == 1 and each[0][1] in REJECTED, len(each))
        for position, each in found.items()
    }


def lines_of(texts: Sequence[str]) -> list[tuple[int, float, float]]:
    """Return line, left end and width of every word's box; a space before a word is a gap, a line break ends a line."""
    line, at = 0, 0.0
    boxes = []
    for word in texts:
        gap = len(word) - len(word.lstrip(" ")) if word.strip(" ") else 0
        width = sum(1 + (east_asian_width(letter) in "WF") for letter in word.strip(" ") or " ") + _AROUND
        if at + min(gap, 1) * bool(at) + width > LETTERS and at:
            line, at, gap = line + 1, 0.0, 0
        at += min(gap, 1) * bool(at)
        boxes.append((line, at, min(width, LETTERS)))
        at += width
        if word.endswith("\n"):
            line, at = line + 1, 0.0
    return boxes


def final_words(trace: Trace, step: int | None = None) -> list[str]:
    """Return the text of every token, up to the end of the text; open positions are boxes.

    Args:
        trace: Run of a text.
        step: Number of forward passes after which the text is read, padding included; by default all.
    """
    state = state_after(trace, len(trace.steps) if step is None else min(step, len(trace.steps)))
    texts = words(canvas_texts(trace.legend.vocabulary or {}, state.tokens))
    shown = ["▢" if text is None else text for text in texts]
    ends = [at for at, token in enumerate(state.tokens) if state.final[at] and token in trace.legend.ends]
    last = max((at for at, token in enumerate(state.tokens) if token is not None), default=-1)
    return shown[: min(ends[0] if ends else last, last) + 1] if step is None else shown


def _readable(runs: Sequence[Trace], step: int | None) -> bool:
    """Whether the words of a text can be drawn: of one run, and not too many."""
    if len(runs) > 1 or runs[0].canvas.kind != "text":
        return False
    return bool(boxes := lines_of(final_words(runs[0], step))) and boxes[-1][0] < MAX_LINES


def _panels(groups: Mapping[str, tuple[Trace, ...]]) -> tuple[go.Figure, list[Panel]]:
    """Return the empty figure: canvases side by side, or of videos one below the other, with a panel a latent frame."""
    heads = [with_count(name, runs) for name, runs in groups.items()]
    counts = [frame_count(runs[0].canvas) for runs in groups.values()]
    if max(counts) == 1:
        panels = [Panel(runs, 0, 1, col) for col, runs in enumerate(groups.values(), start=1)]
        return side_by_side(heads, horizontal_spacing=0.06), panels
    names = heads if len(heads) > 1 else [""]
    titles = []
    for runs, label, count in zip(groups.values(), names, counts, strict=True):
        first, *others = frame_names(runs[0])
        if max(counts) > PER_ROW:
            others = [name.removeprefix("frame ") for name in others]
        titles += [f"{label}<br>{first}" if label else first, *others, *[""] * (max(counts) - count)]
    figure = make_subplots(
        rows=len(groups),
        cols=max(counts),
        specs=[[{} if col < count else None for col in range(max(counts))] for count in counts],
        subplot_titles=[title for title in titles if title],
        horizontal_spacing=0.05,
        vertical_spacing=0.3 / len(groups) if len(groups) > 1 else 0,
    )
    figure.update_annotations(font={"size": 13 if max(counts) <= PER_ROW else 11}, yshift=4)
    figure.update_layout(margin={"t": 112})
    numbered = enumerate(zip(groups.values(), counts, strict=True), start=1)
    return figure, [Panel(runs, k, row, k + 1) for row, (runs, count) in numbered for k in range(count)]


def _too_long(traces: Traces) -> str | None:
    longest = max(frame_count(trace.canvas) for trace in traces)
    return f"draws up to {MAX_FRAMES} latent frames, a video has {longest}" if longest > MAX_FRAMES else None


@Figure(
    name="acceptance",
    title="Acceptance heat map",
    paper="CSpD, Fig. 11",
    caption="The probability with which each draft was accepted, at the position's last verdict or in the chosen "
    "forward pass: min(1, p / q) where a ratio decides, and 1 or 0 where the draft has to be the target's token. "
    "Orange squares and frames mark rejected drafts; what has no colour was decoded without a verdict. The colours lie "
    "over the picture in grey, or on the words. Of several runs they are means, without picture and words.",
    accepts=lambda trace: bool(verdicts(trace)),
    requirement="verdicts on drafts",
    limit="groups",
    refuses=_too_long,
    takes_step=True,
    whole_run=True,
    panel_width=460,
)
def _acceptance(traces: Traces, step: int | None) -> go.Figure:
    figure, panels = _panels(group_runs(traces))
    high = max(_fill(figure, panel, step, len(panels)) for panel in panels)
    when = "when it was verified last" if step is None else f"in forward pass {step}"
    rows = panels[-1].row
    bar = {"title": {"text": "Acceptance<br>probability"}, "tickvals": [0, 0.5, 1]}
    return figure.update_layout(
        height=(figure.layout.margin.t or 84) + _FOOT + high if rows == 1 else 140 + 200 * rows,
        title_text=f"Acceptance probability of every draft {when}",
        coloraxis={"colorscale": CIVIDIS, "cmin": 0, "cmax": 1, "colorbar": bar},
    )


def _fill(figure: go.Figure, panel: Panel, step: int | None, panels: int) -> float:
    """Draw one panel, and return the pixels that it takes."""
    readable, (rows, columns) = _readable(panel.runs, step), grid(panel.runs[0].canvas)
    if readable:
        rows = _fill_text(figure, panel, step)
    else:
        _fill_grid(figure, panel, step, panels)
    if panel.runs[0].canvas.kind == "text":
        meta, high = figure.layout.meta or {}, _LINE * max(rows, _LEAST)
        width = {"panel_width": TEXT_WIDTH} if readable else {}
        figure.update_layout(meta={**meta, **width, "panel_height": max(high, meta.get("panel_height", 0))})
        return high
    wide = (WIDTH - 160) / min(panels, PER_ROW)
    return min(HEIGHTS[min(panels, PER_ROW) - 1] - 84 - _FOOT, rows / columns * wide)


def _fill_text(figure: go.Figure, panel: Panel, step: int | None) -> int:
    """Draw the words of a text in boxes that have the colour of the verdict."""
    (trace,), where = panel.runs, {"row": panel.row, "col": panel.col}
    texts, verified = final_words(trace, step), mean_verdicts(panel.runs, step)
    boxes = lines_of(texts)
    for judged in (False, True):
        here = [at for at in range(len(texts)) if (at in verified) is judged]
        rejected = [judged and verified[at].rejected for at in here]
        hues: Any = [verified[at].accept_prob for at in here] if judged else translucent(NEUTRAL, 0)
        edges = [VERMILLION if lost else NEUTRAL for lost in rejected]
        frame: Look = {"color": edges, "width": [3 if lost else 0.5 for lost in rejected]}
        verdict_texts = [
            f"acceptance probability {verified[at].accept_prob:.3f}" if judged else "not verified" for at in here
        ]
        shown = [plain(texts[at].strip(" ").replace("\n", "↵") or "␣" * bool(texts[at])) for at in here]
        inks = [_ink(verified[at].accept_prob) if judged else NEUTRAL for at in here]
        figure.add_bar(
            orientation="h",
            base=[boxes[at][1] for at in here],
            x=[boxes[at][2] for at in here],
            y=[boxes[at][0] + 1 for at in here],
            width=0.86,
            marker={"color": hues, "line": frame, **({"coloraxis": "coloraxis"} if judged else {})},
            text=shown,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"family": _MONOSPACED, "size": 15, "color": inks},
            customdata=[[at + 1, what] for at, what in zip(here, verdict_texts, strict=True)],
            hovertemplate="position %{customdata[0]}: %{text}<br>%{customdata[1]}<extra></extra>",
            showlegend=False,
            **where,
        )
    lost = {"symbol": "square", "size": 12, "color": "rgba(0,0,0,0)", "line": {"color": VERMILLION, "width": 3}}
    mark = go.Scatter(x=[None], y=[None], mode="markers", name="the draft was rejected", marker=lost)
    add_once(figure, mark, **where)
    lines = boxes[-1][0] + 1
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "showline": False}
    figure.update_xaxes(title_text="The text, line by line", range=[-0.2, LETTERS + 0.2], **bare, **where)
    figure.update_yaxes(range=[max(lines, _LEAST) + 0.5, 0.5], **bare, **where)
    figure.update_layout(barmode="overlay", uniformtext={"minsize": 6, "mode": "show"})
    return lines


def _ink(accept_prob: float) -> str:
    return ink(CIVIDIS[min(len(CIVIDIS) - 1, round(accept_prob * (len(CIVIDIS) - 1)))])


def _picture(trace: Trace, step: int | None) -> str | None:
    """Return the picture of a run after a step in grey, as a data: URL."""
    if step is None:
        url = final_picture(trace)
    else:
        state, tiles = state_after(trace, min(step, len(trace.steps))), trace.legend.tiles
        url = data_url(render_canvas(tiles, trace.canvas, state)) if tiles else recorded_picture(trace, state)
    return url and data_url(picture_of(url).convert("L"))


def _fill_grid(figure: go.Figure, panel: Panel, step: int | None, panels: int) -> None:
    """Draw the heat map, over the picture of a single run and with its marks."""
    trace, where = max(panel.runs, key=lambda run: canvas_size(run.canvas)), {"row": panel.row, "col": panel.col}
    rows, wide = grid(trace.canvas)
    columns = wide // frame_count(trace.canvas)
    numbered_cells = enumerate(cells(trace.canvas))
    cell_of = {at: (row, column % columns) for at, (row, column) in numbered_cells if column // columns == panel.frame}
    square_axes(figure, (rows, columns), panel.row, panel.col)
    if trace.canvas.kind == "text":  # its few rows are as high as lines
        figure.update_yaxes(scaleanchor=None, **where)
    if panels > PER_ROW and frame_count(trace.canvas) > 1:  # small panels
        figure.update_xaxes(showticklabels=False, ticks="", title_text="Column" if panel.frame == 0 else "", **where)
        figure.update_yaxes(showticklabels=False, ticks="", **where)
    heat: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    verified = mean_verdicts(panel.runs, step)
    for position in verified.keys() & cell_of.keys():
        row, column = cell_of[position]
        heat[row][column] = verified[position].accept_prob
    single = len(panel.runs) == 1
    picture = _picture(trace, step) if single and trace.canvas.kind == "image" else None
    if picture:
        placement = {"x": 0.5, "y": 0.5, "sizex": columns, "sizey": rows, "sizing": "stretch", "layer": "below"}
        figure.add_layout_image(source=picture, **placement, **where)
    look: Look = {"coloraxis": "coloraxis", "opacity": _OPACITY if picture else 1}
    look["hovertemplate"] = "row %{y}, column %{x}<br>acceptance probability %{z:.3f}<extra></extra>"
    figure.add_heatmap(z=heat, x0=1, y0=1, **look, **where)
    for fate, positions in _marked(trace, verified, step).items() if single else ():
        name = "the draft was rejected" if fate is Fate.RESAMPLED else f"{fate.value}: {fate.meaning}"
        y, x = ([cell_of[at][axis] + 1 for at in positions if at in cell_of] for axis in (0, 1))
        marker = fate_marker(fate, mark_size(columns, panels))
        if panels > PER_ROW and fate is Fate.RESAMPLED:
            marker = {"symbol": "square", "size": 3, "color": VERMILLION}
        mark = go.Scatter(x=x, y=y, mode="markers", name=name, marker=marker, hoverinfo="skip")
        add_once(figure, mark, **where)


def _marked(trace: Trace, verified: Mapping[int, Verdict], step: int | None) -> dict[Fate, list[int]]:
    """Return the positions of rejected drafts, and of a whole run those decided without a verdict, by fate."""
    marked: dict[Fate, list[int]] = {Fate.RESAMPLED: [at for at, verdict in verified.items() if verdict.rejected]}
    final: dict[int, Fate] = {}
    for one in trace.steps if step is None else ():
        final |= {at: left.fate for at, left in position_updates(one).items() if left.fate.final}
    for position, fate in final.items():
        if position not in verified:
            marked.setdefault(fate, []).append(position)
    return {fate: marked[fate] for fate in sorted(marked, key=list(FATES).index)}
