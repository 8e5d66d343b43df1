"""The queue with its own clock: order, waiting times and messages; and a small public server under load."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from draftscope.demo.components.context import Site, Update
from draftscope.demo.components.queued import queued
from draftscope.demo.components.widgets import notice
from draftscope.demo.jobs.live_run import RaceEnded, decode_interleaved
from draftscope.demo.server.limits import LOCAL_LIMITS, PUBLIC
from draftscope.demo.server.log import redact_paths
from draftscope.demo.server.run_queue import Client, RunQueue
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.deadline import Deadline
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError
from draftscope.traces.files import ROOT

ONE, TWO, THREE = (Client(name, "203.0.113.7") for name in ("one", "two", "three"))

ALONE = "The model decodes for one visitor at a time."


def test_the_line_is_first_come_first_served_and_says_place_and_wait() -> None:
    clock = SimpleNamespace(now=100.0)
    line = RunQueue(LOCAL_LIMITS, lambda: clock.now)
    first, second, third = (line.enter(asker, "run") for asker in (ONE, TWO, THREE))
    assert [entry.num_ahead for entry in (first, second, third)] == [0, 1, 2]
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
    entries = [line.enter(ONE, "run"), line.enter(ONE, "run")]
    with pytest.raises(
        ConfigError, match="queue: you have 2 running or queued requests; try again when one has finished"
    ):
        line.enter(ONE, "run")
    entries.append(line.enter(TWO, "run"))
    with pytest.raises(
        ConfigError, match="queue: 3 requests of your network address are running or queued; try again in a min"
    ):
        line.enter(THREE, "run")
    line.enter(Client("four", "203.0.113.8"), "run")
    with pytest.raises(ConfigError, match="queue: full, 3 requests are waiting"):
        line.enter(Client("five", "203.0.113.9"), "run")
    line.leave(entries[2])  # who gives up while waiting makes room, and is not timed
    assert line.enter(THREE, "run").num_ahead == 3 and line.estimate_wait(1) is None


def test_a_page_that_waits_shows_its_place_then_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    line = RunQueue(LOCAL_LIMITS)
    monkeypatch.setattr("draftscope.demo.server.run_queue.run_queue", lambda: line)
    monkeypatch.setattr("draftscope.demo.server.run_queue.QUEUE_UPDATE_SECONDS", 0.01)
    with gr.Blocks():
        site, box = Site(Visitors(), gr.State(CurrentTraces()), gr.Checkbox()), gr.HTML()

    def work(values: Update, request: gr.Request) -> Iterator[Update]:
        yield {box: "begun"}
        raise ValueError(f"x: 1\n is in the way in {Path.home()}/y")

    async def both() -> list[Any]:
        first, news = line.enter(ONE, "run"), []
        async for update in queued(site, box, "run", work)({}, gr.Request(session_hash="mine")):
            news.append(update[box])
            if len(news) == 2:
                line.leave(first)
        return news

    messages = asyncio.run(both())
    assert (
        messages[0]
        == messages[1]
        == notice("info", f"{ALONE} One other request is before yours.", "Waiting for the model")
    )
    assert messages[2:] == ["begun", notice("error", "x: 1\n is in the way in y")]
    assert not line.entries


def request_of(method: str, **settings: Any) -> RunRequest:
    return RunRequest(method, "toy-field" if "cspd" in method else "toy-raster", "", METHODS[method].config(**settings))


def test_a_run_that_cannot_fit_is_refused_before_it_is_shown() -> None:
    messages = decode_interleaved([request_of("cspd", gamma=64, steps=250, max_tries=100_000)], lambda: False, 0.05)
    with pytest.raises(ConfigError, match=r"would take about \d+ s here, and the server gives 0.05 s a run; choose"):
        next(messages)


def test_a_run_whose_time_is_over_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = decode_interleaved([request_of("ar")], lambda: False, 6000)
    next(messages), next(messages)
    monkeypatch.setattr(Deadline, "expired", True)
    *_, ended = messages
    assert isinstance(ended, RaceEnded)
    (trace,) = ended.traces
    assert ended.ended == "Stopped after 6000 s, the time limit."
    assert not trace.summary.complete and 0 < trace.summary.tokens < 256
    assert trace.extensions == {"draftscope": {"ended": ended.ended}}


def test_a_message_for_visitors_says_nothing_of_where_things_lie() -> None:
    root = ROOT
    message = f"text-target: config.json is missing in {root}/assets/models/text-target. {Path.home()}/x"
    assert redact_paths(message) == "text-target: config.json is missing in assets/models/text-target. x"
