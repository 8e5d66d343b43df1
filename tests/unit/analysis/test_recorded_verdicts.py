"""Recorded runs on other hardware: their speed is that of `predict`, with a range and the batch at which it turns."""

from dataclasses import replace

import pytest

from draftscope.analysis.hardware import predict, read_machine
from draftscope.analysis.recorded_verdicts import PAPERS, RecordedRun, _speed, recorded_run, recorded_verdict
from draftscope.analysis.verdicts import WORTH
from draftscope.traces import read
from draftscope.traces.files import ROOT


def run_of(name: str) -> RecordedRun:
    run = recorded_run(name, name, read(ROOT / "assets" / "traces" / f"{name}.json.gz"))
    assert run is not None
    return run


@pytest.mark.parametrize("name", PAPERS)
def test_a_verdict_has_the_speed_that_predict_computes_and_larger_batches_nearly(name: str) -> None:
    run, machine = run_of(name), read_machine("H100", "CUDA graphs", 7e9)
    networks = {"target": run.target, "draft": run.draft}
    found = recorded_verdict(run, machine)
    assert found is not None and found.at.speed == predict(run.trace, replace(machine, **networks)).speed_up
    assert found.at.low <= found.at.speed <= found.at.high
    for batch in (8, 64):
        many = replace(machine, batch=batch, **networks)
        speed = _speed(run, many)
        assert speed is not None and speed.speed == pytest.approx(predict(run.trace, many).speed_up, rel=0.02)
    if found.turns is not None:
        speeds = [_speed(run, replace(machine, batch=found.turns - back, **networks)) for back in (1, 0)]
        assert all(speeds) and len({speed.speed >= WORTH for speed in speeds if speed}) == 2


def test_what_does_not_fit_has_no_verdict_and_other_recordings_no_networks() -> None:
    run = run_of("scd-picture")
    assert recorded_verdict(run, read_machine("T4", "eager", 1e9, batch=64)) is None
    two = recorded_verdict(run, read_machine("T4", "eager", 1e9, batch=8, gpus=2))
    assert two is not None and two.turns == 19
    assert recorded_run("speculative-juice", "x", run.trace) is None
