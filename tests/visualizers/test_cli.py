"""`python -m visualizers`: files that are what their ending says, and one clear line when something is wrong."""

import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from support.browser import chromium
from support.handmade import ALL
from support.jacobi import Raster, decode, ordinary
from support.script import check_page

from traces.io import write
from visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES
from visualizers.__main__ import main


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Paths of an ordinary and a speculative run."""
    folder, raster = tmp_path_factory.mktemp("traces"), Raster(rows=6, columns=6, codes=16)
    paths = [folder / "ordinary.json", folder / "jacobi.json.gz"]
    for path, trace in zip(paths, (ordinary(raster=raster), decode(window=12, raster=raster)), strict=True):
        write(trace, path)
    return [str(path) for path in paths]


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and the only line of standard error."""
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return code, said.err


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
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors: list[str] = []
        requests: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
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
        assert errors == []
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_text_from_a_trace_stays_text(tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    hostile = "</script><script>alert('pwned')</script><img src=x onerror=alert(1)>\" onmouseover='alert(1)//pwned'"
    write(replace(ALL["ar"](), method=hostile), odd)
    target = tmp_path / "odd.html"
    assert main([str(odd), "-o", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    check_page(text)  # neither does it end an attribute and begin another


@pytest.mark.browser
@pytest.mark.parametrize(
    "ending", ["pdf", pytest.param("svg", marks=pytest.mark.slow), pytest.param("png", marks=pytest.mark.slow)]
)
def test_figure_files(traces: list[str], tmp_path: Path, ending: str) -> None:
    with chromium():
        pass
    target = tmp_path / f"race.{ending}"
    assert main([*traces, "--figure", "race", "-o", str(target)]) == 0
    data = target.read_bytes()
    if ending == "pdf":
        assert data.startswith(b"%PDF-")
    elif ending == "svg":
        assert b"Tokens decoded" in data
        assert b"jacobi" in data
    else:
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">II", data[16:24]) == (1920, 880)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/nonexistent", "none was found"), ("/bin/false", "did not start"), ("/etc/passwd", "did not start")],
)
def test_a_missing_browser_is_one_line_with_the_remedy(traces: list[str], tmp_path: Path, path: str, said: str) -> None:
    target = tmp_path / "race.pdf"
    command = [sys.executable, "-m", "visualizers", traces[1], "--figure", "race", "-o", str(target)]
    environment = os.environ | {"BROWSER_PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr
    assert "BROWSER_PATH" in done.stderr
    assert not target.exists()


def test_wrong_usage_names_setting_value_and_choices(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf = str(tmp_path / "x.pdf")
    for arguments, parts in [
        ([traces[1], "-o", str(tmp_path / "x.bmp")], ["x.bmp", ".html, .pdf, .svg, .png, .gif, .mp4, .webp"]),
        ([traces[1], "-o", pdf], ["--figure", "canvas, acceptance, pictures, churn"]),
        ([traces[1], "--figure", "nope", "-o", pdf], ["--figure", "'nope'", "churn"]),
        ([traces[0], "--figure", "beta", "-o", pdf], ["figure beta", "needs the measures"]),
        ([traces[1], "--figure", "canvas", "--step", "999", "-o", pdf], ["step 999", "from 0 to"]),
        ([traces[1], "--figure", "race", "--step", "3", "-o", pdf], ["--step", "leave --step out"]),
        ([traces[1], "--figure", "race", "-o", str(tmp_path / "no" / "x.html")], ["x.html", "folder that exists"]),
        ([traces[1]], ["-o FILE"]),
        ([traces[1], "--figure", "frontier", "-o", pdf], ["--figure frontier", "--sweep RESULTS"]),
        (["--sweep", "results.json", "-o", pdf], ["--sweep results.json", "frontier, setting"]),
        ([traces[1], "--sweep", "r.json", "--figure", "frontier", "-o", pdf], ["--sweep r.json", "takes no traces"]),
        (["--timings", "t.json", "-o", pdf], ["--timings t.json", "windows, speed-up, time-shares, break-even"]),
        (["--sweep", "r.json", "--timings", "t.json", "-o", pdf], ["--timings t.json", "takes no --sweep"]),
        (["-o", pdf], ["TRACE"]),
    ]:
        code, said = failing(capsys, *arguments)
        assert code == 2, arguments
        assert all(part in said for part in parts), said


def test_a_moving_picture_of_two_runs(traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "race.gif"
    words = ["--name", "Ordinary", "--name", "Jacobi", "--size", "small", "--every", "12", "--theme", "dark"]
    assert main([*traces, "-o", str(target), *words]) == 0
    assert capsys.readouterr() == ("", "")  # Progress is for terminals.
    with Image.open(target) as image:
        assert (image.width, image.n_frames) == (480, 4)
        assert image.convert("RGB").getpixel((1, 1)) == (0x16, 0x17, 0x1A)


def test_wrong_usage_of_moving_pictures_names_option_and_remedy(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gif = ["-o", str(tmp_path / "x.gif")]
    for arguments, parts in [
        ([traces[1], "-o", str(tmp_path / "x.html"), "--fps", "5"], ["--fps", "moving pictures", ".gif"]),
        ([traces[1], *gif, "--figure", "churn"], ["--figure", "leave --figure out"]),
        ([traces[1], *gif, "--step", "3"], ["--step", "leave --step out"]),
        ([traces[1], *gif, "--fps", "90"], ["fps 90", "from 1 to 50"]),
        ([traces[1], *gif, "--slow", "3"], ["--slow 3", "--clock milliseconds"]),
        ([traces[1], *gif, "--clock", "milliseconds", "--every", "2"], ["--every 2", "--clock passes"]),
        ([traces[1], *gif, "--size", "small", "--width", "300"], ["--width 300", "--size"]),
        ([traces[1], *gif, "--name", "A", "--name", "B"], ["2 names for 1 traces"]),
        ([traces[1], *gif, "--clip"], ["no decoded clip"]),
        ([*traces, *gif, "--clip"], ["--clip: 2 traces"]),
        ([traces[1], *gif, "--clip", "--every", "2"], ["--every", "clip alone"]),
        ([traces[0]] * 7 + gif, ["7 traces", "1 to 6"]),
        ([traces[1], "-o", str(tmp_path / "no" / "x.gif")], ["x.gif", "folder that exists"]),
        (["--sweep", "r.json", "--figure", "frontier", *gif], ["x.gif", "give TRACE"]),
    ]:
        code, said = failing(capsys, *arguments)
        assert code == 2, arguments
        assert all(part in said for part in parts), said
    assert list(tmp_path.iterdir()) == []


def test_a_broken_trace_is_one_line(traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(
        Path(traces[0]).read_text(encoding="utf-8").replace('"sampled"', '"guessed"', 1), encoding="utf-8"
    )
    code, said = failing(capsys, str(broken), "-o", str(tmp_path / "x.html"))
    assert code == 1
    assert said.startswith(str(broken))
    assert "fate" in said
    code, said = failing(capsys, str(tmp_path / "absent.json"), "-o", str(tmp_path / "x.html"))
    assert code == 1
    assert "check the path" in said
