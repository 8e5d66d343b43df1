"""A model is fetched at a press of a button: how far it is, stopping, errors, and who may."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.parts import Parts
from test_demo_folder_panel import asker

from demo.pages.watch import WatchPage
from engines.models.errors import ModelError
from engines.models.fetching import folder_of


@pytest.fixture
def page(parts: Parts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WatchPage:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    return parts.watch


def pressed(page: WatchPage, name: str = "smollm2", method: str = "scd", host: str = "127.0.0.1") -> Any:
    panel: Any = page.fetching
    request = asker(host)
    request.session_hash = "mine"
    return panel.fetch({panel.name: name, page.method: method}, request)


def arrives(name: str, report: Callable[[int, int], None], place: str = "") -> Path:
    """Stands in for the download: half of it is there at once."""
    report(46_000_000, 92_000_000)
    threading.Event().wait(0.5)
    report(92_000_000, 92_000_000)
    folder_of(name).mkdir(parents=True, exist_ok=True)
    (folder_of(name) / "config.json").write_text("{}")
    return folder_of(name)


def test_it_says_how_far_it_is_and_the_form_takes_the_model(page: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.panels.fetch.fetch", arrives)
    offered = page.choose_model({page.model: "smollm2"})
    panel: Any = page.fetching
    assert offered[panel.row]["visible"] and offered[panel.name] == "smollm2"
    *under_way, last = pressed(page)
    assert under_way[0][page.problem]["text"] == "46 of 92 MB" and under_way[0][page.problem]["share"] == 0.5
    assert (last[page.method], last[page.model]["value"]) == ("scd", "smollm2")
    assert not last[panel.row]["visible"] and "is here" in last[page.problem]["title"]
    assert any(name == "smollm2" and "not fetched" not in label for label, name in last[page.model]["choices"])
    assert not page.choose_model({page.model: "text-target"})[panel.row]["visible"]
    *_, last = pressed(page, method="psd")
    assert last[page.method] == "speculative", "it cannot run psd"


def test_stop_ends_it_and_nothing_is_chosen(page: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.panels.fetch.fetch", arrives)
    page.site.visitor(gr.Request(session_hash="mine")).stop()
    (last,) = list(pressed(page))[-1:]
    assert last == {page.problem: last[page.problem]} and last[page.problem]["title"] == "Stopped."
    assert not folder_of("smollm2").exists()
    page.site.visitor(gr.Request(session_hash="mine")).start()


def test_errors_are_a_sentence_and_strangers_fetch_nothing(page: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Path:
        raise ModelError("smollm2: cannot be downloaded (no route); check the network, and try again.")

    monkeypatch.setattr("demo.panels.fetch.fetch", refused)
    with pytest.raises(ModelError, match="check the network"):
        list(pressed(page))
    with pytest.raises(ModelError, match="Only who sits before this machine"):
        list(pressed(page, host="10.0.0.7"))
