"""Reports of a server and logs about itself: readiness, reasons for not starting, and runs."""

import json
import logging
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest

from draftscope.demo import serve as server
from draftscope.demo.app import build
from draftscope.demo.jobs.live_run import decoded
from draftscope.demo.jobs.recordings import Recording, invalid_recordings, listed, recordings
from draftscope.demo.serve import readyz, start
from draftscope.demo.server import log
from draftscope.demo.server.sessions import Visitors
from draftscope.demo.server.startup import ServerError, read_port
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.run_request import RunRequest


class Lines(logging.Handler):
    """The lines that the app logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("draftscope"), Lines()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


def log_lines(folder: Path, missing: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    answer = readyz(folder, missing)
    return answer.status_code, json.loads(bytes(answer.body))["problems"]


def test_ready_is_what_has_all_that_visitors_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_lines(tmp_path) == (200, [])
    status, problems = log_lines(tmp_path / "gone", ("scd.json.gz",))
    assert status == 503
    assert problems == [
        "visitors' files: cannot be written (No such file or directory); free some space",
        "scd.json.gz: is missing or not a valid trace; record it again with: draftscope dev record scd.json.gz",
    ]
    models = tmp_path / "assets" / "models"
    monkeypatch.setattr(server, "ASSETS", tmp_path / "assets")
    assert "MANIFEST.json: is missing or damaged; copy" in log_lines(tmp_path)[1][0]
    models.mkdir(parents=True)
    for text in ("{", "[]", "3", "[" * 9000, '{"a": 3}'):
        (models / "MANIFEST.json").write_text(text)
        assert "MANIFEST.json: is missing or damaged; copy" in log_lines(tmp_path)[1][0]
    (models / "MANIFEST.json").write_text('{"a": {}, "b": {"files": {"1.safetensors": "0"}}}')
    (models / "a.safetensors").touch()
    assert log_lines(tmp_path) == (
        503, ["assets/models/b/1.safetensors: is missing; copy the folder assets of the repository"]
    )  # fmt: skip


@pytest.mark.slow
def test_a_broken_recording_is_left_out_and_the_gallery_says_so(
    library: Path, tmp_path: Path, logged: list[str]
) -> None:
    shutil.copytree(library, tmp_path / "some")
    broken = tmp_path / "some" / "psd.json.gz"
    broken.write_bytes((library / "scd.json.gz").read_bytes()[:500])
    (tmp_path / "some" / "gallery.json").write_text(json.dumps([{"file": "lost.json.gz"}, 3, {"file": 4}]))
    recorded = recordings(tmp_path / "some")
    assert [path.name for path in recorded[0].paths] == ["ar.json.gz", "scd.json.gz"]
    (left_out,) = logged
    assert "psd.json.gz: is left out of the gallery: psd.json.gz: cannot be unpacked as gzip" in left_out
    missing = invalid_recordings(recorded, tmp_path / "some")
    assert missing == ["lost.json.gz", "psd.json.gz"]
    assert notice_of(recorded, missing) == ["lost.json.gz, psd.json.gz: missing or damaged."]
    assert notice_of(recorded, []) == []
    for text in ("{", "{}", '"a"', "[" * 9000, "\x00"):
        (tmp_path / "gallery.json").write_text(text)
        assert listed(tmp_path) == []


def notice_of(recorded: tuple[Recording, ...], missing: list[str]) -> list[str]:
    blocks = build(Visitors(), recorded, missing)
    boxes = [block for block in blocks.blocks.values() if getattr(block, "elem_id", "") == "gallery-gone"]
    return [box.value["text"] for box in boxes]


def test_what_is_no_port_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("abc", "-1", "0", "65536", "7860 ", "7" * 10000, "7.5", "\u0667"):
        monkeypatch.setenv("GRADIO_SERVER_PORT", text)
        with pytest.raises(ServerError, match=r"^GRADIO_SERVER_PORT: .* is not a port; use a whole number") as wrong:
            read_port()
        assert len(str(wrong.value)) < 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gradio leaves its probe open
def test_a_taken_port_is_not_left_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        monkeypatch.setenv("GRADIO_SERVER_PORT", str(port))
        with gr.Blocks() as blocks:
            gr.Markdown("a page")
        with pytest.raises(ServerError, match=f"{port}-{port}.* setting the GRADIO_SERVER_PORT"):
            start(blocks, [tmp_path])
    monkeypatch.delenv("GRADIO_SERVER_PORT")
    assert read_port() == 7860


def test_nothing_is_polled_a_thousand_times_a_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with gr.Blocks() as blocks:
        gr.Markdown("a page")
    monkeypatch.setattr(blocks, "launch", lambda **_: (None, "", ""))
    server._launched(blocks, [tmp_path], {})
    assert min(blocks._queue.sleep_when_free, blocks._queue.progress_update_sleep_when_free) >= 0.01


HOSTILE = "a\r\n2026-01-01 INFO started\x1b[2J\u202e\u2028${x}" + "y" * 5000


def test_an_event_is_one_line_of_plain_ascii(logged: list[str]) -> None:
    log.log_rejected("page", ValueError(HOSTILE))
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError as error:
        log.log_failure("page", error)
    for line in logged:
        assert line.isascii() and line.isprintable() and len(line) < 1000, line
    refused, failed = logged
    assert json.loads(refused.partition("why=")[2]) == HOSTILE[:299] + "…"
    assert 'error="RuntimeError"' in failed and "test_server_start.py:" in failed


def test_a_run_is_written_when_it_begins_and_ends_without_its_prompt(logged: list[str]) -> None:
    request = RunRequest("ar", "toy-raster", "", METHODS["ar"].config(), 7)
    list(decoded([request], lambda: False, "page"))
    running = decoded([request], lambda: False, "page")
    next(running), next(running)
    running.close()
    about = 'kind="page" method="ar" model="toy-raster" seed=7'
    begun, done, _, left = logged
    assert begun == f"run.begun {about}"
    assert done.startswith(f"run.ended {about} seconds=") and done.endswith(' passes=256 ended="done"')
    assert left.endswith(' passes=1 ended="left"')
    with pytest.raises(ValueError, match="draws without a prompt"):
        list(decoded([RunRequest("ar", "toy-raster", HOSTILE, METHODS["ar"].config())], lambda: False, "page"))
    assert logged[-1].endswith('passes=0 ended="ValueError"') and "y" * 99 not in "".join(logged)
