"""The grid of pictures and the figure of many seeds: what stands where, and what is left out."""

from dataclasses import replace

from support import handmade
from support.jacobi import Raster, decode, ordinary

from visualizers import FIGURES

RASTER = Raster(rows=4, columns=4, codes=8)
ORDINARY, RUN = ordinary(raster=RASTER), decode(window=6, raster=RASTER)
PICTURES, SEEDS = FIGURES["pictures"], FIGURES["seeds"]


def test_a_row_is_a_prompt_and_a_column_a_decoder_with_its_passes_below() -> None:
    runs = [replace(run, prompt=prompt) for prompt in ("a boot", "<b>a bag</b>") for run in (ORDINARY, RUN)]
    figure = PICTURES.draw(runs)
    (costs,) = figure.data
    assert list(costs.text) == [f"NFE {run.summary.forwards}" for run in runs]
    places = [(image.x, image.y) for image in figure.layout.images]
    assert len(set(places)) == 4 and len({x for x, _ in places}) == len({y for _, y in places}) == 2
    assert list(figure.layout.yaxis.ticktext) == ["a boot", "&lt;b&gt;a bag&lt;/b&gt;"]


def test_seeds_are_rows_of_their_own() -> None:
    figure = PICTURES.draw([RUN, replace(RUN, seed=9)])
    assert [text.split("<br>")[-1] for text in figure.layout.yaxis.ticktext] == [f"seed {RUN.seed}", "seed 9"]


def test_texts_and_stopped_runs_have_no_picture() -> None:
    stopped = replace(RUN, summary=replace(RUN.summary, complete=False))
    assert PICTURES.supports([handmade.s2d2(), stopped]) is not None
    assert len(PICTURES.draw([stopped, ORDINARY]).layout.images) == 1
    many = [replace(RUN, prompt=str(number)) for number in range(7)]
    assert PICTURES.supports(many) == "draws up to 6 prompts and seeds by 6 decoders, 7 by 1 given"


def test_one_seed_or_two_prompts_are_no_repetition() -> None:
    assert SEEDS.supports([ORDINARY, RUN]) == "needs whole runs that differ in their seed alone"
    assert SEEDS.supports([RUN, replace(RUN, seed=5, prompt="another")]) == "needs runs of one prompt"
    stopped = replace(RUN, seed=5, summary=replace(RUN.summary, complete=False))
    assert SEEDS.supports([RUN, stopped]) is not None


def test_a_long_subtitle_stands_on_several_lines_with_room_for_them() -> None:
    config = {f"a_setting_of_some_length_{number}": number for number in range(12)}
    short, long = FIGURES["churn"].draw([RUN]), FIGURES["churn"].draw([replace(RUN, config=config)])
    lines = long.layout.title.subtitle.text.split("<br>")
    assert len(lines) > 2 and max(map(len, lines)) <= 108
    assert long.layout.margin.t > (short.layout.margin.t or 84) and long.layout.height > short.layout.height
