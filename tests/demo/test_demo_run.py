"""The Run page's handlers, without a browser."""

import asyncio
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from support import elsewhere
from support.raster import MODEL

from demo.pages.run import RunPage
from demo.sessions import Shown, Visitors
from demo.site import Site
from demo.turns import queued
from engines.models import catalog


@pytest.fixture
def page() -> Iterator[RunPage]:
    with gr.Blocks():
        yield RunPage(Site(Visitors(), gr.State(Shown()), gr.Checkbox(visible=False)))


def form(page: RunPage, **chosen: Any) -> dict[Any, Any]:
    """The values of the form as it stands, but for what is chosen."""
    controls = [page.prompt, page.method, page.model, page.seed, page.beside]
    for settings in (*page.own.values(), *page.sampling.values()):
        controls += settings.of.values()
    values = {control: control.value for control in controls}
    return values | {getattr(page, name): value for name, value in chosen.items()}


def test_a_run_tells_the_viewer_of_every_pass_and_keeps_both_traces(page: RunPage) -> None:
    updates = list(page.decode(form(page, model=MODEL, prompt=""), gr.Request(session_hash="mine")))
    kinds = [update[page.viewer]["kind"] for update in updates if page.viewer in update]
    assert (kinds[0], kinds[-1], set(kinds[1:-1])) == ("begin", "finish", {"push"})
    traces = updates[-1][page.site.shown].traces()
    assert [trace.method for trace in traces] == ["ar", "scd"]
    assert len(kinds) == 2 + max(len(trace.steps) for trace in traces)


def test_a_run_is_decoded_on_the_device_that_was_resolved(page: RunPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "resolve", lambda asked=None: elsewhere.NAME)
    with elsewhere.device():
        *_, last = page.decode(form(page, model=MODEL, prompt=""), gr.Request(session_hash="mine"))
    devices = {trace.environment.device for trace in last[page.site.shown].traces()}
    assert len(devices) == 1 and devices.pop().startswith(elsewhere.NAME)


def test_what_is_wrong_with_the_form_is_said(page: RunPage) -> None:
    handle = queued(page.site, page.problem, "run", page.decode)

    async def told() -> Any:
        return [one async for one in handle(form(page, model=MODEL, prompt="a boot"), gr.Request(session_hash="mine"))]

    *_, last = asyncio.run(told())
    assert last[page.problem]["kind"] == "error"
    assert last[page.problem]["text"].startswith("prompt: toy-raster draws without a prompt")
