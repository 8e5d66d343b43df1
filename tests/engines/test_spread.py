"""A language model whose layers lie on several devices decodes what it decodes on one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import elsewhere
from support.checkpoints import write

from engines.config import ConfigError, make_config
from engines.methods import METHODS
from engines.models import devices, memory, spread
from engines.models.errors import ModelError
from engines.models.hub import published
from engines.models.memory import Needs
from engines.models.weights import Source
from engines.runtime.driver import Job, Run, sample_tokens

HERE, THERE = "cpu", elsewhere.NAME
BOTH = (f"{HERE},{THERE}", f"{THERE},{HERE}")
GIGA = 10**9


def job(model: Any, method: str, prompt: str = "a hero", **values: object) -> Job:
    chosen = METHODS[method]
    return Job(chosen, model, prompt, make_config(chosen.config, {"length": 24, **values}))


def tokens(model: Any, method: str, **values: object) -> tuple[Any, ...]:
    run = Run(job(model, method, **values))
    list(run)
    return tuple(run.trace().output.tokens)


def homes(model: Any) -> list[str]:
    """Of every layer."""
    return [next(layer.parameters()).device.type for layer in model._network.model.layers]


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize("place", BOTH)
@pytest.mark.parametrize(
    ("family", "method", "values"),
    [
        ("qwen3", "ar", {}),
        ("llama", "scd", {"window": 4}),
        ("sdar", "s2d2", {"block": "8", "router": "always"}),
        ("sdar", "psd", {"block": "8"}),
        ("llada", "blockwise", {"block": "8"}),
        ("Dream", "blockwise", {"block": "8"}),
        ("PanguEmbedded", "blockwise", {"block": "8"}),
    ],
)
def test_a_spread_model_decodes_as_a_whole_one(
    tmp_path: Path, place: str, family: str, method: str, values: dict[str, object]
) -> None:
    folder = write(tmp_path / "it", family)
    wanted = tokens(published.load_folder(folder), method, **values)
    with elsewhere.device():
        model: Any = published.load_folder(folder, place, torch.float32)
        assert homes(model) == place.split(",")
        assert tokens(model, method, **values) == wanted


def test_experts_behind_a_border_decode_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path / "it", "llada2_moe")  # of two layers the second has them
    wanted = tokens(published.load_folder(folder), "blockwise", block="8")
    with elsewhere.device():
        assert tokens(published.load_folder(folder, f"{THERE},{HERE}", torch.float32), "blockwise", block="8") == wanted


@pytest.mark.parametrize("place", BOTH)
def test_lanes_in_lockstep_keep_their_keys_and_values_where_the_layers_are(tmp_path: Path, place: str) -> None:
    folder = write(tmp_path / "it", "sdar")

    def several(model: Any) -> list[Any]:
        return sample_tokens([job(model, "s2d2", text, block="8") for text in ("a hero", "here here a", "he")])

    wanted = several(published.load_folder(folder))
    with elsewhere.device():
        assert several(published.load_folder(folder, place, torch.float32)) == wanted


@pytest.mark.parametrize("place", BOTH)
def test_fixed_shapes_are_left_out_where_no_graph_can_span(tmp_path: Path, place: str) -> None:
    folder = write(tmp_path / "it", "sdar")
    with elsewhere.device():
        model: Any = published.load_folder(folder, place, torch.float32)
        fixed = Job(METHODS["ar"], model, "a hero", make_config(METHODS["ar"].config, {"length": 8}), shapes="fixed")
        found = [step.token for step in Run(fixed)]
    model = published.load_folder(folder)
    assert found == [step.token for step in Run(job(model, "ar", length=8))]


def test_what_fits_on_the_first_device_is_not_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "free_bytes", lambda _: GIGA)
    with elsewhere.device():
        model: Any = published.load_folder(write(tmp_path / "it", "qwen3"), f"{HERE},{THERE}")
        assert homes(model) == [HERE, HERE]


# ---------------------------------------------------------------- who gets what


@pytest.mark.parametrize(
    ("layers", "rest", "free", "found"),
    [
        ([10] * 4, 5, [100, 100], [0, 0, 0, 0]),
        ([10] * 4, 5, [40, 100], [0, 0, 1, 1]),  # 34, less 5 for what is no layer
        ([10] * 4, 50, [40, 100], [1, 1, 1, 1]),
        ([10] * 6, 0, [20, 20, 20], [0, 1, 2, 2, 2, 2]),  # whoever checks room has refused it before
        ([10] * 5, 0, [None, 100], [0, 0, 0, 1, 1]),
        ([10, 30, 10], 0, [30, 100], [0, 1, 1]),  # a layer never goes back
    ],
)
def test_devices_are_filled_in_turn(layers: list[int], rest: int, free: list[int | None], found: list[int]) -> None:
    assert spread.shares(layers, rest, free) == found


def test_room_is_that_of_all_devices_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", {"cuda:0": 4 * GIGA, "cuda:1": 5 * GIGA, "cpu": 99 * GIGA}.get)
    source = Source("it", Path(), "")
    memory.check_room(source, Needs(4 * GIGA), torch.bfloat16, "cuda:0,cuda:1")
    with pytest.raises(ModelError, match=r"take 10.0 GB in bfloat16 on cuda:0,cuda:1, and 9.0 GB are free"):
        memory.check_room(source, Needs(5 * GIGA), torch.bfloat16, "cuda:0,cuda:1")
    memory.check_cache("it", 8 * GIGA, "cuda:0,cuda:1", 1)
    with pytest.raises(ModelError, match=r"take 10.0 GB on cuda:0,cuda:1, and 9.0 GB are free"):
        memory.check_cache("it", 10 * GIGA, "cuda:0,cuda:1", 1)
    assert memory.usual("cuda:0,cpu") == torch.bfloat16


def test_all_gpus_together_are_named_where_one_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(memory, "free_bytes", {"cuda:0": 6 * GIGA, "cuda:1": 6 * GIGA, "cpu": 9 * GIGA}.get)
    source = Source("it", Path(), "")
    with pytest.raises(ModelError, match=r"8.0 GB .* on cuda:0, .* --device cuda:0,cuda:1 has room for it in bfloat16"):
        memory.check_room(source, Needs(4 * GIGA), torch.bfloat16, "cuda:0")
    with pytest.raises(ModelError) as picture:  # which lies on one
        memory.check_room(source, Needs(4 * GIGA, positions=576), torch.bfloat16, "cuda:0")
    assert "cuda:0,cuda:1" not in str(picture.value)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("cuda:0,gpu", "'gpu' in 'cuda:0,gpu' is no device; use cpu, cuda:N or mps, each once"),
        ("cpu,", "'' in 'cpu,' is no device"),
        ("cpu,auto", "'auto' in 'cpu,auto' is no device"),
        ("cpu,cpu", "'cpu,cpu' names a device twice"),
        ("cuda,cuda:0", "'cuda,cuda:0' names a device twice"),
    ],
)
def test_several_devices_are_named_each_once(asked: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^device: {said}"):
        devices.resolve_several(asked)


def test_a_device_of_several_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelError, match=r"^device: 'cuda:7' is not available here"):
        devices.resolve_several("cpu,cuda:7")


def test_where_one_device_is_wanted_several_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^device: 'cpu,cuda:1' is no device; use auto, cpu,"):
        devices.resolve("cpu,cuda:1")
