"""The heat map has every verdict, over the picture or on the words, and means of several runs."""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import plotly.graph_objects as go
import pytest
from support.blocks import Blocks, s2d2, simsd
from support.handmade import ALL
from support.psd_runs import speculated

from benchmarks._toy_runs import jacobi
from draftscope.traces.schema import Fate, Trace
from draftscope.visualizers import FIGURES
from draftscope.visualizers.figures.acceptance_map import LETTERS, lines_of, mean_verdicts, verdicts
from draftscope.visualizers.plot import plain


def run(seed: int = 0) -> Trace:
    return jacobi(6, 6, 12, seed, coupling="maximal", alpha=1.0)


def rejections(drawn: go.Figure) -> list[go.Scatter]:
    return [mark for mark in drawn.data if mark.name == "the draft was rejected"]


def test_cells_hold_the_probability_of_the_last_verdict() -> None:
    trace = run()
    drawn = FIGURES["acceptance"].draw([trace])
    heat = drawn.data[0].z
    seen = 0
    for step in trace.steps:
        for position, fate, bar in zip(step.position, step.fate, step.accept_prob or (), strict=True):
            if fate in (Fate.ACCEPTED, Fate.RESAMPLED):
                assert heat[position // 6][position % 6] == bar
                seen += 1
    assert seen == sum(value is not None for row in heat for value in row)
    rejected = sum(step.fate.count(Fate.RESAMPLED) for step in trace.steps)
    assert len(rejections(drawn)[0].x) == rejected


def test_it_says_how_untested_tokens_came_to_be() -> None:
    trace = ALL["cspd"]()
    draft, verify = trace.steps
    bonus = replace(verify, fate=(Fate.ACCEPTED, Fate.BONUS), draft=(verify.token[0], None), accept_prob=(1.0, None))
    heat, *marks = FIGURES["acceptance"].draw([replace(trace, steps=(draft, bonus))]).data
    assert list(heat.z) == [[None, 1.0]]  # position 0 is in the right cell
    assert {mark.name.split(":")[0]: (list(mark.x), list(mark.y)) for mark in marks} == {
        "the draft was rejected": ([], []),
        "bonus": ([1], [1]),
    }


@pytest.mark.parametrize("maker", [speculated, lambda: s2d2(Blocks(), config={}), simsd])
def test_a_verdict_without_a_probability_is_one_or_zero(maker: type[Trace]) -> None:
    trace = maker()
    matched = replace(trace, steps=tuple(replace(step, accept_prob=None) for step in trace.steps))
    last: dict[int, Fate] = {}
    for step in trace.steps:
        last |= {at: fate for at, fate in zip(step.position, step.fate, strict=True) if fate.judged}
    assert last and verdicts(matched) == {at: (float(fate is Fate.ACCEPTED), fate) for at, fate in last.items()}
    assert FIGURES["acceptance"].supports([matched]) is None


def test_the_subtitle_counts_the_runs_that_are_drawn() -> None:
    ordinary, run = ALL["ar"](), s2d2()
    text = FIGURES["acceptance"].draw([ordinary, run]).layout.title.subtitle.text
    assert "2 runs" not in text and text.endswith("; without verdicts on drafts: 1 run, left out")
    assert "left out" not in FIGURES["acceptance"].draw([run]).layout.title.subtitle.text


def test_verdicts_lie_on_the_words_of_a_text() -> None:
    trace = s2d2()
    found = verdicts(trace)
    drawn = FIGURES["acceptance"].draw([trace])
    untested, judged = (mark for mark in drawn.data if mark.type == "bar")
    shown = {number - 1: value for (number, _), value in zip(judged.customdata, judged.marker.color, strict=True)}
    assert shown == {at: found[at][0] for at in shown} and len(shown) > 20
    assert shown.keys().isdisjoint(number - 1 for number, _ in untested.customdata)
    names = trace.legend.vocabulary or {}
    for (number, _), text in zip(judged.customdata, judged.text, strict=True):
        token = trace.output.tokens[number - 1]
        assert isinstance(token, int) and text.replace("↵", "\n").strip("␣ ") in plain(names[token])
    widths = zip(judged.customdata, judged.marker.line.width, strict=True)
    framed = [number - 1 for (number, _), width in widths if width > 1]
    assert framed and all(found[at][1] is Fate.RESAMPLED for at in framed)
    assert drawn.layout.meta["panel_height"] > 0


def test_words_are_set_in_lines_and_overlap_none() -> None:
    boxes = lines_of(["A", " few", " words", ".\n", "Then", "y", " ", *[" more"] * 30, "漢字"])
    for (line, left, width), (after, start, _) in pairwise(boxes):
        assert (left + width <= LETTERS and (after, start) >= (line, left + width)) or after == line + 1
    assert boxes[4][:2] == (1, 0.0)  # after the line break
    assert boxes[1][1] > boxes[0][1] + boxes[0][2] and boxes[5][1] == boxes[4][1] + boxes[4][2]  # a gap for a space
    assert boxes[-1][2] > lines_of(["ab"])[0][2]  # wide letters


def test_over_a_picture_the_map_lets_it_show() -> None:
    trace = run()
    drawn = FIGURES["acceptance"].draw([trace])
    (picture,) = drawn.layout.images
    assert picture.source.startswith("data:image/png") and 0 < drawn.data[0].opacity < 1


def test_several_runs_are_averaged_where_they_have_a_verdict() -> None:
    runs = [run(seed) for seed in range(3)]
    drawn = FIGURES["acceptance"].draw(runs)
    (heat,) = drawn.data
    each = [verdicts(trace) for trace in runs]
    for position, verdict in mean_verdicts(runs).items():
        here = [found[position][0] for found in each if position in found]
        assert verdict.runs == len(here)
        assert heat.z[position // 6][position % 6] == verdict.accept_prob == pytest.approx(fmean(here))
    assert not drawn.layout.images and heat.opacity == 1
    heads = FIGURES["acceptance"].draw([*runs, ALL["scd"]()]).layout.annotations
    assert heads[0].text.endswith("3 runs")
