"""Figures of videos: a panel for every latent frame, lines where they end, and whether redundancy in time helps."""

from dataclasses import replace
from math import sqrt

import pytest
from support.film import film
from support.handmade import ALL, make, step
from support.raster import jacobi

from traces.schema import Canvas
from traces.stats import Tally
from traces.video import frame_ends, frame_names, kept_by_change
from visualizers import FIGURES
from visualizers.figures.canvas import verdicts

SIDE = 6


def test_judged_drafts_are_counted_by_what_stood_there_in_the_latent_frame_before() -> None:
    canvas = Canvas(kind="video", shape=(2, 1, 4))
    first = "0:1=accepted 1:2=accepted 2:3=resampled 3:4=sampled"
    later = ("4:1=accepted 5:2=resampled", "6:7=resampled 7:8=drafted", "7:8=accepted")
    steps = [step(text) for text in (first, *later)]
    same, other = kept_by_change(make("scd", canvas, steps))
    assert same == other == Tally(judged=2, accepted=1)
    assert same.error == pytest.approx(sqrt(0.25 / 2))
    shuffled = replace(canvas, order=(4, 5, 6, 7, 0, 1, 2, 3))
    same, other = kept_by_change(make("scd", shuffled, steps))
    assert (same.judged, other.judged) == (2, 1)  # Now what is decoded first lies in the second latent frame.


def test_the_bars_are_the_shares_of_all_runs_of_a_setting_with_their_errors() -> None:
    runs = [film(3, SIDE, seed=seed) for seed in range(4)]
    (bar,) = FIGURES["redundancy"].draw(runs).data
    for side in (0, 1):
        kept = [kept_by_change(trace)[side] for trace in runs]
        judged, accepted = sum(k.judged for k in kept), sum(k.accepted for k in kept)
        assert judged > 20
        share = accepted / judged
        assert bar.y[side] == pytest.approx(share)
        assert bar.error_y.array[side] == pytest.approx(sqrt(share * (1 - share) / judged))


def test_every_latent_frame_has_a_panel_and_its_end_a_line_in_the_timeline() -> None:
    trace = film(3, SIDE)
    figure = FIGURES["acceptance"].draw([trace])
    panels = [mark for mark in figure.data if mark.type == "heatmap"]
    assert [(len(panel.z), len(panel.z[0])) for panel in panels] == [(SIDE, SIDE)] * 3
    for position, (bar, _) in verdicts(trace).items():
        frame, inside = divmod(position, SIDE * SIDE)
        assert panels[frame].z[inside // SIDE][inside % SIDE] == bar
    assert [title.text for title in figure.layout.annotations] == list(frame_names(trace))
    assert len({panel.xaxis for panel in panels}) == 3
    legend = [mark.name for mark in figure.data if mark.showlegend]
    assert len(legend) == len(set(legend))
    trace = film(3, SIDE)
    assert frame_ends(trace.canvas) == (SIDE * SIDE, 2 * SIDE * SIDE)
    lines = [shape.x0 for shape in FIGURES["churn"].draw([trace]).layout.shapes]
    assert lines == [SIDE * SIDE - 0.5, 2 * SIDE * SIDE - 0.5]
    assert not FIGURES["churn"].draw([jacobi(6, 6)]).layout.shapes


def test_names_follow_the_clip_and_what_was_given() -> None:
    assert frame_names(film(2, SIDE)) == ("frames 1 to 8", "frames 9 to 16")
    assert frame_names(film(2, SIDE, given=9)) == ("frames 10 to 17", "frames 18 to 25")
    assert frame_names(ALL["video"]()) == ("frame 1", "frame 2")
    odd = film(2, SIDE)
    odd = replace(odd, output=replace(odd.output, video=odd.output.video[1:]))
    assert frame_names(odd) == ("latent frame 1", "latent frame 2")
