"""Language models larger than a device: their layers on a CPU and on the disk give the tokens of one device."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support import chat_folder
from support.tiny_llama import PROMPT, llama
from support.tiny_text_checkpoints import decoded, job
from support.tiny_text_checkpoints import write as write_diffusion
from transformers import AutoModelForCausalLM

import draftscope as ds
from draftscope.cli.main import main
from draftscope.engines.models.catalog import open_model
from draftscope.engines.models.checkpoints import build
from draftscope.traces import read

pytest.importorskip("accelerate", reason="accelerate is not installed: pip install accelerate")
METHODS: dict[str, dict[str, Any]] = {"ar": {}, "speculative": {"drafter": "lookup"}, "scd": {"window": 4}}


def _room_for(folder: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the CPU have room for a part of the weights."""
    size = (Path(folder) / "model.safetensors").stat().st_size
    free = {"cpu": int(share * size / build._FILLED)}
    monkeypatch.setattr(build, "free_bytes", free.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_folder_on_two_devices_gives_the_tokens_of_one(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = chat_folder.write(tmp_path / "model")
    options: dict[str, Any] = {"prompt": "abc abc", "chat": False, "length": 16, "top_k": 1, **METHODS[method]}
    alone = ds.run(method, model=folder, device="cpu", **options)
    _room_for(folder, 0.6, monkeypatch)
    spread = ds.run(method, model=folder, device="cpu,disk", **options)
    assert spread.output == alone.output and spread.summary.forwards == alone.summary.forwards
    network = open_model(folder, "cpu,disk").network
    assert {"cpu", "disk"} == set(network.hf_device_map.values())
    assert {weight.device.type for weight in network.parameters()} == {"cpu", "meta"}


@pytest.mark.slow
def test_a_diffusion_language_model_on_two_devices_gives_the_tokens_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_diffusion(tmp_path / "model", "sdar")
    folder = str(tmp_path / "model")
    alone = decoded(job(open_model(folder, "cpu")))
    _room_for(folder, 0.6, monkeypatch)
    model = open_model(folder, "cpu,disk")
    assert set(model.network.hf_device_map.values()) == {"cpu", "disk"}
    assert decoded(job(model)) == alone


@pytest.mark.slow
def test_the_command_takes_the_disk_as_its_last_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = chat_folder.write(tmp_path / "model"), tmp_path / "t.json"
    _room_for(folder, 0.6, monkeypatch)
    command = ["run", "ar", "--model", folder, "--prompt", "abc", "--no-chat", "--set", "length=8", "-o", str(out)]
    assert main([*command, "--device", "cpu,disk"]) == 0
    assert len(read(out).output.tokens) == 8


@pytest.mark.slow
@pytest.mark.parametrize("share", ["some layers", "all"])
def test_a_model_that_transformers_spread_is_taken_as_an_object(share: str, tmp_path: Path) -> None:
    network = llama(layers=4)
    network.save_pretrained(tmp_path)
    device_map = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "disk", "lm_head": "cpu"}
    device_map |= {f"model.layers.{at}": "disk" if at % 2 else "cpu" for at in range(4)}
    options: dict[str, Any] = {"dtype": torch.float32, "offload_folder": tmp_path / "off"}
    spread = AutoModelForCausalLM.from_pretrained(
        tmp_path, device_map=device_map if share == "some layers" else {"": "disk"}, **options
    ).eval()
    for method, settings in METHODS.items():
        one, other = (
            ds.run(method, target=each, ids=PROMPT, top_k=1, length=12, **settings) for each in (network, spread)
        )
        assert one.output == other.output
    shutil.rmtree(tmp_path / "off", ignore_errors=True)
