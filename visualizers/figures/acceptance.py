"""Shares of drafts that were accepted: by position in the draft and in the sequence, by detail, and by change."""

from collections import Counter
from collections.abc import Sequence
from math import prod, sqrt
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from draftscope.analysis.acceptance import PositionAcceptance, acceptance_of
from draftscope.analysis.seeds import over_runs
from draftscope.analysis.stats import acceptance_by_position
from draftscope.traces.schema import Fate, Trace
from draftscope.traces.stats import Tally, evaluated_drafts
from draftscope.traces.video import kept_by_change
from draftscope.visualizers.figure import Figure, Traces, group_runs, with_count
from draftscope.visualizers.picture import cells, final_picture, grid, picture_of
from draftscope.visualizers.plot import axes, bars, curve, error_bars, in_panel, side_by_side

PARTS: Final = 8
"""Parts of the sequence that positions are gathered in."""
BINS: Final = 5
"""Number of equal groups of the verified drafts, by the detail at their positions."""
PIXELS: Final = 8
"""Most pixels along a cell that its detail is taken from."""
FEWEST: Final = 5
"""Verdicts that a share needs to be drawn."""
MAX_PLACES: Final = 32

Rate = tuple[float, int, int]
"""x, accepted drafts, verified drafts."""


def _rates(figure: go.Figure, index: int, name: str, rates: Sequence[Rate], hover: str, **more: Any) -> None:
    """Draw rates in per cent with their standard errors; `hover` has accepted and verified drafts as customdata."""
    shares = [accepted / count for _, accepted, count in rates]
    error = [100 * sqrt(share * (1 - share) / count) for share, (_, _, count) in zip(shares, rates, strict=True)]
    points, counts = ([x for x, _, _ in rates], [100 * share for share in shares]), [each[1:] for each in rates]
    curve(figure, index, name, points, hover, **error_bars(error), customdata=counts, **more)


@Figure(
    name="by-place",
    title="Acceptance by position in the draft",
    caption="How often the first draft of a pass is accepted, the second, and so on: of the drafts verified there, if "
    "at least 5, and of all passes that verified drafts (vLLM's per-position acceptance rate), which add up to the "
    "mean accepted length. vLLM's mean acceptance length and SGLang's accept length are one more: they "
    "count the pass's own token. In a draft graph the position is the level. Error bars are standard errors.",
    accepts=lambda trace: acceptance_of([trace]) is not None,
    requirement="drafts that were verified",
    limit="groups",
)
def _by_position(traces: Traces) -> go.Figure:
    runs = group_runs(traces)
    groups = {name: acceptance for name, each in runs.items() if (acceptance := acceptance_of(each))}
    known = any(_conditional(tallies) for tallies in groups.values())
    titles = ["Of the drafts verified there"] if known else []
    figure = side_by_side([*titles, "Of all passes that verified drafts"], horizontal_spacing=0.11)
    hover = "position %{x}: %{y:.1f} %, %{customdata[0]} of %{customdata[1]}"
    for i, (name, acceptance) in enumerate(groups.items()):
        label = f"{with_count(name, runs[name])}: mean accepted length {acceptance.mean_accepted_length:.2f}"
        marginal: list[Rate] = [
            (tally.number, tally.accepted, acceptance.passes) for tally in acceptance.positions[:MAX_PLACES]
        ]
        for panel, rates in enumerate([_conditional(acceptance), marginal] if known else [marginal], start=1):
            _rates(figure, i, label, rates, hover, **in_panel(panel, i))
    longest = min(MAX_PLACES, max(len(tallies.positions) for tallies in groups.values()))
    axes(figure, "Position in the draft", "Drafts accepted (%)", "Drafts accepted (%)", height=460, bounds=(0, 104))
    return figure.update_xaxes(range=[0.5, longest + 0.5], dtick=1 if longest <= 12 else None)


def _conditional(acceptance: PositionAcceptance) -> list[Rate]:
    """Return the positions with enough verdicts."""
    enough, first = min(FEWEST, acceptance.passes), acceptance.positions[:MAX_PLACES]
    return [(tally.number, tally.accepted, tally.judged) for tally in first if tally.judged and tally.judged >= enough]


@Figure(
    name="along",
    title="Drafts accepted along the sequence",
    paper="CSpD, Fig. 9 and Table 5 (pre-filling)",
    caption="The share of verified drafts that were accepted in each 8th of the sequence, if at least 5 were verified, "
    "with standard errors. A curve that begins low shows that pre-filling helps.",
    accepts=lambda trace: any(evaluated_drafts(step) for step in trace.steps),
    requirement="verified drafts",
    limit="groups",
)
def _along(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        judged, accepted = [0] * PARTS, [0] * PARTS
        for run in runs:
            tallies = acceptance_by_position(run.steps, prod(run.canvas.shape))
            for position, tally in enumerate(tallies):
                judged[position * PARTS // len(tallies)] += tally.judged
                accepted[position * PARTS // len(tallies)] += tally.accepted
        rates = [(100 * (k + 0.5) / PARTS, accepted[k], judged[k]) for k in range(PARTS) if judged[k] >= FEWEST]
        label = f"{name}: {100 * sum(accepted) / sum(judged):.0f} % of {sum(judged)} accepted"
        _rates(figure, i, label, rates, "%{x:.0f} % along: %{y:.0f} % of %{customdata[1]} drafts accepted")
    axes(figure, "Position in the sequence (%)", "Verified drafts accepted (%)", height=460)
    return figure.update_xaxes(range=[0, 100])


class PlaceTally(NamedTuple):
    """Verdicts at one position, and the detail of the picture there."""

    detail: float
    """Standard deviation of the luminance within the cell, in per cent of the range from black to white."""
    judged: int
    accepted: int


def local_detail(picture: Image.Image, rows: int, columns: int) -> np.ndarray:
    """Return the detail of every cell of a picture that is divided into rows and columns [rows, columns]."""
    size = max(1, min(PIXELS, picture.width // columns, picture.height // rows))
    grey = picture.convert("L").resize((columns * size, rows * size), Image.Resampling.BOX)
    detail: np.ndarray = np.asarray(grey, np.float64).reshape(rows, size, columns, size).std(axis=(1, 3)) * (100 / 255)
    return detail


def by_detail(trace: Trace) -> list[PlaceTally]:
    """Return the positions of a whole picture whose drafts were verified."""
    picture = final_picture(trace)
    if picture is None:
        return []
    detail = local_detail(picture_of(picture), *grid(trace.canvas))
    tallies = acceptance_by_position(trace.steps, prod(trace.canvas.shape))
    numbered_tallies = zip(cells(trace.canvas), tallies, strict=True)
    return [
        PlaceTally(float(detail[tally_index]), tally.judged, tally.accepted)
        for tally_index, tally in numbered_tallies
        if tally.judged
    ]


def correlation(verdicts: list[PlaceTally]) -> float | None:
    """Return the correlation of detail and acceptance over drafts; None where one of them does not vary."""
    detail = np.repeat([one.detail for one in verdicts], [one.judged for one in verdicts])
    passed = np.concatenate([np.arange(one.judged) < one.accepted for one in verdicts]).astype(float)
    if detail.std() == 0 or passed.std() == 0:
        return None
    return float(np.corrcoef(detail, passed)[0, 1])


@Figure(
    name="detail",
    title="Drafts accepted by local detail",
    paper="CSpD, Fig. 12 (failures against local detail)",
    caption="Local detail is how much the brightness of the finished picture varies within the cell of a token. "
    "Verified drafts are divided into 5 equal groups by it; a falling curve means that detail is hard to draft. The "
    "legend has the correlation of detail and verdict; error bars are standard errors.",
    accepts=lambda trace: (
        trace.canvas.kind == "image"
        and trace.summary.complete
        and bool(trace.summary.judged and (trace.legend.tiles or trace.output.image))
    ),
    requirement="a whole picture with verified drafts",
    limit="groups",
)
def _detail(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        verdicts = sorted((one for run in runs for one in by_detail(run)), key=lambda one: one.detail)
        total, before = sum(one.judged for one in verdicts), 0
        bins: list[list[PlaceTally]] = [[] for _ in range(BINS)]
        for one in verdicts:  # about as many verified drafts in every bin
            bins[min(BINS - 1, BINS * before // total)].append(one)
            before += one.judged
        rates = []
        for each in filter(None, bins):
            count = sum(one.judged for one in each)
            mean = sum(one.detail * one.judged for one in each) / count
            rates.append((mean, sum(one.accepted for one in each), count))
        related = correlation(verdicts)
        label = with_count(name, runs) + ("" if related is None else f": correlation {related:.2f}")
        _rates(figure, i, label, rates, "detail %{x:.1f} %: %{y:.0f} % of %{customdata[1]} verified drafts accepted")
    title = "Local detail (standard deviation of the luminance, %)"
    axes(figure, title, "Verified drafts accepted (%)", height=460, bounds=(0, 104))
    return figure.update_xaxes(rangemode="tozero")


@Figure(
    name="redundancy",
    title="Acceptance by change from the previous latent frame",
    caption="Verified drafts of a video, by whether the final token is that of the same position in the previous "
    "latent frame. A higher bar on the left means that drafts gain from the similarity of successive frames. The "
    "first latent frame is left out. Error bars are standard errors.",
    accepts=lambda trace: all(tally.judged >= 2 for tally in kept_by_change(trace)),
    requirement="a video with verified drafts after its first latent frame, some of tokens that stay",
    limit="groups",
)
def _redundancy(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        sides = zip(*map(kept_by_change, runs), strict=True)
        tallies = [Tally(sum(part.judged for part in side), sum(part.accepted for part in side)) for side in sides]
        points = ["the same token", "another token"], [side.acceptance for side in tallies]
        text = [f"{side.acceptance:.0%} of {side.judged:,}" for side in tallies]
        inside = {"text": text, "textposition": "inside", "insidetextanchor": "start"}
        error = {"array": [side.error for side in tallies], "thickness": 1.5}
        bars(figure, i, name, points, "%{x}: %{y:.3f} of %{text}", error_y=error, **inside)
    x_title = "The final token, compared with the previous latent frame, is"
    axes(figure, x_title, "Verified drafts accepted", height=460, bounds=(0, 1), barmode="group", bargap=0.5)
    return figure.update_yaxes(tickformat=".0%").update_layout(showlegend=len(figure.data) > 1)


@Figure(
    name="accepted-drafts",
    title="Drafts accepted in a verification",
    paper="SimSD, Table 3 (acceptance), as a distribution",
    caption="How often a verification accepted how many drafts before the first rejection, as a share of the passes "
    "that verified drafts. The legend has the means with standard errors. A peak at the right end means that longer "
    "drafts would be accepted, too.",
    accepts=lambda trace: any(map(evaluated_drafts, trace.steps)),
    requirement="verified drafts",
    limit="groups",
)
def _accepted(traces: Traces) -> go.Figure:
    figure = go.Figure()
    longest = 0
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        passes = [one for trace in runs for one in trace.steps if evaluated_drafts(one)]
        tally = Counter(one.fate.count(Fate.ACCEPTED) for one in passes)
        longest = max(longest, *tally)
        by_run = [[one.fate.count(Fate.ACCEPTED) for one in trace.steps if evaluated_drafts(one)] for trace in runs]
        mean, drafts = over_runs(by_run), fmean(map(evaluated_drafts, passes))
        counts = [tally[accepted] for accepted in range(max(tally) + 1)]
        points = list(range(len(counts))), [100 * count / len(passes) for count in counts]
        hover = "%{x} accepted: %{y:.1f} % of verifications (%{customdata})<extra></extra>"
        bars(figure, i, f"{with_count(name, runs)}: {mean} of {drafts:.3g} accepted", points, hover, customdata=counts)
    axes(figure, "Drafts accepted in a verification", "Share of verifications (%)", barmode="group")
    return figure.update_xaxes(range=[-0.6, longest + 0.6], dtick=1 if longest <= 16 else None)
