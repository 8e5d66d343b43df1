"""A grid of prompts by settings: what its columns and rows are, filling it, stopping it, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from demo.components.grid import _heads, preview
from demo.jobs.grid import Row, columns_of, fill, planned, rows_of
from demo.jobs.series import Progress
from support import handmade
from support.page_handlers import Parts
from support.toy_raster_runs import decode_toy_raster
from support.toy_videos import film

from demo.components import grid as grid_panel
from demo.jobs.run_selection import RunSelection, SelectableRun, entries_of, entry_of
from engines.settings import ConfigError
from traces.schema import Trace

RUN = decode_toy_raster("scd", window=32)


def other(trace: Trace = RUN, **settings: object) -> Trace:
    return replace(trace, config={**trace.config, **settings})


SHORT, LONG = other(window=8), other(window=16)


def columns(*traces: Trace) -> tuple[SelectableRun, ...]:
    return columns_of([entry_of(trace, Path("run.json.gz"), "yours") for trace in traces])


def test_columns_are_settings_and_each_stands_once() -> None:
    settings = columns(RUN, SHORT, replace(SHORT, seed=3), LONG)
    assert [one.title for one in settings] == ["MC-SJD", "MC-SJD, window 8", "MC-SJD, window 16"]
    with pytest.raises(ConfigError, match="tick runs of 1 to 4 settings"):
        columns()
    many = [other(window=window) for window in (2, 3, 4, 5, 6)]
    with pytest.raises(ConfigError, match="have 5 different settings"):
        columns(*many)
    with pytest.raises(ConfigError, match=r"came as a file .* untick it"):
        columns(RUN, replace(SHORT, method="theirs"))


def test_rows_are_prompts_by_seeds() -> None:
    pictures = [replace(column, request=replace(column.request, model="studio-image")) for column in columns(SHORT)]
    assert rows_of(" a boot \n\na bag\na boot", 2, 7, pictures) == (
        Row("a boot", 7),
        Row("a boot", 8),
        Row("a bag", 7),
        Row("a bag", 8),
    )
    assert rows_of("what is said to a model without prompts", 2, 0, columns(SHORT)) == (Row("", 0), Row("", 1))
    for prompts, seeds, said in (
        ("", 1, "there is none; write at least one"),
        ("a\nb\nc\nd", 2, "4 with 2 seeds each make a grid 8 high, and 6 is the most"),
        ("a", 0, "use a whole number from 1 to 6"),
        ("a" * 1001, 1, "number 1 has 1001 characters; 1000 are the most"),
    ):
        with pytest.raises(ConfigError, match=said):
            rows_of(prompts, seeds, 0, pictures)
    assert planned(columns(SHORT, LONG), (Row("", 0),)).startswith("1 seed × 2 settings: 2 runs, about")
    assert planned(pictures, (Row("a", 0), Row("b", 0))).startswith("2 prompts × 1 setting: 2 runs")


@pytest.mark.slow
def test_cells_come_one_by_one_and_equal_runs_of_their_own() -> None:
    first, *rest = fill(columns(RUN, other(coupling="none")), (Row("", 3),), lambda: False)
    assert (first.done, first.total, first.share) == (0, 2, 0.0) and first.seconds_left > 0
    whole = [one for one in rest if one.trace]
    assert [one.done for one in whole] == [1, 2] and whole[-1].share == 1.0
    own = [decode_toy_raster("scd", 3, window=32), decode_toy_raster("scd", 3, window=32, coupling="none")]
    assert [one.trace and one.trace.output.tokens for one in whole] == [trace.output.tokens for trace in own]
    shares = [one.share for one in rest]
    assert shares == sorted(shares)


def test_a_cell_shows_a_picture_or_a_text_with_its_passes() -> None:
    text = handmade.s2d2()
    text = replace(text, output=replace(text.output, text="<b>10</b>"))
    (column,) = columns(SHORT)
    picture, words, clip = (preview(trace, column, "a row") for trace in (SHORT, text, film(3, 5, given=9)))
    assert picture.image.startswith("data:image/png;base64,")
    assert (picture.title, picture.group, picture.badge) == (column.title, "a row", f"{SHORT.summary.forwards} passes")
    assert words.text == "<b>10</b>" and not words.image
    assert clip.badge.endswith("clip of 33 frames") and clip.image.startswith("data:image/webp;base64,")
    assert clip.still.startswith("data:image/png;base64,")
    assert _heads((Row("", 0), Row("", 1))) == ["seed 0", "seed 1"] and _heads((Row("a", 0), Row("b", 0))) == ["a", "b"]


@pytest.mark.slow
def test_a_cell_plays_its_row_and_changes_no_column(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [replace(trace, seed=seed) for seed in (0, 1) for trace in (SHORT, LONG)]

    def filled(*_: object) -> Iterator[Progress]:
        for done in range(5):
            trace = made[done - 1] if done else None
            yield Progress(done=done, total=4, share=done / 4, seconds_left=0.0, trace=trace)

    monkeypatch.setattr(grid_panel, "fill", filled)
    request, site, page = gr.Request(session_hash="mine"), parts.site, parts.compare
    panel, fns = page.grid, parts.blocks.fns.values()
    heard = [target for fn in fns for target in fn.targets if getattr(fn.fn, "__name__", "") == "say"]
    assert (panel.prompts._id, "change") in heard  # what is pasted, too
    ticked = entries_of(site.visitor(request).keep([SHORT, LONG], "").paths, "yours")
    values = parts.values(tray=RunSelection(ticked, ticked)) | {panel.prompts: "", panel.seeds: 2}
    updates = list(panel.conduct(values, request))
    there = [len(update[panel.box]) for update in updates if panel.box in update]
    assert there == [0, 1, 2, 3, 4, 4]  # gradio may show the last one alone
    kept = updates[-1][panel.kept].traces()
    assert [(trace.config["window"], trace.seed) for trace in kept] == [(8, 0), (16, 0), (8, 1), (16, 1)]
    values |= {part: updates[-1][part] for part in (panel.kept, panel.wide)}
    update = page.play_row(values, request, gr.EventData(None, {"index": 3}))
    chosen = update[page.tray].chosen
    assert [trace.seed for trace in update[site.shown].traces()] == [1, 1]
    assert [one.note for one in columns_of(chosen)] == [one.note for one in columns_of(ticked)]
    for wrong in (9, -1, True, "0", None, [0]):
        with pytest.raises(gr.Error, match="cell: "):
            page.play_row(values, request, gr.EventData(None, {"index": wrong}))
