"""The queue with its own clock: order, waiting times and messages; and a small public server under load."""

import asyncio
import gzip
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest

from demo.components.context import Site, Update
from demo.components.queued import queued
from demo.components.widgets import notice
from demo.jobs.live_run import RaceEnded, decode_interleaved
from demo.server.limits import LOCAL_LIMITS, PUBLIC, Deadline, read_limits
from demo.server.log import redact_paths
from demo.server.run_queue import Client, RunQueue
from demo.server.sessions import CurrentTraces, Visitors, url
from engines.methods import METHODS
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError
from traces.files import ROOT

ONE, TWO, THREE = (Client(name, "203.0.113.7") for name in ("one", "two", "three"))

ALONE = "The model decodes for one visitor at a time."


def test_the_line_is_first_come_first_served_and_says_place_and_wait() -> None:
    clock = SimpleNamespace(now=100.0)
    line = RunQueue(LOCAL_LIMITS, lambda: clock.now)
    first, second, third = (line.enter(asker, "run") for asker in (ONE, TWO, THREE))
    assert [place.num_ahead for place in (first, second, third)] == [0, 1, 2]
    assert first.ready.is_set() and not second.ready.is_set()
    assert third.seconds is None and str(third) == f"{ALONE} 2 other requests are before yours."
    clock.now += 8
    line.leave(first)
    assert second.ready.is_set() and second.num_ahead == 0
    clock.now += 3  # of the 8 that one usually takes
    assert third.seconds == 5.0
    assert str(third) == f"{ALONE} One other request is before yours. Yours begins in about 5 s."
    line.leave(second)
    line.leave(second)
    assert third.num_ahead == 0 and len(line.entries) == 1


def test_limits_count_what_waits_who_asks_and_from_where() -> None:
    line = RunQueue(replace(PUBLIC, waiting=3, per_visitor=2, per_address=3))
    places = [line.enter(ONE, "run"), line.enter(ONE, "run")]
    with pytest.raises(
        ConfigError, match="queue: you have 2 running or queued requests; try again when one has finished"
    ):
        line.enter(ONE, "run")
    places.append(line.enter(TWO, "run"))
    with pytest.raises(
        ConfigError, match="queue: 3 requests of your network address are running or queued; try again in a min"
    ):
        line.enter(THREE, "run")
    line.enter(Client("four", "203.0.113.8"), "run")
    with pytest.raises(ConfigError, match="queue: full, 3 requests are waiting"):
        line.enter(Client("five", "203.0.113.9"), "run")
    line.leave(places[2])  # who gives up while waiting makes room, and is not timed
    assert line.enter(THREE, "run").num_ahead == 3 and line.estimate_wait(1) is None


def test_the_environment_says_which_limits_hold() -> None:
    assert read_limits({}) == LOCAL_LIMITS and read_limits({"SPACE_ID": "somebody/draftscope"}) == PUBLIC
    said = {"SPACE_ID": "a/b", "DRAFTSCOPE_RUN_SECONDS": "2.5", "DRAFTSCOPE_PER_ADDRESS": "none"}
    assert read_limits(said) == replace(PUBLIC, run_seconds=2.5, per_address=None)
    for wrong in ("0", "-1", "x", "nan", "2.5"):
        with pytest.raises(ConfigError, match=r"DRAFTSCOPE_WAITING: .* use a whole number from 1, or none"):
            read_limits({"DRAFTSCOPE_WAITING": wrong})


def test_a_page_that_waits_shows_its_place_then_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    line = RunQueue(LOCAL_LIMITS)
    monkeypatch.setattr("demo.server.run_queue.run_queue", lambda: line)
    monkeypatch.setattr("demo.server.run_queue.QUEUE_UPDATE_SECONDS", 0.01)
    with gr.Blocks():
        site, box = Site(Visitors(), gr.State(CurrentTraces()), gr.Checkbox()), gr.HTML()

    def work(values: Update, request: gr.Request) -> Iterator[Update]:
        yield {box: "begun"}
        raise ValueError(f"x: 1\n is in the way in {Path.home()}/y")

    async def both() -> list[Any]:
        first, told = line.enter(ONE, "run"), []
        async for update in queued(site, box, "run", work)({}, gr.Request(session_hash="mine")):
            told.append(update[box])
            if len(told) == 2:
                line.leave(first)
        return told

    told = asyncio.run(both())
    assert told[0] == told[1] == notice("info", f"{ALONE} One other request is before yours.", "Waiting for the model")
    assert told[2:] == ["begun", notice("error", "x: 1\n is in the way in y")]
    assert not line.entries


def asked(method: str, **settings: Any) -> RunRequest:
    return RunRequest(method, "toy-field" if "cspd" in method else "toy-raster", "", METHODS[method].config(**settings))


def test_a_run_that_cannot_fit_is_refused_before_it_is_shown() -> None:
    messages = decode_interleaved([asked("cspd", gamma=64, steps=250, tries=100_000)], lambda: False, 0.05)
    with pytest.raises(ConfigError, match=r"would take about \d+ s here, and the server gives 0.05 s a run; choose"):
        next(messages)


def test_a_run_whose_time_is_over_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = decode_interleaved([asked("ar")], lambda: False, 6000)
    next(messages), next(messages)
    monkeypatch.setattr(Deadline, "expired", True)
    *_, ended = messages
    assert isinstance(ended, RaceEnded)
    (trace,) = ended.traces
    assert ended.ended == "Stopped after 6000 s, which is what this server gives."
    assert not trace.summary.complete and 0 < trace.summary.tokens < 256
    assert trace.extensions == {"draftscope": {"ended": ended.ended}}


def test_a_message_for_visitors_says_nothing_of_where_things_lie() -> None:
    root = ROOT
    said = f"text-target: config.json is missing in {root}/assets/models/text-target. {Path.home()}/x"
    assert redact_paths(said) == "text-target: config.json is missing in assets/models/text-target. x"


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
    def sent(place: str) -> tuple[bytes, str | None]:
        asked = urllib.request.Request(f"{small}{place}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked) as got:
            return got.read(), got.headers["Content-Encoding"]

    page, how = sent("/")
    assert how == "gzip" and 3 * len(page) < len(gzip.decompress(page))
    trace = next(library.glob("*.json.gz"))
    assert sent(f"/{url(trace)}") == (trace.read_bytes(), None)


def answer(server: str, name: str, data: list[Any]) -> str:
    event = posted(server, name, data).json()["event_id"]
    return httpx.get(f"{server}/gradio_api/call/{name}/{event}", timeout=60).text
