"""A checkpoint that does not fit into memory is refused before it is read; a smaller number format is a remedy."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.checkpoints import write

from engines.__main__ import main
from engines.models import memory
from engines.models.errors import ModelError
from engines.models.hub import published
from engines.models.weights import Source
from engines.runtime import expecting
from traces import read


def test_a_checkpoint_that_does_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "it", "qwen3")
    model: Any = published.load_folder(folder)
    needed = 4 * model.parameters
    published._load.cache_clear()
    monkeypatch.setattr(memory, "free_bytes", lambda _: needed)
    assert published.load_folder(folder)
    published._load.cache_clear()
    (folder / "model.safetensors").write_bytes(b"nobody reads this")
    monkeypatch.setattr(memory, "free_bytes", lambda _: needed - 1)
    with pytest.raises(ModelError) as caught:
        published.load_folder(folder)
    assert str(caught.value) == (
        "it: its weights take 0.0 GB in float32 on cpu, and 0.0 GB are free; --dtype bfloat16 takes 0.0 GB, or use a "
        "device with more memory."
    )
    with pytest.raises(ModelError, match="safetensors cannot be read"):
        published.load_folder(folder, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("name", "billions", "dtype", "free", "said"),
    [
        (
            "Qwen/Qwen3-8B",
            8.2,
            torch.float32,
            20,
            "32.8 GB in float32 on cpu, and 20.0 GB are free; --dtype bfloat",
        ),
        (
            "Qwen/Qwen3-8B",
            8.2,
            torch.float32,
            20,
            "16 takes 16.4 GB, Qwen/Qwen3-4B takes 16.0 GB, or use a device",
        ),
        ("Qwen/Qwen3-8B", 8.2, torch.bfloat16, 1, "in bfloat16 on cpu, and 1.0 GB are free; use a device with more"),
        ("my-folder", 8.2, torch.bfloat16, 9, "take 16.4 GB in bfloat16 on cpu, and 9.0 GB are free; use a device"),
    ],
)
def test_it_is_told_what_would_fit(
    name: str, billions: float, dtype: torch.dtype, free: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: free * 10**9)
    with pytest.raises(ModelError, match=said) as caught:
        memory.check_room(Source(name, Path(), "Fetch it"), round(billions * 1e9), dtype, "cpu")
    assert "Fetch" not in str(caught.value)


def test_a_gpu_is_asked_and_so_is_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    room = {"cuda": 10 * 10**9, "cpu": 10**9}
    monkeypatch.setattr(memory, "free_bytes", room.get)
    source = Source("it", Path(), "")
    memory.check_room(source, 4 * 10**8, torch.bfloat16, "cuda")
    with pytest.raises(ModelError, match=r"2.0 GB in bfloat16 on cpu on their way to cuda, and 1.0 GB are free; use"):
        memory.check_room(source, 10**9, torch.bfloat16, "cuda")
    with pytest.raises(ModelError, match=r"take 12.0 GB in bfloat16 on cuda, and 10.0 GB are free; use a device"):
        memory.check_room(source, 6 * 10**9, torch.bfloat16, "cuda")


def test_what_is_free_is_the_lesser_of_machine_and_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, limit, used = (tmp_path / name for name in ("meminfo", "max", "current"))
    for name, file in (("_MEMINFO", machine), ("_LIMIT", limit), ("_USED", used)):
        monkeypatch.setattr(memory, name, file)
    assert memory.free_bytes("cpu") is None and memory.free_bytes("meta") is None
    machine.write_text("MemTotal:  9 kB\nMemAvailable:  4 kB\n")
    assert memory.free_bytes("cpu") == 4096
    limit.write_text("max\n")
    used.write_text("96\n")
    assert memory.free_bytes("cpu") == 4096
    limit.write_text("1096\n")
    assert memory.free_bytes("cpu") == 1000


def test_the_command_line_holds_weights_in_the_format_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = write(tmp_path / "it", "qwen3"), tmp_path / "t.json"
    command = [
        "run",
        "ar",
        "--set",
        "length=8",
        "--prompt",
        "a hero",
        "--dtype",
        "bfloat16",
        "-o",
        str(target),
        "--model",
    ]
    assert main([*command, str(folder)]) == 0
    assert read(target).environment.dtype == "bfloat16"
    assert main([*command, "toy-raster"]) == 2
    assert capsys.readouterr().err == "dtype: toy-raster ships in float32; leave it out.\n"


def test_what_a_model_will_take_is_told_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "it", "llada2_moe")
    count = sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    told = f"{folder}: {count - 8:,} parameters, 0.0 GB of weights in "  # the gate's bias of 8 experts is not trained
    monkeypatch.setattr(expecting, "free_bytes", lambda _: 4 * count)
    assert main(["expect", "--model", str(folder), "--device", "cpu", "--passes", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{told}float32 on cpu, and 0.0 GB are free (fits)\na pass of ordinary decoding took ")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(expecting, "free_bytes", lambda _: count)
    assert main(["expect", "--model", str(folder), "--device", "cpu", "--dtype", "bfloat16"]) == 0
    assert capsys.readouterr().out == f"{told}bfloat16 on cpu, and 0.0 GB are free (does not fit)\n"
    assert main(["expect", "--model", "nobody/nothing", "--device", "cpu"]) == 3
