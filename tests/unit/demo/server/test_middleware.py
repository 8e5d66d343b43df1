"""Limits on what clients store and send: upload quotas, closed routes, and links that name no path."""

import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from benchmarks._toy_runs import decode_toy_raster
from draftscope.demo.serve import trace_answer
from draftscope.demo.server import middleware as requests
from draftscope.demo.server.limits import FILE_LIFETIME_SECONDS, LOCAL_LIMITS, ServerLimits
from draftscope.demo.server.middleware import RequestFilter, UploadQuota, address_of
from draftscope.demo.server.sessions import TRACE_ADDRESS, Visitors, file_name, url

PROXY = "DRAFTSCOPE_PROXY"
TEN, TWENTY = "9.0.0.10", "9.0.0.20"  # the addresses for documentation are private ones


class Gradio:
    """Gradio's handling of an upload: a temporary file, then one in a folder named by its content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meanwhile: Callable[[], object] = lambda: None

    async def upload(self, request: Request) -> JSONResponse:
        with NamedTemporaryFile(dir=self.folder, delete=False) as file:
            async for chunk in request.stream():
                file.write(chunk)
                self.meanwhile()
        data = Path(file.name).read_bytes()
        path = self.folder / hashlib.sha256(data).hexdigest() / "a.json"
        path.parent.mkdir(exist_ok=True)
        Path(file.name).rename(path)
        return JSONResponse([str(path)])

    async def other(self, request: Request) -> PlainTextResponse:
        status = 500 if "refused" in request.url.path else 200
        return PlainTextResponse(f"{len(await request.body())} bytes", status)

    def app(self, *middleware: Middleware) -> TestClient:
        routes = [
            Route("/gradio_api/upload", self.upload, methods=["POST"]),
            Route("/{place:path}", self.other, methods=["GET", "POST"]),
        ]
        return TestClient(Starlette(routes=routes, middleware=middleware), raise_server_exceptions=False)


@pytest.fixture
def gradio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gradio:
    monkeypatch.setenv(PROXY, "1")
    for name in ("pages", "uploads"):
        (tmp_path / name).mkdir()
    return Gradio(tmp_path / "uploads")


def roomy(gradio: Gradio, of_all: int | None, of_one: int | None) -> TestClient:
    limits: ServerLimits = replace(LOCAL_LIMITS, kept_megabytes=of_all, kept_megabytes_per_address=of_one)
    return gradio.app(Middleware(UploadQuota, gradio.folder.parent / "pages", gradio.folder, limits))


def sent(client: TestClient, data: Any, address: str = TEN) -> tuple[int, str]:
    answer = client.post("/gradio_api/upload", content=data, headers={"X-Forwarded-For": f"10.0.0.1, {address}"})
    return answer.status_code, answer.text


def test_one_visitor_cannot_fill_the_room_of_all(gradio: Gradio, monkeypatch: pytest.MonkeyPatch) -> None:
    client = roomy(gradio, 3, 1)
    status, answer = sent(client, b"a" * 600_000)
    assert status == 200
    for path in map(Path, json.loads(answer)):
        assert path.exists()
    status, answer = sent(client, b"b" * 600_000)
    assert status == 507 and answer.startswith("file: files uploaded from your network address would be more than the ")
    assert client.post("/gradio_api/run", content=b"b" * 600_000).text == "600000 bytes"
    for number in range(3):  # others, and one of them with much that the pages wrote
        assert sent(client, f"{number}".encode() * 600_000, f"9.0.0.{number + 30}")[0] == 200
    status, answer = sent(client, b"x" * 700_000, TWENTY)
    assert status == 507 and answer.startswith("file: visitors' files fill the 3 MB that this server keeps for them, ")
    path.unlink()
    now = time.time()
    monkeypatch.setattr(
        requests.time, "time", lambda: now + 2 * FILE_LIFETIME_SECONDS
    )  # gradio has removed them by then
    assert sent(client, b"b" * 600_000)[0] == 200
    (gradio.folder.parent / "pages" / "trace").write_bytes(bytes(600_000))
    assert sent(client, b"y" * 100, TWENTY)[0] == 507


def test_what_is_on_its_way_counts_and_what_was_given_up_goes(gradio: Gradio) -> None:
    client = roomy(gradio, 10, 1)

    def chunks() -> Iterator[bytes]:  # nothing is promised
        for _ in range(20):
            yield b"c" * 100_000

    status, answer = sent(client, chunks())
    assert status == 507 and "from your network address" in answer
    assert list(gradio.folder.iterdir()) == []  # the part that had come was removed
    second: list[tuple[int, str]] = []
    gradio.meanwhile = lambda: second.append(sent(client, b"d" * 600_000)) if not second else None
    assert sent(client, b"e" * 600_000)[0] == 200
    assert [status for status, _ in second] == [507]  # while the first was on its way
    assert [path.is_dir() for path in gradio.folder.iterdir()] == [True]
    assert sent(client, chunks(), "9.0.0.40")[0] == 507
    assert sent(roomy(gradio, None, None), chunks())[0] == 200


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("10.0.0.1", f"1.2.3.4, {TEN}, 10.0.0.9", TEN),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("2001:4860:0:1:aa::1", "", "2001:4860:0:1::/64"),
        ("10.0.0.1", "2001:4860:0:1:bb::2", "2001:4860:0:1::/64"),  # its neighbour: one customer
        ("::ffff:203.0.113.7", "", "203.0.113.7"),
        ("testclient", "", "testclient"),
    ],
)
def test_a_sender_is_its_network(client: str, forwarded: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROXY, "1")
    assert address_of(client, {"x-forwarded-for": forwarded}) == address
    monkeypatch.delenv(PROXY)
    assert address_of("203.0.113.7", {"x-forwarded-for": TEN}) == "203.0.113.7"


def test_doors_are_closed_bodies_have_an_end_and_failures_are_a_sentence(gradio: Gradio) -> None:
    client = gradio.app(Middleware(RequestFilter, 1000))
    for path in ("vibe-edit/", "process_recording", "deep_link?session_hash=a", "component_server", "proxy=https://a.b",
                  "file=http://example.org/a", "file=HTTPS://a.b/c", "file/ftp://a", "stream/a"):  # fmt: skip
        answer = client.get(f"/gradio_api/{path}")
        assert (answer.status_code, answer.json()["error"][:8]) == (404, "Not foun"), path
    assert client.get("/gradio_api/file=/a/b:c").text == client.get("/a/file=http://b").text == "0 bytes"

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"0" * 100

    assert client.post("/gradio_api/call/run", content=b"0" * 1000).text == "1000 bytes"
    answer = client.post("/gradio_api/call/run", content=b"0" * 1001)  # as much was promised: none of it is read
    assert (answer.status_code, answer.json()["error"][:5]) == (413, "body:")
    assert client.post("/gradio_api/call/run", content=iter([b"0" * 100] * 11)).status_code == 413
    assert client.post("/gradio_api/upload", content=b"0" * 5000).status_code == 200
    assert (
        client.post("/gradio_api/run/refused").status_code == client.post("/gradio_api/api/refused").status_code == 400
    )
    assert client.get("/refused").status_code == 500
    gradio.meanwhile = lambda: json.loads("{")
    answer = gradio.app(Middleware(RequestFilter)).post("/gradio_api/upload", content=b"a")
    assert answer.status_code == 400
    assert answer.json()["error"] == "request: it cannot be read (JSONDecodeError); send it as docs/api.md says."


def test_traces_are_handed_out_by_names_that_say_no_path(tmp_path: Path) -> None:
    recorded = tmp_path / "home" / "recordings"
    recorded.mkdir(parents=True)
    for name in ("ar.json.gz", "gallery.json"):
        (recorded / name).write_text(name)
    (tmp_path / "home" / "own.json.gz").write_text("secret")
    (recorded / "link.json.gz").symlink_to(tmp_path / "home" / "own.json.gz")
    visitors = Visitors()
    mine = visitors.of("me").folder
    (mine / "scd.json.gz").write_text("scd")
    service = FastAPI()
    service.add_api_route(
        TRACE_ADDRESS, trace_answer(visitors.root, [recorded]), methods=["GET", "HEAD"], response_model=None
    )
    client = TestClient(service)
    for path in (recorded / "ar.json.gz", mine / "scd.json.gz"):
        assert str(tmp_path) not in url(path) and str(visitors.root) not in url(path)
        assert client.get(f"/{url(path)}").content == path.read_bytes()
        assert client.head(f"/{url(path)}").status_code == 200
    for requested in (
        url(recorded / "gallery.json"), url(recorded / "link.json.gz"), url(mine / "stop"), "traces/../own.json.gz",
        "traces/recordings/..%2Fown.json.gz", "traces/%2e%2e/own.json.gz", "traces/recordings/%2e%2e/own.json.gz",
        f"traces/recordings/{recorded}/ar.json.gz", "traces/a/b.json.gz", "traces/recordings/ar.json.gz%00",
    ):  # fmt: skip
        answer = client.get(f"/{requested}")
        assert answer.status_code == 404 and str(tmp_path) not in answer.text, requested


def test_a_session_can_neither_choose_nor_guess_a_folder() -> None:
    visitors = Visitors()
    for session in ("../../etc", "/", "", "a" * 5000, "x\0y", None):
        folder = visitors.of(session).folder
        assert folder.parent == visitors.root and folder.name.isalnum()
        assert folder == visitors.of(session).folder
    assert visitors.of("me").folder.name != Visitors().of("me").folder.name


def test_kept_traces_can_be_read_until_the_visitor_leaves_and_choose_no_place() -> None:
    visitors, trace = Visitors(), decode_toy_raster("scd", window=16)
    visitor = visitors.of("me")
    shown = visitor.keep([trace], "your last run")
    assert shown.traces() == (trace,)
    visitor.delete_files()
    assert not shown.paths[0].exists() and shown.traces() == () and visitor.stopped()
    visitors, trace = Visitors(), decode_toy_raster("ar")
    visitor = visitors.of("me")
    for method in ("../../../out", "/out", "a/b", "..", "x\n", "A" * 500, "${1}", "<b>"):
        (path,) = visitor.keep([replace(trace, method=method)], "the file you opened").paths
        assert path.resolve().parent == visitor.folder and path.name.startswith("trace-seed-0-")
    assert file_name(replace(trace, method="ete-style", seed=3)) == "ete-style-seed-3"


def test_old_folders_are_pruned_and_the_root_goes_with_the_visitors() -> None:
    visitors = Visitors()
    old, new, root = visitors.of("old"), visitors.of("new"), visitors.root
    for visitor in (old, new):
        visitor.start()
    an_hour_ago = time.time() - 3600
    os.utime(old.folder, (an_hour_ago, an_hour_ago))
    visitors.prune(60)
    assert not old.folder.exists() and new.folder.exists()
    del visitors
    assert not root.exists()
