"""Figures of pictures and videos: what stands where, what is left out, detail and redundancy in time."""

import base64
from dataclasses import replace
from itertools import product
from math import sqrt

import pytest
from PIL import Image
from support import handmade
from support.handmade import ALL, make, step
from support.toy_videos import film

from benchmarks._toy_runs import decode_toy_raster, jacobi, ordinary
from draftscope.traces.schema import Canvas, Trace
from draftscope.traces.stats import Tally
from draftscope.traces.video import frame_ends, frame_names, kept_by_change
from draftscope.visualizers import FIGURES
from draftscope.visualizers.figures.acceptance import BINS, PlaceTally, by_detail, correlation, local_detail
from draftscope.visualizers.figures.acceptance_map import verdicts
from draftscope.visualizers.picture import data_url, picture_of

ORDINARY, RUN = ordinary(4, 4), jacobi(4, 4, 6)
PLACES = tuple(product(range(3), repeat=2))
PICTURES, SEEDS = FIGURES["pictures"], FIGURES["seeds"]


def test_a_row_is_a_prompt_and_a_column_a_decoder_with_its_passes_below() -> None:
    runs = [replace(run, prompt=prompt) for prompt in ("a boot", "<b>a bag</b>") for run in (ORDINARY, RUN)]
    figure = PICTURES.draw(runs)
    (costs,) = figure.data
    assert list(costs.text) == [f"NFE {run.summary.forwards}" for run in runs]
    corners = [(image.x, image.y) for image in figure.layout.images]
    assert len(set(corners)) == 4 and len({x for x, _ in corners}) == len({y for _, y in corners}) == 2
    notes = [note.text for note in figure.layout.annotations]
    assert notes == ["Ordinary decoding", "SJD", "a boot", "&lt;b&gt;a bag&lt;/b&gt;"]
    seeds = PICTURES.draw([RUN, replace(RUN, seed=9)]).layout.annotations[-2:]
    assert [note.text.split(", ")[-1] for note in seeds] == [f"seed {RUN.seed}", "seed 9"]


def test_stopped_runs_and_texts_that_nobody_wrote_down_have_no_picture() -> None:
    stopped = replace(RUN, summary=replace(RUN.summary, complete=False))
    assert PICTURES.supports([handmade.s2d2(), stopped]) is not None
    assert len(PICTURES.draw([stopped, ORDINARY]).layout.images) == 1
    many = [replace(RUN, prompt=str(number)) for number in range(7)]
    assert PICTURES.supports(many) == "draws up to 6 prompts and seeds by 6 decoders, 7 by 1 given"


def test_a_text_stands_on_a_card_and_a_clip_as_frames_that_were_decoded() -> None:
    text = handmade.s2d2()
    words = "<b>7</b> loaves & more\n" * 40
    (card,) = PICTURES.draw([replace(text, output=replace(text.output, text=words))]).layout.images
    drawn = base64.b64decode(card.source.partition("base64,")[2]).decode()
    assert "&lt;b&gt;7&lt;/b&gt; loaves &amp; more" in drawn and drawn.count("<text") < 20 and ">...<" in drawn
    frames = tuple(data_url(Image.new("RGB", (4, 4), (0, 0, 10 * shade))) for shade in range(21))
    clip = replace(RUN, canvas=replace(RUN.canvas, kind="video", shape=(1, 4, 4)))
    clip = replace(clip, output=replace(clip.output, video=frames, given=3))
    (sheet,) = PICTURES.draw([clip]).layout.images
    shown = picture_of(sheet.source)
    blues = [shown.getpixel((shown.width * (2 * x + 1) // 6, shown.height * (2 * y + 1) // 6))[2] for y, x in PLACES]
    assert blues == sorted(blues) and (blues[0], blues[-1]) == (30, 200)


def test_texts_have_panels_with_their_passes_above_and_the_prompt_below() -> None:
    blank = handmade.s2d2()
    text, long = (replace(blank, output=replace(blank.output, text=words)) for words in ("one", "one\ntwo\nthree"))
    other = replace(long, prompt="another")
    figure = PICTURES.draw([text, other])
    assert [note.text for note in figure.layout.annotations] == [f"S2D2: NFE {text.summary.forwards}"] * 2
    assert [axis.title.text for axis in figure.select_xaxes()] == [text.prompt, "another"]
    assert [trace.customdata[0][3] for trace in figure.data] == [text.summary.forwards] * 2
    (first, second) = figure.layout.images
    assert (first.sizey, first.xref, second.xref) == (second.sizey, "x", "x2")
    high = PICTURES.draw([text]).layout.images[0].sizey
    assert first.sizey == high + 2 * 16  # a card is as high as the longest text
    many = [replace(text, prompt=str(number)) for number in range(13)]
    assert PICTURES.supports(many) == "draws up to 12 texts, 13 given"


def test_runs_share_one_scale_unless_one_takes_more_than_twice_the_passes() -> None:
    def scales(*runs: Trace) -> list[float]:
        return [axis.range[0] - 0.5 for axis in FIGURES["churn"].draw(runs).select_yaxes()]

    long, short = replace(ORDINARY, steps=ORDINARY.steps[:8]), replace(RUN, steps=RUN.steps[:4])
    assert scales(long, short) == [8, 8]
    assert scales(long, replace(short, steps=RUN.steps[:3])) == [8, 3]


def test_a_run_of_many_passes_has_dots_where_its_cells_are_too_small() -> None:
    def dots(run: Trace) -> list[int]:
        marks = [mark for mark in FIGURES["churn"].draw([run]).data if mark.type == "scatter"]
        return [len(mark.x) for mark in marks if mark.marker.symbol == "square" and mark.x[0] is not None]

    assert dots(ordinary(10, 10)) == [100]
    assert dots(ORDINARY) == []


def test_a_long_subtitle_stands_on_several_lines_with_room_for_them() -> None:
    named = replace(RUN, model=replace(RUN.model, title="a model of a long name " * 10))
    short, long = FIGURES["churn"].draw([RUN]), FIGURES["churn"].draw([named])
    lines = long.layout.title.subtitle.text.split("<br>")
    assert len(lines) > 2 and max(map(len, lines)) <= 108
    assert long.layout.margin.t > (short.layout.margin.t or 84) and long.layout.height > short.layout.height


def pictured(seed: int = 0, picture: Image.Image | None = None) -> Trace:
    """A run whose picture is a bright disc, of more detail towards its edge, in place of tiles of one colour."""
    run = decode_toy_raster("scd", seed, window=16)
    image = data_url(picture or Image.radial_gradient("L"))
    return replace(run, legend=replace(run.legend, tiles=None), output=replace(run.output, image=image))


def test_detail_is_the_spread_of_brightness_within_a_cell() -> None:
    picture = Image.new("RGB", (4, 4), "black")
    picture.paste("white", (1, 0, 2, 2))  # half of the first cell
    picture.paste("white", (0, 2, 2, 4))  # all of the one below it
    assert local_detail(picture, 2, 2).tolist() == [[50, 0], [0, 0]]
    assert local_detail(picture.resize((64, 64), Image.Resampling.NEAREST), 2, 2).tolist() == [[50, 0], [0, 0]]
    assert local_detail(picture.resize((1, 1)), 2, 2).tolist() == [[0, 0], [0, 0]]  # a picture smaller than its canvas


def test_detail_and_verdict_go_together_or_do_not() -> None:
    rejected, unchanged = PlaceTally(8, 3, 0), PlaceTally(2, 3, 3)
    assert correlation([rejected, unchanged]) == pytest.approx(-1)
    assert correlation([PlaceTally(8, 3, 3), PlaceTally(2, 3, 0)]) == pytest.approx(1)
    assert correlation([PlaceTally(2, 2, 1), PlaceTally(8, 4, 2)]) == pytest.approx(0)
    assert correlation([unchanged, PlaceTally(8, 1, 1)]) is None  # nothing was rejected
    assert correlation([rejected, PlaceTally(8, 3, 3)]) is None


@pytest.mark.slow
def test_groups_have_as_many_drafts_and_their_own_rate() -> None:
    runs = [pictured(seed) for seed in range(3)]
    (curve,) = FIGURES["detail"].draw(runs).data
    verdicts = [one for run in runs for one in by_detail(run)]
    total, accepted = sum(one.judged for one in verdicts), sum(one.accepted for one in verdicts)
    counts = [count for _, count in curve.customdata]
    assert sum(counts) == total == sum(run.summary.judged for run in runs) and len(curve.x) == BINS
    assert accepted == sum(run.summary.accepted for run in runs)
    assert max(counts) - min(counts) < total / BINS / 4
    assert list(curve.x) == sorted(curve.x)
    mean = sum(share * count for share, count in zip(curve.y, counts, strict=True)) / total
    assert mean == pytest.approx(100 * accepted / total)
    assert curve.name == f"MC-SJD, 3 runs: correlation {correlation(verdicts):.2f}"


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
    assert (same.judged, other.judged) == (2, 1)  # Now what is decoded first is in the second latent frame.


def test_the_bars_are_the_shares_of_all_runs_of_a_setting_with_their_errors() -> None:
    runs = [film(3, SIDE, seed=seed) for seed in range(4)]
    (bar,) = FIGURES["redundancy"].draw(runs).data
    for side in (0, 1):
        shares = [kept_by_change(trace)[side] for trace in runs]
        judged, accepted = sum(k.judged for k in shares), sum(k.accepted for k in shares)
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
    assert frame_ends(trace.canvas) == (SIDE * SIDE, 2 * SIDE * SIDE)
    lines = [shape.x0 for shape in FIGURES["churn"].draw([trace]).layout.shapes]
    assert lines == [SIDE * SIDE + 0.5, 2 * SIDE * SIDE + 0.5]
    assert not FIGURES["churn"].draw([jacobi(6, 6)]).layout.shapes


def test_names_follow_the_clip_and_what_was_given() -> None:
    assert frame_names(film(2, SIDE)) == ("frames 1 to 8", "frames 9 to 16")
    assert frame_names(film(2, SIDE, prefix=9)) == ("frames 10 to 17", "frames 18 to 25")
    assert frame_names(ALL["video"]()) == ("frame 1", "frame 2")
    odd = film(2, SIDE)
    odd = replace(odd, output=replace(odd.output, video=odd.output.video[1:]))
    assert frame_names(odd) == ("latent frame 1", "latent frame 2")
