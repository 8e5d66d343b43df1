"""`python -m visualizers` and the zip: files are what endings and names say, and what is wrong is one clear line."""

import csv
import io
import os
import re
import shlex
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from support.browser import chromium, executable, visit
from support.toy_raster_runs import jacobi, ordinary

import visualizers.export_zip as bundle
from traces import loads
from traces.io import write
from visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES, FigureError
from visualizers.__main__ import main
from visualizers.export import ImageJob
from visualizers.export_zip import PRESETS, BundleError, ZipOptions, file_stem, write_zip
from visualizers.export_zip.table import as_csv


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Paths of an ordinary and a speculative run."""
    folder = tmp_path_factory.mktemp("traces")
    paths = [folder / "ordinary.json", folder / "jacobi.json.gz"]
    for path, trace in zip(paths, (ordinary(6, 6), jacobi(6, 6, 12)), strict=True):
        write(trace, path)
    return [str(path) for path in paths]


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and the only line of standard error."""
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return code, err


def test_list_names_every_figure_and_its_counterpart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == [*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES]
    assert any("SCD, Fig. 3" in row for row in rows)


@pytest.mark.browser
def test_page_shows_player_and_figures_without_a_request(traces: list[str], tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert main([*traces, "-o", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert len(re.findall(r"plotly\.js v\d", text)) == 1
    requests: list[str] = []
    with chromium() as browser, visit(browser, console=True, viewport={"width": 390, "height": 800}) as page:
        page.on("request", lambda request: requests.append(request.url))
        page.goto(target.as_uri(), timeout=120_000)  # thirty figures, on a busy machine
        page.wait_for_function("document.querySelectorAll('.figures .main-svg').length > 0")
        drawn = page.evaluate(
            "[...document.querySelectorAll('.figures figure')].filter(f => f.querySelector('.main-svg')).length"
        )
        assert drawn == len(re.findall('<figure id="', text)) >= 9
        assert page.locator("#player canvas").count() > 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        light = page.evaluate("getComputedStyle(document.querySelector('.main-svg')).backgroundColor")
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(
            "light => getComputedStyle(document.querySelector('.main-svg')).backgroundColor !== light", arg=light
        )
        assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("ending", "head"), [("pdf", b"%PDF-"), pytest.param("svg", b"<svg", marks=pytest.mark.slow), ("png", b"\x89PNG")]
)
def test_figure_files(traces: list[str], tmp_path: Path, ending: str, head: bytes) -> None:
    executable()
    target = tmp_path / f"race.{ending}"
    assert main([*traces, "--figure", "race", "-o", str(target)]) == 0
    data = target.read_bytes()
    assert data.startswith(head)
    assert ending != "svg" or (b"Tokens decoded" in data and b"SJD" in data)
    assert ending != "png" or struct.unpack(">II", data[16:24]) == (1920, 880)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "problem"), [("/nonexistent", "none was found"), ("/bin/false", "did not start")])
def test_a_missing_browser_is_one_line_and_a_remedy(traces: list[str], tmp_path: Path, path: str, problem: str) -> None:
    target = tmp_path / "race.pdf"
    command = [sys.executable, "-m", "visualizers", traces[1], "--figure", "race", "-o", str(target)]
    environment = os.environ | {"BROWSER_PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert problem in done.stderr and "BROWSER_PATH" in done.stderr and not target.exists()


USAGE = [
    ("RUN -o x.bmp", "x.bmp", ".html, .pdf, .svg, .png, .gif, .mp4, .webp"),
    ("RUN -o x.pdf", "--figure", "canvas, acceptance, pictures, churn"),
    ("ORDINARY --figure beta -o x.pdf", "figure beta", "needs the measures"),
    ("RUN --figure canvas --step 999 -o x.pdf", "step 999", "from 0 to"),
    ("RUN --figure race --step 3 -o x.pdf", "--step 3", "leave --step out"),
    ("RUN --figure race -o no/x.html", "x.html", "folder that exists"),
    ("RUN", "-o FILE", "are needed"),
    ("RUN --figure frontier -o x.pdf", "--figure frontier", "--sweep RESULTS"),
    ("--sweep r.json -o x.pdf", "--sweep r.json", "frontier, setting"),
    ("--timings t.json -o x.pdf", "--timings t.json", "windows, speed-up, time-shares, break-even"),
    ("--sweep r.json --timings t.json -o x.pdf", "--timings t.json", "takes no --sweep"),
    ("RUN -o a.pdf --figure race --figure churn", "--figure churn", "a .pdf file holds one figure"),
    ("RUN -o a.html --preset slide", "--preset slide", "belongs to a .zip"),
    ("RUN -o x.gif --figure churn", "--figure", "leave --figure out"),
    ("RUN -o x.gif --fps 90", "fps 90", "from 1 to 50"),
    ("RUN -o x.gif --clock milliseconds --passes-per-frame 2", "--passes-per-frame 2", "--clock passes"),
    ("RUN -o x.gif --device H100", "--device", "--clock computed"),
    ("RUN -o x.gif --clock computed --device H100", "--clock computed", "needs --target"),
    ("RUN -o x.gif --clock computed --device H10 --target 7e9", "there is no 'H10'", "did you mean 'H100'?"),
    ("RUN -o x.gif --name A --name B", "2 names for 1 traces", "at most one each"),
    ("RUN -o x.gif --clip", "no decoded clip", "complete run of a video"),
    ("--sweep r.json --figure frontier -o x.gif", "x.gif", "give TRACE"),
]


@pytest.mark.parametrize(("arguments", "option", "remedy"), USAGE)
def test_wrong_usage_names_option_and_remedy_and_writes_nothing(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, option: str, remedy: str
) -> None:
    names = {"ORDINARY": traces[0], "RUN": traces[1]}
    words = [names.get(word, str(tmp_path / word) if "." in word else word) for word in arguments.split()]
    code, error = failing(capsys, *words)
    assert code == 2 and option.replace(" r.json", "").replace(" t.json", "") in error and remedy in error, error
    assert list(tmp_path.iterdir()) == []


def test_a_broken_or_missing_trace_is_a_line(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(Path(traces[0]).read_text("utf-8").replace('"sampled"', '"guessed"', 1), encoding="utf-8")
    for file, problem in ((broken, "fate"), (tmp_path / "absent.json", "check the path")):
        code, error = failing(capsys, str(file), "-o", str(tmp_path / "x.html"))
        assert code == 1 and file.name in error and problem in error


def test_a_moving_picture_of_two_runs(traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "race.gif"
    words = ["--name", "Ordinary", "--name", "Jacobi", "--width", "480", "--every", "12", "--theme", "dark"]
    assert main([*traces, "-o", str(target), *words]) == 0
    assert capsys.readouterr() == ("", "")  # Progress is for terminals.
    with Image.open(target) as image:
        assert (image.width, image.n_frames) == (480, 4)
        assert image.convert("RGB").getpixel((1, 1)) == (0x16, 0x17, 0x1A)


RUNS = [ordinary(6, 6), jacobi(6, 6, 6), jacobi(6, 6, 12)]


@pytest.fixture
def unprinted(monkeypatch: pytest.MonkeyPatch) -> list[ImageJob]:
    """Everything but the browser: what it is asked to print is kept, and its answers are short."""
    asked: list[ImageJob] = []

    def printed(wanted: Sequence[ImageJob], report: object) -> list[bytes]:
        asked.extend(wanted)
        return [one.kind.encode() for one in wanted]

    monkeypatch.setattr(bundle, "render_images", printed)
    return asked


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
    assert shlex.split(again)[3:] == [*traces, "--figure", "churn", "--figure", "race", "-o", "windows.zip"]


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
    with pytest.raises(BundleError, match=r"zip: .* \d+\.\d MB, more than .* leave the traces out, or tick fewer runs"):
        write_zip(RUNS, target, options=ZipOptions(most_bytes=1000))
    assert unprinted == [] and list(tmp_path.iterdir()) == []
    write_zip(RUNS, target, figures=["race"], options=ZipOptions(most_bytes=200_000, traces=False))
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
