"""The zip of `draftscope export`: figures, numbers, traces, a caption and commands."""

import csv
import io
import os
import re
import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import handmade

from benchmarks._toy_runs import jacobi, ordinary
from draftscope.traces import loads
from draftscope.visualizers import FIGURES, FigureError
from draftscope.visualizers import export_zip as bundle
from draftscope.visualizers.export import ImageJob
from draftscope.visualizers.export_zip import PRESETS, BundleError, ZipOptions, file_stem, image_job, write_zip
from draftscope.visualizers.export_zip.table import as_csv
from draftscope.visualizers.palette import DARK

RUNS = [ordinary(6, 6), jacobi(6, 6, 6), jacobi(6, 6, 12)]


@pytest.fixture
def unprinted(monkeypatch: pytest.MonkeyPatch) -> list[ImageJob]:
    """Everything but the browser: what it is asked to print is kept, and its answers are short."""
    jobs: list[ImageJob] = []

    def printed(wanted: Sequence[ImageJob], report: object) -> list[bytes]:
        jobs.extend(wanted)
        return [one.kind.encode() for one in wanted]

    monkeypatch.setattr(bundle, "render_images", printed)
    return jobs


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


@pytest.mark.usefixtures("unprinted")
def test_a_zip_holds_figures_numbers_traces_words_and_commands(tmp_path: Path) -> None:
    target = tmp_path / "windows.zip"
    write_zip(RUNS[1:], target, figures=["churn", "race"])
    files = contents(target)
    kinds = ("csv", "pdf", "png", "svg")
    names = [f"scd-{figure}-seed0.{kind}" for figure in ("churn", "race") for kind in kinds]
    traces = ["traces/scd-seed0.json.gz", "traces/scd-seed0-2.json.gz"]
    assert sorted(files) == sorted([*names, *traces, "caption.txt", "commands.sh"])
    assert [loads(files[name]) for name in traces] == RUNS[1:]
    caption = files["caption.txt"].decode()
    assert FIGURES["churn"].caption in caption and "window 12" in caption and traces[1] in caption
    *_, again = files["commands.sh"].decode().splitlines()
    assert shlex.split(again)[2:] == [*traces, "--figure", "churn", "--figure", "race", "-o", "windows.zip"]


def test_the_numbers_are_those_that_are_drawn() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(FIGURES["race"].draw(RUNS)))))
    ends = {row["series"]: (row["Forward passes"], row["Tokens decoded"]) for row in rows if row["Forward passes"]}
    assert list(ends.values()) == [(str(len(run.steps)), str(run.summary.tokens)) for run in RUNS]
    cells = list(csv.DictReader(io.StringIO(as_csv(FIGURES["churn"].draw(RUNS[1:2])))))
    assert (cells[0]["Position, in decoding order"], cells[0]["Forward pass"]) == ("1", "1")
    fates = [fate.value for step in RUNS[1].steps for fate in step.fate]
    drawn = [row["text"] for row in cells if row["text"]]
    assert set(drawn) <= set(fates) and drawn.count("accepted") == fates.count("accepted")
    named = [replace(run, prompt="=1+1 & <b>") for run in RUNS]
    rows = list(csv.DictReader(io.StringIO(as_csv(FIGURES["pictures"].draw(named)))))
    assert [row["target passes (NFE)"] for row in rows] == [str(run.summary.forwards) for run in RUNS]
    assert {row["prompt"] for row in rows} == {"'=1+1 & <b>"}
    assert list(rows[0]) == ["prompt", "seed", "decoding", "target passes (NFE)", "draft passes"]  # no coordinates


@pytest.mark.one_quick
def test_letters_have_the_size_that_is_asked_for_at_the_width_that_is_asked_for() -> None:
    figure = FIGURES["churn"].draw([handmade.scd()])
    for points in (6, 9):
        preset = ZipOptions(width="column", font_size=points).preset
        job = image_job(figure, "pdf", preset, "dark")
        assert job.width * job.scale == pytest.approx(3.25 * 96)  # CSS pixels of a page
        assert job.figure.layout.template.layout.font.size * job.scale * 72 / 96 == pytest.approx(points, rel=2e-3)
        assert job.figure.layout.template.layout.paper_bgcolor == DARK.background
    assert PRESETS["column"].font_size == pytest.approx(7.6, abs=0.01)
    assert ZipOptions(font_size=9).preset is PRESETS["screen"]  # the page has its own letters
    with pytest.raises(BundleError, match=r"font_size: 3 is not allowed; use 5 to 16 points\."):
        write_zip([handmade.scd()], "unused.zip", options=ZipOptions(width="column", font_size=3))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_prints_as_wide_as_it_says_and_leaves_room(
    name: str, unprinted: list[ImageJob], tmp_path: Path
) -> None:
    write_zip(RUNS, tmp_path / "runs.zip", figures=["churn", "race", "comparison"], options=ZipOptions(width=name))
    preset = PRESETS[name]
    for one in unprinted:
        dots = preset.dots if one.kind == "png" else 1
        assert one.width * one.scale == pytest.approx(preset.inches * 96 * dots)
        margin = one.figure.layout.margin
        room = one.figure.layout.height - (margin.t or 84) - (margin.b or 56)
        assert room >= 150
        assert bool(one.figure.layout.title.text) == preset.with_title


@pytest.mark.slow
def test_a_zip_that_would_be_too_large_is_refused_before_printing(unprinted: list[ImageJob], tmp_path: Path) -> None:
    target = tmp_path / "runs.zip"
    message = r"zip: .* \d+\.\d MB, more than .* leave the traces out, or select fewer runs"
    with pytest.raises(BundleError, match=message):
        write_zip(RUNS, target, options=ZipOptions(max_bytes=1000))
    assert unprinted == [] and list(tmp_path.iterdir()) == []
    write_zip(RUNS, target, figures=["race"], options=ZipOptions(max_bytes=200_000, traces=False))
    assert not any(name.startswith("traces/") for name in contents(target))


@pytest.mark.usefixtures("unprinted")
def test_what_cannot_be_drawn_is_refused_and_an_old_zip_stays(tmp_path: Path) -> None:
    target = tmp_path / "runs.zip"
    target.write_text("old")
    for figures, options in (
        (["nothing"], ZipOptions()),
        (["routing"], ZipOptions()),
        (["race"], ZipOptions(width="wide")),
    ):
        with pytest.raises((BundleError, FigureError)):
            write_zip(RUNS, target, figures=figures, options=options)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["runs.zip"]


@pytest.mark.usefixtures("unprinted")
def test_a_strangers_words_become_no_path(tmp_path: Path) -> None:
    odd = replace(RUNS[1], method="../../<b>", variant="")
    write_zip([odd], tmp_path / "runs.zip", figures=["race"])
    for name in contents(tmp_path / "runs.zip"):
        assert re.fullmatch(r"(traces/)?[a-z0-9-]+(\.json)?\.[a-z]+", name)
    assert file_stem([odd], "race") == f"b-race-seed{odd.seed}"


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_prints_a_column_three_and_a_quarter_inches_wide(tmp_path: Path) -> None:
    write_zip([RUNS[1]], tmp_path / "runs.zip", figures=["race"], options=ZipOptions(width="column", traces=False))
    files = contents(tmp_path / "runs.zip")
    (pdf,) = (data for name, data in files.items() if name.endswith(".pdf"))
    assert b"/MediaBox [0 0 234 " in pdf
    (svg,) = (data for name, data in files.items() if name.endswith(".svg"))
    assert re.search(rb'width="31[12]', svg)
