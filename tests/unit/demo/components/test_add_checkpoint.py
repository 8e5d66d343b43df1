"""Models of a visitor's own machine: folders are taken and models fetched where no other machine reaches the server."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import gradio as gr
import pytest
from support.page_handlers import Parts
from support.tiny_text_checkpoints import write

from draftscope.cli.main import main
from draftscope.demo.components.add_checkpoint import local
from draftscope.demo.components.context import Site
from draftscope.demo.pages.watch import WatchPage
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.engines.models import catalog
from draftscope.engines.models.catalog import MODELS, is_available, terms_of
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.errors import ModelError


def page() -> WatchPage:
    with gr.Blocks():
        return WatchPage(Site(Visitors(), gr.State(CurrentTraces()), gr.Textbox(visible=False)))


def chosen(page: WatchPage, model: str) -> dict[Any, Any]:
    """The answer to the choice of a model."""
    return page.choose_model({page.model: model, page.method: page.method.value})


def asker(host: str = "127.0.0.1", **headers: str) -> Any:
    return SimpleNamespace(
        client=SimpleNamespace(host=host), headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, True),
        ({"GRADIO_SERVER_NAME": "127.0.0.1"}, True),
        ({"GRADIO_SERVER_NAME": "[::1]"}, True),
        ({"GRADIO_SERVER_NAME": "0.0.0.0"}, False),
        ({"SPACE_ID": "somebody/draftscope"}, False),
        ({"DRAFTSCOPE_PROXY": "1"}, False),
        ({"DRAFTSCOPE_ORIGINS": "https://lab.example"}, False),
        ({"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SHARE": "True"}, False),
    ],
)
def test_a_server_that_others_reach_has_no_field(environment: dict[str, str], expected: bool) -> None:
    assert local(environment) == expected


@pytest.mark.slow
def test_a_folder_becomes_a_model_and_its_licence_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    assert page().folders is None
    monkeypatch.setenv("GRADIO_SERVER_NAME", "127.0.0.1")
    run = page()
    panel: Any = run.folders
    llama, pangu = "Llama-3.2-1B-Instruct", "openpangu-7b-diffusion-base"
    kinds = {llama: "llama", pangu: "PanguEmbedded", "mine": "llama"}
    folders = {name: write(tmp_path / name, kind) for name, kind in kinds.items()}
    opened = panel.open({panel.folder: str(folders[pangu]), panel.method: "blockwise"}, asker())
    assert "a name that is taken" in str(opened), "that of the listed one"
    for model in (llama, "mine"):
        folder, method = folders[model], "ar"
        for known in (MODELS, catalog._OWN):
            monkeypatch.setitem(known, model, None)
            monkeypatch.delitem(known, model)
        update = panel.open({panel.folder: f" {folder} ", panel.method: method}, asker())
        assert update[run.model]["value"] == model and model in [name for _, name in update[run.model]["choices"]]
        assert is_available(model) and update[panel.problem]["kind"] == "info" and str(tmp_path) not in str(update)
        assert terms_of(model) in update[panel.problem]["text"]
        assert chosen(run, model)[run.model]["info"] == (terms_of(model) or None)
        assert panel.open({panel.folder: str(folder), panel.method: method}, asker())[run.model]["value"] == model
    assert "Built with Llama" in terms_of(llama) and not terms_of("mine")
    update = panel.open({panel.folder: str(folders[llama]), panel.method: "cspd"}, asker())
    assert run.model not in update and "Choose a method of the family discrete-ar" in str(update)
    for bad, problem in (("", "is empty"), (str(tmp_path), "config.json is missing"), ("\0", "cannot be a path")):
        update = panel.open({panel.folder: bad, panel.method: "ar"}, asker())
        assert update[panel.problem]["kind"] == "error" and problem in update[panel.problem]["text"]
    broken = write(tmp_path / "broken", "llama")
    (broken / "model.safetensors").unlink()
    quantized = write(tmp_path / "quantized", "llama")
    settings = json.loads((quantized / "config.json").read_text()) | {"quantization_config": {"bits": 4}}
    (quantized / "config.json").write_text(json.dumps(settings))
    for folder, problem in ((broken, "model.safetensors is missing"), (quantized, "its weights are quantized")):
        update = panel.open({panel.folder: str(folder), panel.method: "ar"}, asker())
        assert update[panel.problem]["kind"] == "error" and problem in update[panel.problem]["text"]
        assert folder.name not in MODELS and folder.name not in catalog._OWN
    for stranger in (asker("203.0.113.9"), asker(x_forwarded_for="203.0.113.9")):
        refused = panel.open({panel.folder: str(tmp_path / llama), panel.method: "ar"}, stranger)
        assert set(refused) == {panel.problem} and "DRAFTSCOPE_MODELS" in refused[panel.problem]["text"]
    words = ["run", "ar", "--model", str(folders[llama]), "--set", "length=8", "--prompt", "a hero"]
    assert main([*words, "-o", str(tmp_path / "t.json")]) == 0
    assert capsys.readouterr().err.startswith(f"{folders[llama]}: {terms_of(llama)}\n")


@pytest.mark.slow
def test_a_model_of_ones_own_is_sampled_as_its_own_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_SERVER_NAME", "127.0.0.1")
    run, folder = page(), write(tmp_path / "own", "llama")
    panel: Any = run.folders
    for known in (MODELS, catalog._OWN):
        monkeypatch.setitem(known, "own", None)
        monkeypatch.delitem(known, "own")
    named = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(named))
    assert panel.open({panel.folder: str(folder), panel.method: "ar"}, asker())[run.model_sampling]["visible"]
    assert not chosen(run, "studio-image")[run.model_sampling]["visible"]
    of, values = run.sampling["discrete-ar"].of, {run.model: "own", run.method: "ar"}
    expected = {of["temperature"]: 0.6, of["top_k"]: 50, of["top_p"]: 0.9, run.problem: {}}
    assert run.use_model_sampling(values) == expected
    (folder / "generation_config.json").write_text(json.dumps(named | {"min_p": 0.1}))
    (notice,) = run.use_model_sampling(values).values()
    assert notice["kind"] == "error" and "min_p=0.1, which is not built" in notice["text"]


@pytest.fixture
def watch(parts: Parts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WatchPage:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    return parts.watch


def pressed(watch: WatchPage, name: str = "smollm2", method: str = "scd", host: str = "127.0.0.1") -> Any:
    panel: Any = watch.fetching
    request = asker(host)
    request.session_hash = "mine"
    return panel.fetch({panel.name: name, watch.method: method}, request)


def arrives(name: str, report: Callable[[int, int], None], folder: str = "") -> Path:
    """Replacement of the download: half of it is there at once."""
    report(46_000_000, 92_000_000)
    threading.Event().wait(0.5)
    report(92_000_000, 92_000_000)
    download_dir(name).mkdir(parents=True, exist_ok=True)
    (download_dir(name) / "config.json").write_text("{}")
    return download_dir(name)


def test_it_says_how_far_it_is_and_the_form_takes_the_model(watch: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftscope.demo.components.download_model.fetch", arrives)
    offered = chosen(watch, "smollm2")
    panel: Any = watch.fetching
    assert offered[panel.row]["visible"] and offered[panel.name] == "smollm2"
    *under_way, last = pressed(watch)
    assert under_way[0][watch.problem]["text"] == "46 of 92 MB" and under_way[0][watch.problem]["share"] == 0.5
    assert (last[watch.method], last[watch.model]["value"]) == ("scd", "smollm2")
    assert not last[panel.row]["visible"] and "is here" in last[watch.problem]["title"]
    assert any(name == "smollm2" and "not fetched" not in label for label, name in last[watch.model]["choices"])
    assert not chosen(watch, "text-target")[panel.row]["visible"]
    *_, last = pressed(watch, method="psd")
    assert last[watch.method] == "speculative", "it cannot run psd"


def test_stop_ends_it_and_nothing_is_chosen(watch: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftscope.demo.components.download_model.fetch", arrives)
    watch.site.visitor(gr.Request(session_hash="mine")).stop()
    (last,) = list(pressed(watch))[-1:]
    assert last == {watch.problem: last[watch.problem]} and last[watch.problem]["title"] == "Stopped."
    assert not download_dir("smollm2").exists()
    watch.site.visitor(gr.Request(session_hash="mine")).start()


def test_errors_are_a_sentence_and_strangers_fetch_nothing(watch: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ModelError("smollm2: cannot be downloaded (no route); check the network, and try again.")
    monkeypatch.setattr("draftscope.demo.components.download_model.fetch", Mock(side_effect=refused))
    with pytest.raises(ModelError, match="check the network"):
        list(pressed(watch))
    with pytest.raises(ModelError, match="Models are fetched on the machine that runs"):
        list(pressed(watch, host="10.0.0.7"))
