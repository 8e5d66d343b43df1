"""Memory: what does not fit is refused before it is loaded."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import tiny_image_checkpoints as drawing
from support.tiny_text_checkpoints import job, write

from draftscope.cli.main import main
from draftscope.engines.models import loading, memory
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import MemoryBudget, MemoryRequirement
from draftscope.engines.runtime import memory_estimate as estimate
from draftscope.engines.runtime.driver import open_session
from draftscope.traces import read

GIGA = 10**9
EIGHT, LONG, PICTURE = (
    MemoryRequirement(8_200_000_000),
    MemoryRequirement(GIGA, position=10**5),
    MemoryRequirement(GIGA, GIGA, 10**5, 10_000),
)


@pytest.mark.parametrize(
    ("needs", "room", "dtype", "free", "problem"),
    [
        (
            EIGHT,
            MemoryBudget(),
            torch.float32,
            20,
            "32.8 GB in float32 on cpu, and 20.0 GB .* takes 16.4 GB, Qwen/Qwen3-4B",
        ),
        (
            EIGHT,
            MemoryBudget(),
            torch.bfloat16,
            1,
            "in bfloat16 on cpu, and 1.0 GB are free; use a device with more memory",
        ),
        (
            LONG,
            MemoryBudget(10_000, 4),
            torch.float32,
            13,
            "of 4 sequences of 10,000 positions 16.0 GB, .* 2 sequences fit, ",
        ),
        (PICTURE, MemoryBudget(), torch.float32, 11, "weights take 8.0 GB .* 1 sequence of 10,000 positions 4.0 GB"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(
    needs: MemoryRequirement,
    room: MemoryBudget,
    dtype: torch.dtype,
    free: int,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = CheckpointDir("Qwen/Qwen3-8B", Path(), "Fetch it")
    monkeypatch.setattr(memory, "free_bytes", lambda _: free * GIGA)
    with pytest.raises(ModelError, match=problem) as caught:
        memory.check_memory(source, needs, dtype, "cpu", room)
    assert "Fetch" not in str(caught.value)
    monkeypatch.setattr(memory, "free_bytes", lambda _: 50 * GIGA)
    memory.check_memory(source, needs, dtype, "cpu", room)


@pytest.mark.parametrize("name", ["qwen3", "janus", "cosmos"])
def test_a_checkpoint_is_refused_before_it_is_read(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / name, name) if name == "qwen3" else drawing.write(name, tmp_path / name)
    needs, room = loading.needs_of(str(folder)), MemoryBudget()
    model: Any = loading.load(folder)
    assert needs.position and needs.parameters + needs.exact >= model.num_parameters > 0
    if name == "qwen3":
        assert (needs.parameters, needs.position) == (model.num_parameters, 2 * 2 * 2 * 16)
        (folder / "model.safetensors").write_bytes(b"nobody reads this")
    else:
        assert needs.positions >= model.shape.rows * model.shape.columns
    loading._LOADED.clear()
    both = needs.weights(torch.float32) + needs.cache(torch.float32, room)
    monkeypatch.setattr(memory, "free_bytes", lambda _: both - 1)
    with pytest.raises(ModelError, match=f"{name}: its weights take .* --dtype bfloat16 takes 0.0 GB, or use a device"):
        loading.load(folder)


def test_sequences_are_refused_whose_cache_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loading.load(write(tmp_path / "it", "qwen3"))
    monkeypatch.setattr(memory, "_SMALL", 10**4)
    monkeypatch.setattr(memory, "free_bytes", lambda _: 10**4)
    with pytest.raises(ModelError, match=r"it: the KV cache of 9 sequences takes .* use fewer sequences at once"):
        open_session([job(model, "ar", length=8) for _ in range(9)])


def test_what_is_free_is_the_lesser_of_machine_and_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, limit, used = (tmp_path / name for name in ("meminfo", "max", "current"))
    for name, file in (("_MEMINFO", machine), ("_LIMIT", limit), ("_USED", used)):
        monkeypatch.setattr(memory, name, file)
    assert memory.free_bytes("cpu") is None and memory.free_bytes("meta") is None
    machine.write_text("MemTotal:  9 kB\nMemAvailable:  4 kB\n")
    limit.write_text("max\n")
    used.write_text("96\n")
    assert memory.free_bytes("cpu") == 4096
    limit.write_text("1096\n")
    assert memory.free_bytes("cpu") == 1000


def test_the_command_line_holds_weights_as_asked_and_says_what_they_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = write(tmp_path / "it", "qwen3"), tmp_path / "t.json"
    command = ["run", "ar", "--set", "length=8", "--prompt", "a hero", "--dtype", "bfloat16", "-o", str(target)]
    assert main([*command, "--model", str(folder)]) == 0
    capsys.readouterr()
    assert read(target).environment.dtype == "bfloat16"
    needs = loading.needs_of(str(folder))
    (folder / "model.safetensors").unlink()  # config.json alone tells
    for free, fits in ((10**9, "fits"), (10**4, "does not fit")):
        monkeypatch.setattr(estimate, "free_on", lambda _, free=free: free)
        assert main(["model", "memory", "--model", str(folder), "--device", "cpu", "--batch", "600"]) == 0
        line = capsys.readouterr().out
        assert line.startswith(f"{folder}: {needs.parameters:,} parameters, 0.0 GB of weights in float32 on cpu, ")
        assert "for 600 sequences of 64 positions" in line and line.endswith(f"({fits})\n")
    assert main(["model", "memory", "--model", str(folder), "--batch", "0"]) == 2
    assert main(["model", "memory", "--model", "nobody/nothing", "--device", "cpu"]) == 3
