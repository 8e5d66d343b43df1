"""A checkpoint that does not fit into memory is refused before it is read; a smaller number format is a remedy."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support import cosmos, janus
from support.checkpoints import GROUPS, LAYERS, write
from transformers import Qwen3Config, Qwen3ForCausalLM

from engines.__main__ import main
from engines.config import make_config
from engines.methods import METHODS
from engines.models import memory
from engines.models.errors import ModelError
from engines.models.hub import cosmos_convert, llada2, published
from engines.models.memory import Needs, Room
from engines.models.spread import size_of
from engines.models.weights import Source, lies_as_held, read_network
from engines.runtime import expecting
from engines.runtime.driver import Job, open_session
from traces import read


def test_a_checkpoint_that_does_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "it", "qwen3")
    model: Any = published.load_folder(folder)
    needed = 4 * (model.parameters + 64 * 2 * LAYERS * GROUPS * 16)
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
        memory.check_room(Source(name, Path(), "Fetch it"), Needs(round(billions * 1e9)), dtype, "cpu")
    assert "Fetch" not in str(caught.value)


GIGA = 10**9
LONG = Needs(GIGA, position=10**5)


@pytest.mark.parametrize(
    ("needs", "room", "free", "said"),
    [
        (LONG, Room(10_000, 1), 5, "on cpu, keys and values of 1 sequence of 10,000 positions 4.0 GB, and 5.0 GB are"),
        (LONG, Room(10_000, 4), 13, "of 4 sequences of 10,000 positions 16.0 GB, and 13.0 GB are free; --dtype"),
        (LONG, Room(10_000, 4), 13, "takes 10.0 GB, 2 sequences fit, or use a device with more memory"),
        (Needs(GIGA, GIGA, 10**5, 10_000), Room(), 11, "weights take 8.0 GB .* 1 sequence of 10,000 positions 4.0 GB"),
        (Needs(GIGA, GIGA, 10**5, 10_000), Room(), 11, "are free; --dtype bfloat16 takes 8.0 GB, or use a device"),
    ],
)
def test_keys_and_values_are_counted_at_the_length_that_is_asked_for(
    needs: Needs, room: Room, free: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: free * GIGA)
    with pytest.raises(ModelError, match=said):
        memory.check_room(Source("it", Path(), ""), needs, torch.float32, "cpu", room)
    memory.check_room(Source("it", Path(), ""), needs, torch.bfloat16, "cpu", Room(100))


def test_another_device_with_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(memory, "free_bytes", {"cpu": 4 * GIGA, "cuda:0": 3 * GIGA}.get)
    with pytest.raises(ModelError, match=r"and 4.0 GB are free; .*, --device cuda:0 has room for it in bfloat16"):
        memory.check_room(Source("it", Path(), ""), Needs(GIGA + 10**8), torch.float32, "cpu")


@pytest.mark.parametrize("name", ["janus", pytest.param("cosmos", marks=pytest.mark.slow)])
def test_a_clip_or_a_picture_that_does_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    if name == "cosmos":
        tokenizer = cosmos.write_tokenizer(tmp_path / "tokenizer")
        cosmos_convert.convert(cosmos.write_model(tmp_path / "published"), tokenizer, folder, lambda _: None)
    else:
        janus.write(folder, released=False)
    needs = published.needs_of(str(folder))
    model: Any = published.load_folder(folder)
    published._load.cache_clear()
    assert needs.position and needs.positions >= model.shape.rows * model.shape.columns
    assert needs.parameters + needs.exact >= model.parameters > 0
    monkeypatch.setattr(memory, "free_bytes", lambda _: needs.weights(torch.float32) + 1)
    with pytest.raises(ModelError, match=f"{name}: its weights take .* are free; --dtype bfloat16 takes 0.0 GB"):
        published.load_folder(folder)


def test_sequences_that_do_not_fit_beside_each_other_are_refused_before_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = published.load_folder(write(tmp_path / "it", "qwen3"))
    monkeypatch.setattr(memory, "free_bytes", lambda _: 10**4)
    monkeypatch.setattr(memory, "_SMALL", 10**4)
    method = METHODS["ar"]
    jobs = [Job(method, model, "a hero", make_config(method.config, {"length": 8})) for _ in range(9)]
    with pytest.raises(ModelError, match=r"it: keys and values of 9 sequences take .* use fewer sequences at once"):
        open_session(jobs)


def test_a_gpu_is_asked_and_so_is_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    room = {"cuda": 10 * 10**9, "cpu": 10**9}
    monkeypatch.setattr(memory, "free_bytes", room.get)
    source = Source("it", Path(), "")
    memory.check_room(source, Needs(4 * 10**8), torch.bfloat16, "cuda")
    with pytest.raises(ModelError, match=r"2.0 GB in bfloat16 on cpu on their way to cuda, and 1.0 GB are free; use"):
        memory.check_room(source, Needs(10**9), torch.bfloat16, "cuda")
    with pytest.raises(ModelError, match=r"take 12.0 GB in bfloat16 on cuda, and 10.0 GB are free; use a device"):
        memory.check_room(source, Needs(6 * 10**9), torch.bfloat16, "cuda")


def test_weights_that_lie_as_they_are_held_take_no_memory_on_their_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source("it", write(tmp_path / "it", "qwen3"), "")
    assert lies_as_held(source, torch.float32) and not lies_as_held(source, torch.bfloat16)
    assert not lies_as_held(Source("it", write(tmp_path / "other", "llada2_moe"), ""), torch.float32, llada2.NAMES)
    monkeypatch.setattr(memory, "free_bytes", {"cuda": 10 * GIGA, "cpu": GIGA}.get)
    memory.check_room(source, Needs(4 * GIGA), torch.bfloat16, "cuda", straight=lambda: True)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="this system has no /proc")
def test_a_network_is_read_without_a_copy_of_its_weights(tmp_path: Path) -> None:
    def anonymous() -> int:
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon:"))

    config = Qwen3Config(
        vocab_size=10_000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=2, num_attention_heads=16
    )
    Qwen3ForCausalLM(config).bfloat16().save_pretrained(tmp_path)
    size = (tmp_path / "model.safetensors").stat().st_size
    assert size > 10**8 / 2
    before = anonymous()
    network = read_network(Source("it", tmp_path, ""), Qwen3ForCausalLM, config, torch.bfloat16)
    assert anonymous() - before < size / 4
    assert size_of(network) > 0.9 * size


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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    needs = published.needs_of(str(folder))
    enough = needs.weights(torch.bfloat16) + needs.cache(torch.bfloat16, Room(8))
    monkeypatch.setattr(memory, "free_bytes", lambda _: enough)
    published._load.cache_clear()
    assert main([*command, str(folder)]) == 0
    published._load.cache_clear()
    assert main([*command, str(folder), "--set", "length=9"]) == 3  # a longer text needs more
    assert "it: its weights take 0.0 GB in bfloat16" in capsys.readouterr().err
    assert main([*command, "toy-raster"]) == 2
    assert capsys.readouterr().err == "dtype: toy-raster ships in float32; leave it out.\n"


def test_what_a_model_will_take_is_told_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "it", "llada2_moe")
    count = sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    told = f"{folder}: {count - 8:,} parameters, 0.0 GB of weights in "  # the gate's bias of 8 experts is not trained
    monkeypatch.setattr(expecting, "free_on", lambda _: 8 * count)
    assert main(["expect", "--model", str(folder), "--device", "cpu", "--passes", "2"]) == 0
    said = capsys.readouterr().out
    kept = ", 0.00 GB of keys and values for 1 sequence of 64 positions"
    assert said.startswith(f"{told}float32 on cpu{kept}, and 0.0 GB are free (fits)\na pass of ordinary decoding took ")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(expecting, "free_on", lambda _: count)
    assert main(["expect", "--model", str(folder), "--device", "cpu", "--dtype", "bfloat16"]) == 0
    assert capsys.readouterr().out == f"{told}bfloat16 on cpu{kept}, and 0.0 GB are free (does not fit)\n"
    monkeypatch.setattr(expecting, "free_on", lambda _: 10**9)
    large = ["--length", "4096", "--lanes", "600"]
    assert main(["expect", "--model", str(folder), "--device", "cpu", *large]) == 0
    kept = 600 * 4096 * 2 * LAYERS * GROUPS * 16 * 4 / 1e9
    many = f"{kept:.2f} GB of keys and values for 600 sequences of 4,096 positions"
    assert many in (said := capsys.readouterr().out) and said.endswith("(does not fit)\n")
    assert main(["expect", "--model", str(folder), "--lanes", "0"]) == 2
    assert main(["expect", "--model", "nobody/nothing", "--device", "cpu"]) == 3
