"""A public server under load: a full queue, other websites, compression."""

import gzip
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from draftscope.demo.server.sessions import url
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.run_request import RunRequest


def request_of(method: str, **settings: Any) -> RunRequest:
    return RunRequest(method, "toy-field" if "cspd" in method else "toy-raster", "", METHODS[method].config(**settings))


def posted(server: str, name: str, data: list[Any], headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{server}/gradio_api/call/{name}", json={"data": data}, headers=headers, timeout=60)


def begun(server: str, data: list[Any]) -> Any:
    """Start a call and listen to its answer; closing it disconnects."""
    event = posted(server, "summary", data).json()["event_id"]
    return urllib.request.urlopen(f"{server}/gradio_api/call/summary/{event}", timeout=60)


def waiting(server: str) -> int:
    return int(httpx.get(f"{server}/line").json()["waiting"])


def until(true: Any) -> None:
    """Wait until something is so."""
    late = time.monotonic() + 60
    while not true():
        assert time.monotonic() < late
        time.sleep(0.02)


@pytest.mark.nightly
def test_a_full_line_refuses_runs_alone_and_those_who_hang_up_make_room(small: str) -> None:
    quick = ["ar", "", 0, "toy-raster"]
    slow = ["cspd", "", 0, "toy-field", {"gamma": 64, "steps": 250}]
    with begun(small, slow) as running, ThreadPoolExecutor() as pool:
        second, third = begun(small, quick), begun(small, quick)
        until(lambda: waiting(small) == 2)
        with begun(small, quick) as refused:
            assert b"queue: full, 2 requests are waiting; try again" in refused.read()
        assert httpx.get(small).status_code == 200
        assert "none was given" in pool.submit(answer, small, "validate", [None]).result(60)
        assert waiting(small) == 2  # all that in front of them was answered while they waited
        second.close()
        until(lambda: waiting(small) == 1)
        running.close()
        until(lambda: waiting(small) == 0)
        assert b"event: complete" in third.read()
        third.close()


def test_other_websites_pages_cannot_queue_runs(small: str) -> None:
    host = small.removeprefix("http://")
    quick = ["ar", "", 0, "toy-raster"]
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://evil.example", "Host": "my.space.example"},
        {"Origin": small, "Sec-Fetch-Site": "cross-site"},
    ):
        refused = posted(small, "summary", quick, headers)
        assert refused.status_code == 403 and "another website's page" in refused.text
    for headers in ({}, {"Origin": f"http://{host}"}, {"Origin": "https://x.example", "Sec-Fetch-Site": "same-origin"}):
        assert posted(small, "methods", [None], headers).json()["event_id"]


def test_the_page_is_sent_compressed_and_a_trace_as_it_is(small: str, library: Path) -> None:
    def sent(path: str) -> tuple[bytes, str | None]:
        request = urllib.request.Request(f"{small}{path}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as got:
            return got.read(), got.headers["Content-Encoding"]

    page, how = sent("/")
    assert how == "gzip" and 3 * len(page) < len(gzip.decompress(page))
    trace = next(library.glob("*.json.gz"))
    assert sent(f"/{url(trace)}") == (trace.read_bytes(), None)


def answer(server: str, name: str, data: list[Any]) -> str:
    event = posted(server, name, data).json()["event_id"]
    return httpx.get(f"{server}/gradio_api/call/{name}/{event}", timeout=60).text
