"""Times of runs and drafts on other hardware: the model of a pass, presets, refusals, and published times."""

import json
from collections.abc import Callable
from cProfile import Profile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import draftscope as ds
from benchmarks import calibration_error as calibrated
from benchmarks._toy_runs import jacobi, ordinary
from benchmarks.hardware import PATCH_BATCHES, TABLES, cspd_pairs, error, patch_rows, patches, timed
from benchmarks.hardware import computed as computed_speed_ups
from draftscope import calibration as calibrating
from draftscope.analysis.hardware import (
    DEVICES,
    ENGINES,
    SHIPPED,
    SIZES,
    HardwareError,
    Machine,
    PassWork,
    denoised,
    pass_cost,
    predict,
    read_machine,
)
from draftscope.cli.main import main
from draftscope.engines.models.catalog import load_model
from draftscope.traces import Trace, read
from draftscope.traces.files import ROOT

RUN = ROOT / "assets" / "traces" / "scd-picture.json.gz"
PATCHES = RUN.with_name("cspd-patch.json.gz")
PUBLISHED = [*map(computed_speed_ups, TABLES), cspd_pairs()]  # the last of continuous tokens, in every batch
H100, EAGER, GRAPHS = DEVICES["H100"], ENGINES["eager"], ENGINES["CUDA graphs"]


def test_a_pass_over_few_tokens_is_bound_by_memory_with_its_kv_cache_and_over_many_by_compute() -> None:
    size, free = SIZES["Llama 3.1 8B"], replace(GRAPHS, overhead=0.0)
    one = pass_cost(H100, size, free, PassWork(query_tokens=1))
    many = pass_cost(H100, size, free, PassWork(query_tokens=1024, rows=128))
    assert one.bound == "memory" and many.bound == "compute"
    assert one.seconds == pytest.approx(7.505e9 * 2 / (3350e9 * 0.8), rel=1e-4)
    assert many.compute == pytest.approx((2 * 7.505e9 * 1024 + 4 * 32 * 4096 * 1024 * 4) / (989e12 * 0.6), rel=1e-4)
    assert pass_cost(H100, size, EAGER, PassWork(query_tokens=1)).bound == "launches"
    one, two = (pass_cost(H100, size, free, PassWork(query_tokens=n, rows=n, context=1000)).memory for n in (1, 2))
    assert two - one == pytest.approx(1000 * 2 * 32 * 1024 * 2 / (3350e9 * 0.8))


@pytest.mark.parametrize(("pairs", "max_error"), list(zip(PUBLISHED, (0.05, 0.055, 0.135, 0.035, 0.03), strict=True)))
def test_published_speed_ups_come_out(pairs: Any, max_error: float) -> None:
    assert error(pairs) < max_error


def test_passes_that_were_timed_on_an_h100_come_out_roughly() -> None:
    complete = [name for name, passes in timed().items() if len(passes) == 4]
    assert complete == ["Janus-Pro 7B", "SDAR 1.7B", "SDAR 8B", "Cosmos 4B"]
    for name, passes in timed().items():
        for (engine, _), (measured, computed) in passes.items():
            assert abs(computed / measured - 1) < {"MAR-H": 0.8}.get(name, 0.3 if engine == "eager" else 0.2), name


def test_a_pass_of_a_diffusion_head_counts_its_steps_one_after_the_other() -> None:
    size = SIZES["MAR-H"]
    none, walked = (
        pass_cost(H100, size, EAGER, PassWork(query_tokens=1, head_passes=n, noisy_tokens=n)) for n in (0, 100)
    )
    assert walked.overhead - none.overhead == pytest.approx(100 * 1e-3 * (1 + 12 / 7))
    assert walked.memory - none.memory == pytest.approx(100 * 0.151e9 * 2 / (3350e9 * 0.8))
    assert walked.compute - none.compute == pytest.approx(100 * 2 * 0.151e9 / (989e12 * 0.6))
    assert SIZES["Cosmos 4B"].step_layers == 0


def test_a_trace_says_how_many_tokens_take_the_steps_of_the_head() -> None:
    trace = read(PATCHES)  # 20 steps a token, whole paths verified, 4 drafts at a time
    verified = [step for step in trace.steps if step.call.mode == "verify" and step.signals["window"] == 4]
    assert {len(step.position) for step in verified} == {4, 5}
    assert {denoised(step, trace.config) for step in verified} == {(21, 5 * 20)}  # dropped tokens were denoised, too
    assert denoised(verified[0], {**trace.config, "guidance": 3.0}) == (21, 2 * 5 * 20)
    drafted = next(step for step in trace.steps if step.call.role == "draft")
    assert denoised(drafted, trace.config) == (20, 20)
    assert denoised(drafted, {**trace.config, "drafter": "mixture"}) == (0, 0)
    last = read(RUN.with_name("cspd-patch-last.json.gz"))
    assert denoised(next(s for s in last.steps if s.call.mode == "verify"), last.config) == (20, 5 * 20)
    text = read(RUN.with_name("text-confidence.json.gz"))
    assert {denoised(step, {**text.config, "steps": 8}) for step in text.steps} == {(0, 0)}


def test_a_run_of_continuous_tokens_needs_a_head_and_its_steps_or_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = read(PATCHES)
    with_head = ds.predict(trace, "H100", "MAR-H", draft="MAR-B")
    other = ds.predict(trace, "H100", "Cosmos 4B", draft="MAR-B")
    silent = replace(trace, config={name: value for name, value in trace.config.items() if name != "steps"})
    assert with_head.note == "" and with_head.speed_up < 1
    assert other.note == "The steps of a diffusion head are left out, as Cosmos 4B has none."
    left_out = predict(silent, read_machine("H100", EAGER, "MAR-H", "MAR-B")).note
    assert "does not report the denoising steps" in left_out
    assert (
        main(["hardware", "predict", str(PATCHES), "--device", "H100", "--target", "Cosmos 4B", "--drafter", "MAR-B"])
        == 0
    )
    assert other.note in capsys.readouterr().out


def test_drafts_of_a_mixture_pay_on_a_gpu_and_those_of_the_small_patch_model_do_not() -> None:
    ways = [(EAGER, 1), *((GRAPHS, batch) for batch in PATCH_BATCHES)]
    for drafter, slowest, fastest in (("small", 0.18, 0.92), ("mixture", 1.26, 1.76)):  # what docs/hardware.md says
        speeds = [patches(row, *way) for way in ways for row in patch_rows() if row["drafter"] == drafter]
        assert (round(min(speeds), 2), round(max(speeds), 2)) == (slowest, fastest)


@pytest.mark.parametrize("decode", [ordinary, jacobi])
def test_predicting_a_clip_takes_less_than_forty_calls_per_token(decode: Callable[[int, int], Trace]) -> None:
    trace = decode(20, 96)
    assert trace.summary.tokens == 1920
    with Profile() as profile:
        predict(trace, Machine(device=H100, engine=EAGER, target=SIZES["Cosmos 4B"]))
    assert sum(entry.callcount for entry in profile.getstats()) < 40 * 1920  # about 0.01 s


def test_larger_batches_make_passes_longer_and_tokens_cheaper() -> None:
    trace, size = read(RUN), SIZES["Lumina-mGPT 7B"]
    alone, many = (predict(trace, Machine(device=H100, engine=EAGER, target=size, batch=batch)) for batch in (1, 64))
    assert many.seconds > alone.seconds and many.tokens_per_second > alone.tokens_per_second
    assert many.speed_up < alone.speed_up


def test_the_command_prints_what_python_computes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "predict", str(RUN), "--device", "h100", "--target", "7e9", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["computed"] is True
    assert printed["speed_up"] == pytest.approx(ds.predict(read(RUN), "H100", 7e9).speed_up)


def test_a_trace_needs_query_tokens_and_a_size_for_its_drafter() -> None:
    trace = read(RUN)
    bare = replace(trace, steps=tuple(replace(s, call=replace(s.call, query_tokens=0)) for s in trace.steps))
    with pytest.raises(HardwareError, match="query tokens"):
        predict(bare, Machine(device=H100, engine=EAGER, target=SIZES["Cosmos 4B"]))
    sums = ds.from_vllm("vllm:spec_decode_num_drafts_total 5\nvllm:spec_decode_num_draft_tokens_total 9", "m")
    with pytest.raises(HardwareError, match="trace: has no steps"):
        ds.predict(sums, "H100", 7e9)
    with pytest.raises(HardwareError, match="draft: is missing"):
        ds.predict(read(RUN.with_name("speculative-juice.json.gz")), "H100", 7e9)


def test_the_models_that_ship_are_as_large_as_they_are_said_to_be() -> None:
    for name, size in SHIPPED.items():
        model, rows = load_model(name), {"studio-image": 1115 + 146, "studio-video": 1024 + 33}.get(name[:12], 0)
        network = model.network
        layers = getattr(network, "backbone", None) or network.model
        rows += network.position.num_embeddings + layers.embed_tokens.num_embeddings if "patch" in name else 0
        blocks = getattr(network.head, "res_blocks", ()) if "patch" in name else ()
        head = sum(weight.numel() for weight in network.head.parameters()) if blocks else 0
        assert size.head == pytest.approx(head, rel=2e-3) and size.head_layers == len(blocks)
        assert size.parameters + size.head == pytest.approx(
            model.num_parameters - 256 * rows, rel=2e-3
        )  # without tables
        assert size.layers == len(layers.layers) and size.width == layers.embed_tokens.embedding_dim


def test_terms_come_back_from_the_times_that_they_make_and_none_is_negative() -> None:
    wanted = (2e-4, 3e-4, 8e-4, 1e-10, 1.5e-11, 4e-11, 1e-4)
    did = [(k, k * layers, j, k * byte, k * flop, k * at, k * wide) for k, layers, j, byte, flop, at, wide in (
        (9.0, 6, 0, 0, 1e7, 1e6, 0), (7.0, 6, 7, 0, 3e8, 2e7, 6), (5.0, 5, 5, 3e7, 1e8, 1e6, 5),
        (8.0, 1, 0, 0, 2e6, 1e5, 0), (6.0, 4, 0, 0, 4e7, 2e6, 4), (4.0, 5, 0, 3e7, 2e7, 9e5, 5),
        (3.0, 6, 3, 2e6, 1e8, 9e7, 6), (4.0, 5, 4, 3e7, 4e7, 2e6, 0),
    )]  # fmt: skip
    runs = [(terms, sum(a * b for a, b in zip(terms, wanted, strict=True))) for terms in did]
    assert calibrating.fit_terms(runs) == pytest.approx(wanted, rel=1e-6)
    faster = [(terms, seconds - 4e-4 * terms[0]) for terms, seconds in runs]  # as if a pass cost less than nothing
    assert calibrating.fit_terms(faster)[0] == 0 and min(calibrating.fit_terms(faster)) >= 0
    with pytest.raises(HardwareError, match="the times do not fit the model of a pass"):
        calibrating.fit_terms([(terms, 1e-9 * terms[3] - 1e-12 * terms[4]) for terms, _ in runs])


def test_what_is_timed_judges_drafts_of_another_model_and_attends_to_long_contexts() -> None:
    runs = {(method, model) for method, model, _ in calibrating._RUNS}
    assert {("speculative", "text-target"), ("scd", "studio-video"), ("scd", "studio-image-draft")} <= runs
    short, far = (calibrating._terms(SHIPPED["studio-video"], PassWork(query_tokens=32, context=n)) for n in (0, 900))
    assert far[4] == short[4] and far[5] - short[5] == pytest.approx(32 * 4 * 6 * 256 * 900)
    one, two = (calibrating._terms(SHIPPED["text-target"], PassWork(query_tokens=n)) for n in (1, 2))
    assert short[3] == 0 and one[3] == SHIPPED["text-target"].weight_bytes and (one[6], two[6]) == (0, 5)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_calibrated_device_is_written_and_computes_the_runs_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrating, "_TURNS", 1)
    file = tmp_path / "here.json"
    assert main(["hardware", "calibrate", "-o", str(file)]) == 0
    assert "measured in " in capsys.readouterr().out
    assert main(["hardware", "predict", str(RUN), "--device", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seconds"] == pytest.approx(ds.predict(read(RUN), file, "studio-image").seconds)
    (row,) = calibrated.compare([file, file], [("scd", "studio-image", {"window": 16})])
    assert row["passes"] > 20 and abs(row["off_percent"]) < 90  # however busy the machine is
    (claim,) = calibrated.claims([{**row, "off_percent": -12.0}, {**row, "off_percent": 1.0}])
    assert claim.measured == 6.5 and "12.0 % off at worst" in claim.reason and len(row["off_percent_by_round"]) == 2


def test_a_measured_engine_adds_up_its_terms_and_a_wrong_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = replace(GRAPHS, overhead=1e-3, base=2e-3, overlaps=False, attention=3.0)
    size, work = SHIPPED["text-draft"], PassWork(query_tokens=8, context=200)
    cost = pass_cost(H100, size, engine, work)
    assert cost.seconds == pytest.approx(2e-3 + 4e-3 + cost.memory + cost.compute)
    longer = cost.compute - pass_cost(H100, size, replace(engine, attention=1.0), work).compute
    assert longer == pytest.approx(2 * 8 * 4 * size.layers * size.width * 204 / (989e12 * 0.6))
    wide = replace(engine, several=5e-4)
    assert [pass_cost(H100, size, wide, PassWork(query_tokens=n)).overhead for n in (1, 2)] == pytest.approx(
        [6e-3, 8e-3]
    )
    patch, one = SHIPPED["patch-target"], PassWork(query_tokens=1, context=9, head_passes=2)
    weights, heads, kv = patch.weight_bytes, 2 * patch.head_bytes, 9 * patch.layers * patch.layer_cache_bytes
    for cache, moved in ((heads / 2, weights + heads + kv), (weights, weights + kv), (weights + 1, kv)):
        assert pass_cost(replace(H100, cache=cache), patch, engine, one).memory == pytest.approx(moved / (3350e9 * 0.8))
    for machine in (replace(H100, engine=wide, cache=2e7), replace(H100, engine=engine)):
        file, row = tmp_path / "here.json", asdict(machine)
        if not machine.cache:
            del row["cache"], row["engine"]["several"]  # which older files do not have
        file.write_text(json.dumps(row))
        assert ds.predict(read(RUN), file).seconds == ds.predict(read(RUN), machine).seconds
    assert ds.predict(read(RUN), file, engine="eager") == ds.predict(read(RUN), "H100")
    for text, wrong in ((json.dumps(row | {"peak": 0}), "peak"), ("{}", "name"), ("no", "JSON")):
        file.write_text(text)
        assert main(["hardware", "predict", str(RUN), "--device", str(file)]) == 2
        assert f"has no valid {wrong}; write it with draftscope hardware calibrate" in capsys.readouterr().err
    assert main(["hardware", "predict", str(RUN), "--device", str(tmp_path / "none.json")]) == 2
    output = capsys.readouterr().err
    assert "cannot be read (No such file or directory); choose another file" in output and output.count("\n") == 1
    assert main(["hardware", "calibrate", "-o", "here.txt"]) == 2
