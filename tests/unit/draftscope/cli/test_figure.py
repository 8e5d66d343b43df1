"""`draftscope view`, `figure`, `export` and `animate`: files follow their suffix, and errors are one line."""

import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from plotly.colors import hex_to_rgb
from support.browser import executable, visit

from benchmarks._browser import chromium
from benchmarks._toy_runs import jacobi, ordinary
from draftscope.cli.main import main
from draftscope.traces.io import write
from draftscope.visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES
from draftscope.visualizers.palette import DARK


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
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return code, err


def test_list_names_every_figure_and_its_counterpart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "--list"]) == 0
    printed = capsys.readouterr().out
    assert main(["list", "figures"]) == 0
    assert capsys.readouterr().out == printed
    rows = printed.splitlines()
    assert [row.split()[0] for row in rows] == [*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES]
    assert any("SCD, Fig. 3" in row for row in rows)
    assert main(["list", "figures", "--json"]) == 0
    assert [figure["name"] for figure in json.loads(capsys.readouterr().out)] == [row.split()[0] for row in rows]


@pytest.mark.browser
def test_page_shows_player_and_figures_without_a_request(traces: list[str], tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert main(["view", *traces, "-o", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert len(re.findall(r"plotly\.js v\d", text)) == 1
    requests: list[str] = []
    with (
        chromium(executable()) as browser,
        visit(browser, console=True, viewport={"width": 390, "height": 800}) as page,
    ):
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
    assert main(["figure", "race", *traces, "-o", str(target)]) == 0
    data = target.read_bytes()
    assert data.startswith(head)
    assert ending != "svg" or (b"Tokens decoded" in data and b"SJD" in data)
    assert ending != "png" or struct.unpack(">II", data[16:24]) == (1920, 880)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "problem"), [("/nonexistent", "none was found"), ("/bin/false", "did not start")])
def test_a_missing_browser_is_one_line_and_a_remedy(traces: list[str], tmp_path: Path, path: str, problem: str) -> None:
    target = tmp_path / "race.pdf"
    command = [sys.executable, "-m", "draftscope", "figure", "race", traces[1], "-o", str(target)]
    environment = os.environ | {"BROWSER_PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert problem in done.stderr and "BROWSER_PATH" in done.stderr and not target.exists()


USAGE = [
    ("view RUN -o x.bmp", "x.bmp", "ends in .html; draftscope export writes .zip"),
    ("view RUN -o x.pdf", "draftscope figure NAME", "canvas, acceptance, pictures, churn"),
    ("view RUN -o no/x.html", "x.html", "folder that exists"),
    ("view RUN", "'--output'", "draftscope view --help"),
    ("figure race RUN -o x.bmp", "x.bmp", ".html, .pdf, .svg, .png"),
    ("figure beta ORDINARY -o x.pdf", "figure beta", "needs the measures"),
    ("figure canvas RUN --step 999 -o x.pdf", "step 999", "from 0 to"),
    ("figure race RUN --step 3 -o x.pdf", "--step 3", "omit --step"),
    ("figure race RUN -o no/x.html", "x.html", "folder that exists"),
    ("figure race RUN -o x.pdf --format svg", "--format svg", "omit --format or use -o -"),
    ("figure race RUN", "-o FILE", "are needed"),
    ("figure rase RUN -o x.pdf", "'rase'", "use one of canvas"),
    ("figure frontier RUN -o x.pdf", "figure frontier", "--results FILE"),
    ("figure race --results r.json -o x.pdf", "NAME: 'race'", "frontier, setting"),
    ("figure frontier RUN --results r.json -o x.pdf", "--results", "cannot be combined with traces"),
    ("figure canvas RUN --setting gamma -o x.pdf", "--setting", "needs --results"),
    ("figure frontier --results r.json --step 1 -o x.pdf", "--step", "needs traces"),
    ("figure frontier --results r.json --speed fast -o x.pdf", "--speed: 'fast'", "speed-up-time"),
    ("figure frontier --results r.json -o x.gif", "x.gif", "draftscope animate"),
    ("export RUN -o a.html", "a.html", "ends in .zip"),
    ("export RUN -o a.zip --preset wide", "--preset: 'wide'", "slide"),
    ("export RUN -o a.zip --figure rase", "--figure: 'rase'", "use one of canvas"),
    ("animate RUN -o x.gif --fps 90", "fps 90", "from 1 to 50"),
    ("animate RUN -o x.gif --clock milliseconds --passes-per-frame 2", "--passes-per-frame 2", "--clock passes"),
    ("animate RUN -o x.gif --device H100", "--device", "--clock computed"),
    ("animate RUN -o x.gif --drafter 1e9", "--drafter", "--clock computed"),
    ("animate RUN -o x.gif --clock computed --device H100", "--clock computed", "needs --target"),
    ("animate RUN -o x.gif --clock computed --device H10 --target 7e9", "no 'H10'", "did you mean 'H100'?"),
    ("animate RUN -o x.gif --title A --title B", "2 names for 1 traces", "at most one each"),
    ("animate RUN -o x.gif --clip", "no decoded clip", "complete run of a video"),
    ("animate RUN -o x.gif --clip --slowdown 2 --clock computed", "--clock", "does not apply to --clip"),
    ("animate RUN -o x.gif --clip --title A", "--title", "does not apply to --clip"),
    ("animate RUN RUN -o x.gif --clip", "--clip: 2 traces", "give one"),
]


@pytest.mark.parametrize(("arguments", "option", "remedy"), USAGE)
def test_wrong_usage_names_option_and_remedy_and_writes_nothing(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, option: str, remedy: str
) -> None:
    names = {"ORDINARY": traces[0], "RUN": traces[1]}
    words = [names.get(word, str(tmp_path / word) if "." in word else word) for word in arguments.split()]
    code, error = failing(capsys, *words)
    assert code == 2 and option in error and remedy in error, error
    assert list(tmp_path.iterdir()) == []


def test_a_broken_or_missing_trace_is_a_line(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(Path(traces[0]).read_text("utf-8").replace('"sampled"', '"guessed"', 1), encoding="utf-8")
    for file, problem in ((broken, "fate"), (tmp_path / "absent.json", "check the path")):
        code, error = failing(capsys, "view", str(file), "-o", str(tmp_path / "x.html"))
        assert code == 1 and file.name in error and problem in error


def test_an_animation_of_two_runs(traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "race.gif"
    words = ["--title", "Ordinary", "--title", "Jacobi", "--width", "480", "--passes-per-frame", "12"]
    assert main(["animate", *traces, "-o", str(target), "--theme", "dark", *words]) == 0
    assert capsys.readouterr() == ("", "")  # Progress is for terminals.
    with Image.open(target) as image:
        assert (image.width, image.n_frames) == (480, 4)
        assert image.convert("RGB").getpixel((1, 1)) == hex_to_rgb(DARK.background)


@pytest.mark.parametrize(("name", "data"), [("frontier", "no"), ("speed-up", "{}"), ("frontier", None)])
def test_invalid_results_are_a_line(
    name: str, data: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    if data is not None:
        file.write_text(data)
    code, error = failing(capsys, "figure", name, "--results", str(file), "-o", str(tmp_path / "x.html"))
    assert code == 1 and error.startswith(f"draftscope figure: {file}: ")


def test_a_zip_without_a_browser_is_a_line(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/nonexistent")
    code, error = failing(capsys, "export", traces[1], "--figure", "race", "-o", str(tmp_path / "x.zip"))
    assert code == 3 and "BROWSER_PATH" in error


@pytest.mark.browser
def test_a_zip_of_one_figure(traces: list[str], tmp_path: Path) -> None:
    executable()
    target = tmp_path / "x.zip"
    assert main(["export", traces[1], "--figure", "race", "--no-traces", "-o", str(target)]) == 0
    with zipfile.ZipFile(target) as file:
        assert {Path(name).suffix for name in file.namelist()} == {".csv", ".pdf", ".png", ".svg", ".txt", ".sh"}
