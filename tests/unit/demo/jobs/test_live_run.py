"""Runs pass by pass, the messages to a viewer, experiments, and work that reports progress."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import accumulate, islice
from threading import Event, active_count
from typing import Any

import pytest
import torch
from pydantic_core import to_json

from benchmarks._toy_runs import decode_toy_raster, job
from draftscope.demo.components.export import with_progress
from draftscope.demo.components.viewer import send
from draftscope.demo.jobs import live_run as decoding
from draftscope.demo.jobs.live_run import LiveRuns
from draftscope.demo.server.event_stream import EventStream, answer
from draftscope.engines.methods import METHODS
from draftscope.engines.models import diffusion_lm as language_model
from draftscope.engines.models.bundled.image import StudioImage
from draftscope.engines.models.bundled.image_networks import Tokenizer, Transformer
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import Job, collect_token_ids
from draftscope.engines.settings import make_config
from draftscope.traces import Trace
from draftscope.traces.schema import ModelCard
from draftscope.visualizers.animation import MovingError, Report


@pytest.mark.slow
def test_turns_interleave_the_decoders_and_change_no_token() -> None:
    live = LiveRuns([job("ar"), job("scd", window=16)])
    messages = [news for _ in live.passes() for news in live.news()]
    assert [news.lane for news in messages[:4]] == [0, 1, 0, 1]
    assert [news.lane for news in messages[-2:]] == [0, 0]  # the slower one ends alone
    for lane, expected in enumerate((decode_toy_raster("ar"), decode_toy_raster("scd", window=16))):
        trace = live.runs[lane].trace()
        assert trace.output == expected.output and trace.summary.complete
        passes = [news for news in messages if news.lane == lane]
        assert [news.first for news in passes] == list(range(trace.summary.forwards))
        assert tuple(step for news in passes for step in news.steps) == trace.steps


def test_what_a_viewer_is_told_of_a_text_is_json() -> None:
    model, method = load_model("text-target"), METHODS["psd"]
    config = make_config(method.config, {"length": 8, **method.preset("Spiffy")})
    live = LiveRuns([Job(method, model, "How many books?", config)])
    heads = json.loads(to_json([run.head() for run in live.runs]))
    assert len(heads[0]["legend"]["vocabulary"]) > 500
    assert "prompt" in heads[0] and heads[0]["variant"] == "Spiffy"


def test_a_vocabulary_too_large_to_tell_is_told_as_it_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    method, model = METHODS["s2d2"], load_model("text-target")
    vocabulary = model.make_legend({}).vocabulary
    monkeypatch.setattr(language_model, "_WHOLE_VOCABULARY", 10)
    runs = LiveRuns([Job(method, model, "How many books?", make_config(method.config, {"length": 16}))])
    assert runs.runs[0].head()["legend"].vocabulary == {}
    with closing(EventStream()) as live:
        for _ in runs.passes():
            send(live, runs)
    texts: dict[int, str] = {}
    for news, step in zip(passed(live), runs.runs[0].trace().steps, strict=True):
        words = {int(token): text for token, text in (news["words"] or {}).items()}
        assert texts.keys().isdisjoint(words)
        texts |= words
        assert collect_token_ids([step]) <= texts.keys()
        assert news["frame"] is None
    assert texts == {token: vocabulary[token] for token in texts}


def passed(live: EventStream) -> list[Any]:
    """Return the passes in the whole stream."""

    async def everything() -> bytes:
        return b"".join([data async for data in live.stream()])

    events = [event.split("\ndata: ") for event in asyncio.run(everything()).decode().split("\n\n")[:-1]]
    assert events[-1] == ["event: over", "null"]
    return [json.loads(data) for name, data in events if name == "event: passed"]


def test_whoever_reads_the_stream_of_a_run_is_told_all_of_it_until_it_is_over() -> None:
    runs = LiveRuns([job("ar"), job("scd")])
    with ThreadPoolExecutor() as pool, closing(EventStream()) as live:
        early = pool.submit(passed, live)
        for num_read, _ in enumerate(runs.passes()):
            if not num_read % 3:
                send(live, runs)
        send(live, runs)
        assert asyncio.run(answer(live.name)).media_type == "text/event-stream" and not early.done()
    assert early.result() == passed(live)
    for lane, trace in enumerate(run.trace() for run in runs.runs):
        news = [one for one in early.result() if one["lane"] == lane]
        assert [one["first"] for one in news] == [0, *accumulate(len(one["steps"]) for one in news[:-1])]
        assert [step for one in news for step in one["steps"]] == json.loads(to_json(trace.steps))


def test_a_model_without_tiles_sends_pictures_but_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = StudioImage(Tokenizer(), Transformer(), torch.device("cpu"), ModelCard(id="untrained"))
    ordinary = Job(METHODS["ar"], model, "an owl in the forest", METHODS["ar"].config())

    def first(share: float) -> tuple[list[str | None], Trace]:
        monkeypatch.setattr(decoding, "DRAWING", share)
        live = LiveRuns([ordinary])
        return [live.news()[0].frame for _ in islice(live.passes(), 3)], live.runs[0].trace()

    pictures, trace = first(1e9)
    assert all(picture and picture.startswith("data:image/webp;base64,") for picture in pictures)
    assert len(set(pictures)) == len(trace.legend.frames) == 3  # except for the noise of decoding several at once
    seldom, trace = first(0)
    assert seldom == [pictures[0], None, None] and len(trace.legend.frames) == 3


def test_progress_arrives_while_the_work_goes_on_and_its_error_at_the_end() -> None:
    go_on = Event()

    def work(report: Report) -> None:
        report(1, 2)
        assert go_on.wait(60)
        report(2, 2)
        raise MovingError("too long")

    progress = with_progress(work)
    assert next(progress) == (1, 2)
    go_on.set()
    assert next(progress) == (2, 2)
    with pytest.raises(MovingError, match="too long"):
        next(progress)


def test_work_ends_when_nobody_waits_for_it() -> None:
    before, reported, seen = active_count(), [], Event()

    def work(report: Report) -> None:
        for number in range(10_000):
            report(number, 10_000)
            reported.append(number)
            if number == 3:
                assert seen.wait(60)

    updates = with_progress(work)
    assert len(list(islice(updates, 3))) == 3
    seen.set()
    updates.close()
    assert len(reported) < 10_000
    assert active_count() == before
