"""Panels share rows without empty halves, and titles fit below them."""

from itertools import pairwise

import plotly.graph_objects as go
import pytest

from benchmarks._toy_runs import jacobi
from draftscope.visualizers import FIGURES
from draftscope.visualizers.export_zip.widths import PRESETS, laid_out
from draftscope.visualizers.plot import axes, curve, side_by_side
from draftscope.visualizers.wrapping import break_titles, panels, rows_of, wrapped


def drawn(count: int) -> go.Figure:
    figure = side_by_side([f"panel {number}" for number in range(count)], shared_yaxes=True)
    for panel in range(1, count + 1):
        curve(figure, 0, "", ([0, 1], [0, 1]), "", row=1, col=panel)
    return axes(figure, "Passes", "Tokens")


@pytest.mark.parametrize(("count", "rows"), [(4, [2, 2]), (5, [3, 2]), (6, [3, 3]), (7, [3, 3, 1])])
def test_rows_fill_the_width(count: int, rows: list[int]) -> None:
    figure = wrapped(drawn(count), 3)
    left_ends: dict[float, list[tuple[float, float]]] = {}
    for x, y in panels(figure):
        left_ends.setdefault(round(y.domain[0], 6), []).append(x.domain)
    by_row = [left_ends[bottom] for bottom in sorted(left_ends, reverse=True)]
    assert [len(row) for row in by_row] == rows
    for row in by_row:
        assert row[0][0] == pytest.approx(0) and row[-1][1] == pytest.approx(1)
        assert all(one[1] < other[0] for one, other in pairwise(row))
    titles = [x.title.text for x, _ in panels(figure)]
    assert titles[-1] == "Passes" and not any(titles[: -rows[0]]), "a shared title is below the last row"


def test_rows_are_as_far_apart_as_their_words_need() -> None:
    gaps = []
    for count in (4, 8):
        figure = wrapped(drawn(count), 2, 200)
        rows = sorted({y.domain for _, y in panels(figure)})
        gaps.append((rows[1][0] - rows[0][1]) * (200 * len(rows) + (len(rows) - 1) * 50))
    assert gaps[0] == pytest.approx(gaps[1], abs=1) and 40 < gaps[0] < 70


def test_a_column_of_a_paper_has_pairs_of_panels_and_its_height_follows_their_shape() -> None:
    runs = [jacobi(4, 4, 4 + seed, seed) for seed in range(4)]
    column, alone = (laid_out(FIGURES["acceptance"].draw(runs[:count]), PRESETS["column"]) for count in (4, 1))
    assert rows_of(panels(column)) == 2 and len({x.domain for x, _ in panels(column)}) == 2
    assert alone.layout.height < PRESETS["column"].laid_out + 40  # a square, its ticks and a legend
    long = drawn(3).update_xaxes(title_text="Total variation between successive distributions")
    max_lines = break_titles(long, 300)
    lines = long.layout.xaxis.title.text.split("<br>")
    assert max_lines == len(lines) > 2 and max(map(len, lines)) <= len("distributions")


def test_a_column_gives_every_panel_the_width_that_it_needs_and_no_space_that_nothing_fills() -> None:
    pairs, wide = (
        laid_out(drawn(4).update_layout(meta={"panel_width": width}), PRESETS["column"]) for width in (0, 220)
    )
    assert (rows_of(panels(pairs)), rows_of(panels(wide))) == (2, 4)
    assert pairs.layout.height < 2 * 150 + 200
    heads = laid_out(
        drawn(3).update_annotations(text="a long name of a decoder that drafts: 12 passes"), PRESETS["columns"]
    )
    assert heads.layout.margin.t > laid_out(drawn(3), PRESETS["columns"]).layout.margin.t
    broken = drawn(2).update_xaxes(title_text="one<br>two three four<br>five six seven eight nine ten eleven twelve")
    assert break_titles(broken, 400) == broken.layout.xaxis.title.text.count("<br>") + 1 > 2
