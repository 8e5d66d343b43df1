"""The command that tries strange documents: it finds what it looks for, and what it once found stays mended."""

import json
import os
import signal
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import ClassVar

import pytest

from benchmarks import _answered, _attempts, _strange_traces, _surfaces, fuzz
from benchmarks._attempts import Area, Case, attempt, attempts, chance_of
from benchmarks._mutation import MARK, TEXTS, as_json, nested, packed
from benchmarks._shown import ScriptFound, check_page, check_svg, everything
from benchmarks._strange_requests import Known, Strange, composed, request
from benchmarks._strange_traces import sound, strange, twisted
from traces import TraceError, loads

pytestmark = pytest.mark.filterwarnings("ignore::traces.TraceWarning")


@pytest.mark.parametrize(
    "page",
    [
        f"<script>x = '{MARK}'</script>",
        f"<p onclick='{MARK}'>",
        f"<a href='javascript:{MARK}'>",
        f"<p {MARK}=1>",
        f"<{MARK}>",
        f"<style>a {{ background: url({MARK}) }}</style>",
        f'<iframe srcdoc="&lt;script&gt;{MARK}&lt;/script&gt;"></iframe>',
    ],
)
def test_script_in_a_page_is_found(page: str) -> None:
    with pytest.raises(ScriptFound):
        check_page(page)


def test_text_and_data_are_no_script() -> None:
    check_page(f'<p title="{MARK}">{MARK}</p><script type="application/json">["{MARK}"]</script><p>{MARK}</p>')
    check_svg(f"<svg><text>{MARK}</text></svg>".encode())
    for svg in (f"<svg onload='{MARK}'/>", f"<svg><a href='{MARK}'/></svg>", "<svg><script/></svg>"):
        with pytest.raises(ScriptFound):
            check_svg(svg.encode())


def test_a_seed_names_a_document_and_half_of_them_are_sound() -> None:
    accepted = 0
    for number in range(60):
        data = strange(chance_of(0, "traces", number))
        assert data == strange(chance_of(0, "traces", number))
        try:
            loads(data)
            accepted += 1
        except TraceError as error:
            assert "\n" not in str(error)
    assert 20 <= accepted <= 50
    assert strange(chance_of(1, "traces", 0)) != strange(chance_of(0, "traces", 0))


def test_documents_are_as_deep_and_as_odd_as_was_meant() -> None:
    deep = nested(5000, Random(1))
    assert as_json({"a": deep, "b": ["\ud800", float("nan")]}).count(b"[") >= 1
    assert as_json(nested(3, Random(0))) in (b'{"a": {"a": {"a": 1}}}', b"[[[1]]]")
    assert packed(b"{}", Random(3))[:2] == b"\x1f\x8b"


def trying(act: Callable[[], object]) -> str:
    area = Area(name="a", errors=(TraceError,), prepare=lambda: lambda chance: Case([MARK], act))
    tried = attempt(area, 7, area.prepare()(Random(0)))
    assert tried.number == 7 and (tried.verdict == "accepted" or tried.said)
    return tried.verdict


def refuse(problem: str = "is odd") -> None:
    raise TraceError("field", problem, "mend it")


def test_what_came_of_a_document_is_told() -> None:
    assert trying(lambda: None) == "accepted"
    assert trying(refuse) == "refused"
    assert trying(lambda: refuse("two\nlines")) == "crashed"
    assert trying(lambda: 1 / 0) == "crashed"
    assert trying(lambda: exec("raise SystemExit(1)")) == "crashed"


def kill_at_three() -> Callable[[Random], Case]:
    numbers = iter(range(10))

    def make(chance: Random) -> Case:
        number = next(numbers)
        return Case(number, lambda: os.kill(os.getpid(), signal.SIGKILL) if number == 2 else bytearray(60_000_000))

    return make


@pytest.mark.slow
def test_a_document_that_kills_the_process_costs_that_process_alone() -> None:
    area = Area(name="a", errors=(), prepare=kill_at_three)
    found = list(attempts(area, 0, range(5)))
    assert [one.number for one in found] == [0, 1, 2, 3, 4]
    assert [one.verdict for one in found] == ["accepted", "accepted", "killed", "accepted", "accepted"]
    assert found[0].megabytes == 0 or 50 < found[0].megabytes < 200


def test_failures_are_counted_and_shown_with_their_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Callable[[Random], Case]:
        return lambda chance: Case({"x": "y" * 5000}, lambda: 1 / 0)

    area = Area(name="traces", errors=(), prepare=broken)
    row = fuzz.row_of("traces", 3, _attempts.here(area, 3, range(2)))
    assert (row["failed"], row["accepted"], row["slow"]) == (2, 0, 0)
    said = capsys.readouterr().err
    assert "traces:0 --seed 3: crashed: ZeroDivisionError" in said and len(said) < 2000
    assert not fuzz.claims([row, row | {"area": "drawn"}], fuzz.Scripts(0, 0, 0))[0].met
    monkeypatch.setattr(fuzz, "AREAS", {"traces": area})
    assert fuzz.main(["--only", "traces:4"]) == 1
    assert "crashed in" in capsys.readouterr().out


class Weak(BaseHTTPRequestHandler):
    """A server that gives everything away that the fuzzer looks for."""

    answers: ClassVar[dict[str, tuple[int, str]]] = {
        "/healthz": (200, "ok"),
        "/sound": (404, "file: it is not here"),
        "/busy": (503, "later"),
        "/error": (500, "Internal Server Error"),
        "/secret": (200, f"[{_answered.SECRET}]"),
        "/passwd": (206, "root:x:0:0:root"),
        "/place": (403, f"{_answered.ROOT}/app.py is not allowed"),
        f"/{_answered.ROOT}/x": (403, f"{_answered.ROOT}/x is not allowed"),  # it says what was asked
        "/trace": (200, "Traceback (most recent call last):"),
    }

    def do_GET(self) -> None:
        status, said = self.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_: object) -> None:
        pass


def test_what_a_server_gives_away_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback of before\n")
    with HTTPServer(("127.0.0.1", 0), Weak) as weak:
        Thread(target=weak.serve_forever, args=(0.01,), daemon=True).start()
        app = _answered.App(f"http://127.0.0.1:{weak.server_port}", Known("/secret", ()), log)
        found = {
            place: _answered.sent(app, 0, Strange(composed("GET", place), "read")).verdict for place in Weak.answers
        }
        weak.shutdown()
    sound = ("/healthz", "/sound", "/busy", f"/{_answered.ROOT}/x")
    assert {place for place, verdict in found.items() if verdict == "crashed"} == {*found} - {*sound}
    assert found["/healthz"] == "accepted" and found["/sound"] == found["/busy"] == "refused"


def test_requests_follow_from_a_seed_and_are_of_every_kind() -> None:
    known = Known("/secret", ({"data": [1], "fn_index": 0, "session_hash": "a"},))
    made = [request(known, chance_of(0, "requests", number)) for number in range(80)]
    assert made[7] == request(known, chance_of(0, "requests", 7)) != request(known, chance_of(1, "requests", 7))
    assert {one.kind for one in made} == {"read", "file", "call", "event", "upload", "length", "malformed"}
    assert any(b"/secret" in one.data for one in made)


def test_a_video_of_many_frames_is_drawn_without_a_panel_for_each() -> None:
    document = next(one for one in sound() if one["method"] == "scd" and one["canvas"]["kind"] == "image")
    size = document["canvas"]["shape"][0] * document["canvas"]["shape"][1]
    video = document | {"canvas": {"kind": "video", "shape": [size, 1, 1]}, "legend": {}}
    everything(loads(as_json(video)))


def test_quotes_in_a_name_end_no_attribute_of_a_page() -> None:
    document = twisted(next(one for one in sound() if one["method"] == "ar"), Random(0))
    texts = [text for text in TEXTS if '"' in text]
    for text in texts:
        page = everything(loads(as_json(document | {"method": text, "prompt": text, "variant": ""})))
        assert MARK in page
    assert texts


@pytest.mark.slow
def test_a_short_round_holds(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    assert fuzz.main(["--short", "--traces", "40", "--others", "6", "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    assert [row["area"] for row in content["rows"]] == list(_surfaces.AREAS)
    assert all(row["failed"] == row["slow"] == row["large"] == 0 for row in content["rows"])
    assert sum(row["tried"] for row in content["rows"]) == 40 + 2 + 6 * 7
    assert content["command"] == "python -m benchmarks.fuzz --short --traces 40 --others 6"
    assert _strange_traces.FOLDER.is_dir()
