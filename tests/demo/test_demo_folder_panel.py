"""A folder is taken from a field where the server is reached from its own machine alone, and its licence is said."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from support.checkpoints import write

from demo.pages.watch import WatchPage
from demo.panels.folder import local
from demo.server.sessions import Shown, Visitors
from demo.site import Site
from engines.__main__ import main
from engines.models import catalog
from engines.models.catalog import MODELS, at_hand, terms_of


def page() -> WatchPage:
    with gr.Blocks():
        return WatchPage(Site(Visitors(), gr.State(Shown()), gr.Textbox(visible=False)))


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
    taken = panel.open({panel.folder: str(folders[pangu]), panel.method: "blockwise"}, asker())
    assert "a name that is taken" in str(taken), "that of the listed one"
    for model in (llama, "mine"):
        folder, method = folders[model], "ar"
        for known in (MODELS, catalog._OWN):
            monkeypatch.setitem(known, model, None)
            monkeypatch.delitem(known, model)
        update = panel.open({panel.folder: f" {folder} ", panel.method: method}, asker())
        assert update[run.model]["value"] == model and model in [name for _, name in update[run.model]["choices"]]
        assert at_hand(model) and update[panel.problem]["kind"] == "info" and str(tmp_path) not in str(update)
        assert terms_of(model) in update[panel.problem]["text"]
        assert run.choose_model({run.model: model})[run.model]["info"] == (terms_of(model) or None)
        assert panel.open({panel.folder: str(folder), panel.method: method}, asker())[run.model]["value"] == model
    assert "Built with Llama" in terms_of(llama) and not terms_of("mine")
    update = panel.open({panel.folder: str(folders[llama]), panel.method: "cspd"}, asker())
    assert run.model not in update and "Choose a method of the family discrete-ar" in str(update)
    for bad, said in (("", "is empty"), (str(tmp_path), "config.json is missing"), ("\0", "cannot be a path")):
        update = panel.open({panel.folder: bad, panel.method: "ar"}, asker())
        assert update[panel.problem]["kind"] == "error" and said in update[panel.problem]["text"]
    broken = write(tmp_path / "broken", "llama")
    (broken / "model.safetensors").unlink()
    quantized = write(tmp_path / "quantized", "llama")
    settings = json.loads((quantized / "config.json").read_text()) | {"quantization_config": {"bits": 4}}
    (quantized / "config.json").write_text(json.dumps(settings))
    for folder, said in ((broken, "model.safetensors is missing"), (quantized, "its weights are quantized")):
        update = panel.open({panel.folder: str(folder), panel.method: "ar"}, asker())
        assert update[panel.problem]["kind"] == "error" and said in update[panel.problem]["text"]
        assert folder.name not in MODELS and folder.name not in catalog._OWN
    for stranger in (asker("203.0.113.9"), asker(x_forwarded_for="203.0.113.9")):
        refused = panel.open({panel.folder: str(tmp_path / llama), panel.method: "ar"}, stranger)
        assert set(refused) == {panel.problem} and "DRAFTSCOPE_MODELS" in refused[panel.problem]["text"]
    asked = ["run", "ar", "--model", str(folders[llama]), "--set", "length=8", "--prompt", "a hero"]
    assert main([*asked, "-o", str(tmp_path / "t.json")]) == 0
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
    assert panel.open({panel.folder: str(folder), panel.method: "ar"}, asker())[run.usual]["visible"]
    assert not run.choose_model({run.model: "studio-image"})[run.usual]["visible"]
    of = run.sampling["discrete-ar"].of
    expected = {of["temperature"]: 0.6, of["top_k"]: 50, of["top_p"]: 0.9, run.problem: {}}
    assert run.sample_as_usual({run.model: "own"}) == expected
    (folder / "generation_config.json").write_text(json.dumps(named | {"min_p": 0.1}))
    (said,) = run.sample_as_usual({run.model: "own"}).values()
    assert said["kind"] == "error" and "min_p=0.1, which is not built" in said["text"]
