"""What runs would take elsewhere: the model of a pass, presets, refusals, and how near it comes to published times."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import draftscope as ds
from benchmarks.hardware import TABLES, error
from draftscope.__main__ import main
from traces import read
from traces.hardware import DEVICES, ENGINES, SIZES, HardwareError, Machine, Work, pass_cost, predict

RUN = Path(__file__).parents[2] / "assets" / "traces" / "scd-picture.json.gz"
H100, EAGER, GRAPHS = DEVICES["H100"], ENGINES["eager"], ENGINES["CUDA graphs"]


def test_a_pass_over_few_tokens_is_bound_by_memory_with_its_kv_cache_and_over_many_by_compute() -> None:
    size, free = SIZES["Llama 3.1 8B"], replace(GRAPHS, overhead=0.0)
    one = pass_cost(H100, size, free, Work(query_tokens=1))
    many = pass_cost(H100, size, free, Work(query_tokens=1024, rows=128))
    assert one.bound == "memory" and many.bound == "compute"
    assert one.seconds == pytest.approx(8e9 * 2 / (3350e9 * 0.8))
    assert many.compute == pytest.approx((2 * 8e9 * 1024 + 4 * 32 * 4096 * 1024 * 4) / (989e12 * 0.6))
    assert pass_cost(H100, size, EAGER, Work(query_tokens=1)).bound == "launches"
    size, free = SIZES["Llama 3.1 8B"], replace(GRAPHS, overhead=0.0)
    one, two = (pass_cost(H100, size, free, Work(query_tokens=n, rows=n, context=1000)).memory for n in (1, 2))
    assert two - one == pytest.approx(1000 * 2 * 32 * 1024 * 2 / (3350e9 * 0.8))


@pytest.mark.parametrize(("table", "most"), list(zip(TABLES, (0.05, 0.055, 0.135, 0.035), strict=True)))
def test_published_speed_ups_come_out(table: object, most: float) -> None:
    assert error(table) < most  # type: ignore[arg-type]


def test_larger_batches_make_passes_longer_and_tokens_cheaper() -> None:
    trace, size = read(RUN), SIZES["Lumina-mGPT 7B"]
    alone, many = (predict(trace, Machine(device=H100, engine=EAGER, target=size, batch=batch)) for batch in (1, 64))
    assert many.seconds > alone.seconds and many.tokens_per_second > alone.tokens_per_second
    assert many.speed_up < alone.speed_up


def test_the_command_prints_what_python_computes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(RUN), "--device", "h100", "--target", "7e9", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["computed"] is True
    assert printed["speed_up"] == pytest.approx(ds.predict(read(RUN), "H100", 7e9).speed_up)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--device", "h10", "--target", "7e9"], "did you mean 'H100'?"),
        (["--device", "T4", "--target", "70e9"], "choose a larger device"),
        (["--device", "T4", "--target", "3"], "size: 3 parameters are not allowed"),
    ],
)
def test_what_cannot_be_computed_is_one_sentence(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(RUN), *options]) == 2
    said = capsys.readouterr().err
    assert problem in said and said.count("\n") == 1


def test_a_trace_needs_query_tokens_and_a_size_for_its_drafter() -> None:
    trace = read(RUN)
    bare = replace(trace, steps=tuple(replace(s, call=replace(s.call, query_tokens=0)) for s in trace.steps))
    with pytest.raises(HardwareError, match="query tokens"):
        predict(bare, Machine(device=H100, engine=EAGER, target=SIZES["Cosmos 4B"]))
    with pytest.raises(HardwareError, match="draft: is missing"):
        ds.predict(read(RUN.with_name("speculative-juice.json.gz")), "H100", 7e9)
