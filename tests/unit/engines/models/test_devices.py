"""The device that is named, and the memory that a model takes there."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from support import fake_device as elsewhere
from torch.utils._pytree import tree_leaves

from benchmarks import continuous
from draftscope.cli.main import main
from draftscope.engines.methods import METHODS
from draftscope.engines.models import catalog, devices, memory
from draftscope.engines.models.catalog import MODELS, default_model, load_model
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import MemoryRequirement
from draftscope.engines.runtime.driver import Job, Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError
from draftscope.traces import read

PASSES = 6


@pytest.fixture
def device_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """Every device except the CPU is the fake one; yields the requested names."""
    names: list[str | None] = []

    def resolved(device: str | None = None) -> str:
        names.append(device)
        return "cpu" if device == "cpu" else elsewhere.NAME

    monkeypatch.setattr(catalog, "resolve_devices", resolved)
    yield names


def start(method: str, model_id: str, device: str | None) -> Run:
    """A run whose models are loaded."""
    chosen = METHODS[method]
    return Run(Job(chosen, load_model(model_id, device), MODELS[model_id].default_prompt, chosen.config()))


MODEL_OF = {name: default_model(method.family, shifted=method.shifted) for name, method in METHODS.items()}
MODEL_OF |= {
    name: "text-target" for name, method in METHODS.items() if method.family == "diffusion-lm" and not method.shifted
}


ALIKE = ("continuous", "cspd-block", "cspd-release", "gsd", "self-spec")
"""Methods that decode with the session of another one: `cspd`, `scd` or `s2d2`."""


@pytest.mark.slow
@pytest.mark.usefixtures("device_names")
def test_a_benchmark_judges_pictures_on_the_host() -> None:
    with elsewhere.device():
        jobs = [RunRequest("continuous", "patch-draft", prompt).job() for prompt in ("a cat at night", "an owl")]
        assert "prompt_agreement_percent" in continuous.quality(jobs, torch.zeros(2, 144, 8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"),
    [
        pytest.param(*case, marks=[pytest.mark.nightly] if case[0] in ALIKE else [])
        for case in [("scd", "text-draft"), *MODEL_OF.items()]
    ],
)
@pytest.mark.usefixtures("device_names")
def test_a_method_keeps_to_its_models_device(method: str, model: str) -> None:
    """No operation mixes devices, each pass reads once, and the tokens are those of the CPU."""
    with elsewhere.device() as device:
        run = start(method, model, None)
        device.reads.clear()
        passes = list(islice(run.passes(), PASSES))
        assert device.reads == {"_to_copy": len(passes)}
        steps = run._sequence.steps
    on_cpu = list(islice(start(method, model, "cpu"), PASSES))
    assert [step.position for step in steps] == [step.position for step in on_cpu]
    numbers, expected = ([value for step in one for value in tree_leaves(step.token)] for one in (steps, on_cpu))
    assert numbers == pytest.approx(expected, abs=1e-4)  # vectors differ by rounding


def test_the_device_elsewhere_refuses_and_counts() -> None:
    with elsewhere.device() as device:
        x = torch.tensor([1.0, 2.0], device=elsewhere.NAME)
        with pytest.raises(RuntimeError, match="two devices"):
            x + torch.ones(2)
        with pytest.raises(RuntimeError, match="two devices"):
            torch.ones(2)[torch.tensor([0], device=elsewhere.NAME)]
        assert x[torch.tensor([1])].tolist() == [2.0] and (x + torch.tensor(1.0)).sum().item() == 5.0
        assert device.reads == {"_to_copy": 1, "_local_scalar_dense": 1}


@pytest.mark.parametrize(
    ("named", "variable", "gpu", "device"),
    [
        (None, None, False, "cpu"),
        (None, "auto", True, "cuda"),
        (None, "cpu", True, "cpu"),
        (None, "", True, "cuda"),
        ("auto", "cpu", True, "cuda"),
        ("cpu", "cuda", True, "cpu"),
    ],
)
def test_a_named_device_wins_over_the_variable_and_that_over_what_there_is(
    named: str | None, variable: str | None, gpu: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(devices.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(devices.VARIABLE, variable)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert devices.resolve(named) == device


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "CUDA", "cpu; rm", "meta", "cuda:0\n", "cpu,cuda:1"])
def test_what_is_no_device_is_answered_with_what_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^device: .* is not a device; use auto, cpu, cuda, cuda:N or mps\.$"):
        devices.resolve(name)
    monkeypatch.setenv(devices.VARIABLE, name)
    with pytest.raises(ConfigError, match=r"^DRAFTSCOPE_DEVICE: "):
        devices.resolve()


def test_a_device_without_float64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(*_: int, device: str, dtype: torch.dtype = torch.float32) -> None:
        if dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(ModelError, match=r"^device: 'mps' has no float64, in which drafts are accepted; use auto or"):
        devices.resolve("mps")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cuda:0,gpu", "'gpu' in 'cuda:0,gpu' is not a device; use cpu, cuda:N or mps, each once"),
        ("cpu,auto", "'auto' in 'cpu,auto' is not a device"),
        ("cuda,cuda:0", "'cuda,cuda:0' names a device twice"),
        ("cpu,cuda:7", "'cuda:7' is not available here"),
        ("disk", "'disk' is not a device"),
        ("disk,cpu", "'disk' in 'disk,cpu' is not a device; use cpu, cuda:N or mps, each once, and disk at the end"),
    ],
)
def test_several_devices_are_named_each_once(name: str, problem: str) -> None:
    with pytest.raises((ConfigError, ModelError), match=f"^device: {problem}"):
        devices.resolve_devices(name)


@pytest.mark.slow
def test_the_command_line_runs_and_drafts_on_one_device(device_names: list[str | None], tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    command = ["run", "speculative", "--model", "toy-raster", "--prompt", "", "-o", str(target), "--device", "cuda:1"]
    with elsewhere.device():
        assert main(command) == 0
    assert device_names[0] == "cuda:1" and set(device_names[1:]) == {elsewhere.NAME}, (
        "the drafter goes where its target is"
    )
    assert read(target).environment.device.startswith(elsewhere.NAME)


GIGA = 10**9


def test_other_devices_and_the_way_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(memory, "free_bytes", {"cuda:0": 6 * GIGA, "cuda:1": 6 * GIGA, "cpu": 2 * GIGA}.get)
    source, half = CheckpointDir("it", Path(), ""), torch.bfloat16

    def refused(needs: MemoryRequirement, dtype: torch.dtype, device: str) -> str:
        with pytest.raises(ModelError) as caught:
            memory.check_memory(source, needs, dtype, device)
        return str(caught.value)

    assert "--device cuda:0 has room for it in bfloat16" in refused(MemoryRequirement(GIGA), torch.float32, "cpu")
    assert "--device cuda:0,cuda:1 has room for it" in refused(MemoryRequirement(4 * GIGA), half, "cuda:0")
    assert "cuda:0,cuda:1" not in refused(MemoryRequirement(4 * GIGA, positions=576), half, "cuda:0"), (
        "a picture is on one"
    )
    assert "4.0 GB in bfloat16 on cpu on their way to cuda:0, and 2.0" in refused(
        MemoryRequirement(2 * GIGA), half, "cuda:0"
    )
    memory.check_memory(
        source, MemoryRequirement(2 * GIGA, stored=half), half, "cuda:0"
    )  # which stay in their files until then
    with pytest.raises(ModelError, match=r"the KV cache of 1 sequence takes 13.0 GB on cuda:0,cuda:1, and 12.0 GB"):
        memory.check_cache("it", 13 * GIGA, "cuda:0,cuda:1", 1)
