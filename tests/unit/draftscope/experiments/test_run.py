"""Experiments: the order of runs, their tokens, progress, stopping, limits, repeats and other runners."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import draftscope as ds
from benchmarks._toy_runs import MODEL, decode_toy_raster
from draftscope.analysis.results import SweepError
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, config_values, make_config
from draftscope.experiments import (
    Arm,
    Experiment,
    JsonlStore,
    MemoryStore,
    PlannedRun,
    ProblemSet,
    RunOutcome,
    run_experiment,
)
from draftscope.experiments import executors as executors_module

AR = Arm(label="AR", method="ar")
SCD = Arm(label="SCD", method="scd", settings={"window": 32})
PAIR = Experiment(arms=(AR, SCD), model="toy-raster", seeds=range(3))


def orders(experiment: Experiment) -> list[tuple[int, int, int]]:
    return [run.order for run in experiment.runs()]


def test_arms_alternate_and_the_first_changes_with_prompt_and_seed() -> None:
    assert orders(PAIR) == [(0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0), (0, 2, 0), (0, 2, 1)]
    three = replace(PAIR, arms=(AR, SCD, replace(SCD, label="SCD 8", settings={"window": 8})), seeds=(0, 1))
    assert [order[2] for order in orders(three)] == [0, 1, 2, 1, 2, 0]
    prompts = replace(PAIR, model="studio-image", prompts=("a boot", "a bag"), seeds=(7,))
    assert [(run.request.prompt, run.request.seed, run.request.sample, run.arm.label) for run in prompts.runs()] == [
        ("a boot", 7, 0, "AR"), ("a boot", 7, 0, "SCD"), ("a bag", 7, 0, "SCD"), ("a bag", 7, 0, "AR")
    ]  # fmt: skip
    numbered = replace(prompts, prompts=ProblemSet(prompts=("a boot", "a bag"), first=4))
    assert {(run.problem, run.request.sample) for run in numbered.runs()} == {(4, 4), (5, 5)}
    experiment = replace(PAIR, arms=(AR, replace(SCD, seed=9, prompt="its own")), model="studio-image", seeds=(0,))
    assert [(run.request.prompt, run.request.seed) for run in experiment.runs()] == [("", 0), ("its own", 9)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arms": ()}, "arms, seeds: an experiment needs at least one of each"),
        ({"seeds": ()}, "arms, seeds: an experiment needs at least one of each"),
        ({"seeds": (-1,)}, "seed: -1 is not allowed"),
        ({"repeats": -1}, "repeats: -1 is not allowed; use a whole number from 0"),
        ({"model": "unknown"}, "model: there is no 'unknown'"),
        ({"arms": (replace(SCD, settings={"windw": 3}),)}, "windw: no such setting"),
        ({"arms": (replace(SCD, method="sdc"),)}, "method: there is no 'sdc'; did you mean 'scd'"),
        ({"model": "studio-image", "prompts": ("zebra crossing",)}, r"prompt: .* \(AR, prompt 'zebra crossing'\)"),
        ({"model": "text-target"}, r"prompt: is empty; ask a question. \(AR\)"),
    ],
)
def test_an_invalid_experiment_is_refused_before_it_starts(changed: dict[str, Any], message: str) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match=message):
        next(run_experiment(replace(PAIR, **changed), store=store))
    assert store.outcomes == ()


@pytest.mark.parametrize("executor", ["serial", "batched"])
def test_runs_have_the_tokens_of_runs_of_their_own(executor: Any) -> None:
    store = MemoryStore()
    first, *others = run_experiment(PAIR, store=store, executor=executor)
    assert (first.num_done, first.num_runs, first.fraction) == (0, 6, 0.0)
    assert [progress.num_done for progress in others if progress.finished] == [1, 2, 3, 4, 5, 6]
    fractions = [progress.fraction for progress in others]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0
    assert [outcome.run.order for outcome in store.outcomes] == sorted(orders(PAIR))
    for outcome, trace in zip(store.outcomes, store.traces, strict=True):
        alone = decode_toy_raster(outcome.run.arm.method, outcome.run.request.seed, **outcome.run.arm.settings)
        assert trace.output.tokens == alone.output.tokens and outcome.row.forwards == alone.summary.forwards
        assert outcome.row.config == config_values(make_config(METHODS[trace.method].config, trace.config))
    assert {row.batch for row in store.rows} == {1 if executor == "serial" else 3}
    assert list(run_experiment(PAIR, store=store, executor=executor))[-1].num_done == 6, "nothing is run again"


def test_a_file_is_resumed_where_it_was_stopped(tmp_path: Path) -> None:
    path, calls = tmp_path / "rows.jsonl", iter(range(10**6))
    *_, last = run_experiment(PAIR, store=JsonlStore(path), stop=lambda: next(calls) > 300)
    assert last.stop_reason == "Stopped." and last.finished is None
    done = len(JsonlStore(path).rows)
    assert 0 < done == last.num_done < 6
    first, *_, last = run_experiment(PAIR, store=JsonlStore(path))
    assert (first.num_done, last.num_done, last.stop_reason) == (done, 6, "")
    assert {(row.label, row.seed) for row in JsonlStore(path).rows.values()} == {
        (label, seed) for label in ("AR", "SCD") for seed in range(3)
    }


def test_time_that_runs_out_ends_an_experiment_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors_module, "estimate_seconds", lambda job: 0.01)
    store = MemoryStore()
    running = run_experiment(PAIR, store=store, max_seconds=1000.0)
    next(progress for progress in running if progress.num_done == 2)
    late = time.monotonic() + 2000.0
    monkeypatch.setattr(time, "monotonic", lambda: late)
    *_, last = running
    assert last.stop_reason == "Stopped after 1000 s, the time limit." and last.num_done == len(store.outcomes) == 2


def test_what_would_take_too_long_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(experiment: Experiment, seconds: float) -> str:
        monkeypatch.setattr(executors_module, "estimate_seconds", lambda job: seconds)
        with pytest.raises(ConfigError) as caught:
            next(run_experiment(experiment, store=MemoryStore(), max_seconds=600.0))
        return str(caught.value)

    one = replace(PAIR, arms=(SCD,), seeds=range(32))
    assert refusal(one, 40.0) == ("seeds: 32 would take about 21 min here, and the limit is 10 min; use at most 15.")
    assert refusal(one, 1000.0).endswith("10 min; choose a shorter text, a smaller model or fewer settings.")
    pictures = replace(one, model="studio-image", prompts=("an owl", "a cat"), seeds=(0,))
    assert refusal(pictures, 400.0).startswith("prompts: 2 would take about 13 min here")
    assert refusal(replace(one, seeds=(0,)), 601.0).startswith("runs: 1 would take about 10 min here")


class Echo:
    """A runner that answers with a fixed text."""

    name = "echo"

    def __init__(self) -> None:
        self.log: list[str] = []

    def record(self, job: Job) -> tuple[Sequence[int], Mapping[str, Any]]:
        self.log.append("record")
        counts = {"forwards": 2, "forwards_by_mode": {"verify": 2}, "row_forwards": 2, "query_tokens": 2}
        return [1, 2], counts

    def decode(self, job: Job) -> object:
        self.log.append("decode")
        return time.sleep(0.001)


def test_a_runner_takes_the_place_of_a_method_and_repeats_are_timed() -> None:
    runner, store = Echo(), MemoryStore()
    echo = Arm(label="echo", method="ar", runner=runner)
    *_, last = run_experiment(replace(PAIR, arms=(AR, echo), repeats=3), store=store)
    assert last.num_done == 6 and runner.log == ["record", "decode", "decode", "decode"] * 3
    rows = [row for row in store.rows if row.label == "echo"]
    assert {(row.method, row.tokens, row.forwards) for row in rows} == {("echo", 2, 2)}
    assert all(row.seconds >= 0.001 for row in rows) and len({row.key for row in store.rows}) == 6
    assert [outcome.trace is None for outcome in store.outcomes] == [False, True] * 3


def test_problems_are_scored_and_another_executor_can_be_given() -> None:
    class Backwards:
        """The interface of a cluster: it takes runs, and yields outcomes in any order."""

        def estimate(self, runs: Sequence[PlannedRun]) -> None:
            return None

        def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
            for run in reversed(runs):
                yield from executors_module.decode_chunk([run])

    problems = ProblemSet(
        prompts=("How many books?", "How many pens?"),
        answers=("x", "y"),
        is_correct=lambda text, answer: answer == "y",
        extract_answer=lambda text: text.upper(),
    )
    arm = Arm(label="B", method="blockwise", settings={"block": "4", "length": 8})
    store = MemoryStore()
    list(
        run_experiment(
            Experiment(arms=(arm,), prompts=problems, model="text-target"), store=store, executor=Backwards()
        )
    )
    assert [(row.problem, row.correct) for row in store.rows] == [(0, False), (1, True)]
    assert all(row.answer == row.answer.upper() for row in store.rows)


def test_an_arm_of_a_run_has_its_chat_options() -> None:
    request = RunRequest("ar", MODEL, "", make_config(METHODS["ar"].config, {}), 0, chat=True, system="Be brief.")
    arms = (Arm.from_request("first", request), Arm.from_request("plain", replace(request, chat=False, system=None)))
    first, second = Experiment(arms=arms, chat={"chat": True}).runs()
    assert (first.request.chat, first.request.system) == (True, "Be brief.")
    assert (second.request.chat, second.request.system) == (False, None) and first.key != second.key


def test_experiments_are_part_of_the_python_interface() -> None:
    experiment = ds.Experiment(arms=(ds.Arm(label="AR", method="ar"),), model="toy-raster")
    store = ds.MemoryStore()
    assert [progress.num_done for progress in ds.run_experiment(experiment, store=store)][-1] == 1
    assert ds.bench is ds.bench and callable(ds.bench)


def test_a_row_of_other_weights_is_refused_and_earlier_rows_remain() -> None:
    class OtherWeights(executors_module.Serial):
        def execute(self, runs: Any, stop: Any) -> Any:
            for number, outcome in enumerate(super().execute(runs, stop)):
                if outcome is not None and number > 300:  # a pass each: the second run
                    outcome = replace(outcome, row=replace(outcome.row, weights={MODEL: "0" * 64}))
                yield outcome

    store = MemoryStore()
    experiment = Experiment(arms=(Arm(label="ordinary", method="ar"),), model=MODEL, seeds=(0, 1))
    with pytest.raises(SweepError, match=f"{MODEL}: a worker has other weights than this machine"):
        list(run_experiment(experiment, store=store, executor=OtherWeights()))
    assert len(store.rows) == 1
