"""A cluster in this process: traces, `bench`, and loss of workers. Processes are in tests/e2e/test_cluster.py."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import chat_folder
from support.waiting import wait_until

import draftscope as ds
from draftscope.analysis.results import SweepError
from draftscope.demo.jobs.experiment import run_here
from draftscope.engines.settings import ConfigError
from draftscope.experiments import Arm, Cluster, Experiment, MemoryStore, Serial, cluster, run_experiment

distributed = pytest.importorskip("distributed", reason="pip install -r requirements-dev.txt")
pytestmark = pytest.mark.slow

PAIR = Experiment(
    arms=(Arm(label="AR", method="ar"), Arm(label="SCD", method="scd", settings={"window": 32})),
    model="toy-raster",
    seeds=range(3),
)


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as local:
        yield local


def test_the_page_gets_the_traces_of_runs_on_this_machine_in_the_same_order(
    workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, remote = MemoryStore(), MemoryStore()
    *_, last = run_here(PAIR, here, lambda: False)
    monkeypatch.setenv("DRAFTSCOPE_CLUSTER", workers.scheduler_address)
    monkeypatch.setattr(Serial, "execute", None)
    results = cluster.results
    monkeypatch.setattr(cluster, "results", lambda *task: reversed([*filter(None, results(*task))]))
    orders = [each.finished.run.order for each in run_here(PAIR, remote, lambda: False) if each.finished]
    assert orders == [run.order for run in PAIR.runs()]
    for one, other in zip(here.traces, remote.traces, strict=True):
        assert (one.output.tokens, one.summary.forwards) == (other.output.tokens, other.summary.forwards)
    assert last.num_done == len(remote.traces) == 6


def test_bench_measures_each_prompt_in_a_worker(workers: Any, tmp_path: Path) -> None:
    folder = chat_folder.write(tmp_path / "tiny")
    prompts = [{"turns": ["a", "b"], "category": "talk"}, "c"]
    about: dict[str, Any] = {"gammas": (2,), "length": 8}
    here = ds.bench(folder, prompts, **about)
    remote = ds.bench(folder, prompts, cluster=workers.scheduler_address, **about)
    assert [replace(row, seconds=0) for row in remote.rows] == [replace(row, seconds=0) for row in here.rows]
    assert (remote.same, remote.left_out, remote.categories) == (here.same, here.left_out, here.categories)
    assert set(remote.categories) == {0, 1} and remote.about["cluster"] == workers.scheduler_address
    with pytest.raises(ConfigError, match="cluster: workers load models themselves; give target and draft by name"):
        ds.bench(chat_folder.network(), ["a"], tokenizer=chat_folder.byte_tokenizer(), cluster="tcp://127.0.0.1:1")
    with pytest.raises(SweepError, match=r"cluster: the worker inproc://.* cannot run this: .*prompt"):
        ds.bench(folder, ["a" * 5000], cluster=workers.scheduler_address, **about)


def test_a_worker_with_other_weights_and_a_cluster_without_workers_are_told(
    workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = run_experiment(PAIR, store=(store := MemoryStore()), executor=Cluster(workers.scheduler_address))
    answers = iter([{"toy-raster": "0" * 64}])
    monkeypatch.setattr(cluster, "load_weights", lambda requests: next(answers, {"toy-raster": "1" * 64}))
    with pytest.raises(SweepError, match="toy-raster: a worker has other weights than this machine"):
        list(running)
    assert store.outcomes == ()
    with cluster.connected(workers.scheduler_address) as client:
        monkeypatch.setattr(cluster, "ABSENCE_SECONDS", -1)
        monkeypatch.setattr(type(client), "nthreads", lambda self: {})
        with pytest.raises(SweepError, match="cluster: no worker is left; start some, then run the same again"):
            list(cluster.results(client, sorted, [([1],)], lambda: False))


@pytest.mark.parametrize("left", [0, 1])
def test_a_result_that_its_worker_took_along_is_computed_again(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is lost after it finished and before the result was fetched; then there are `left` others."""
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as local,
        cluster.connected(local.scheduler_address) as client,
    ):
        running = cluster.results(client, sorted, [([2, 1],)], lambda: False)
        assert next(running) is None
        wait_until(lambda: any(client.has_what().values()))
        local.scale(0)
        wait_until(lambda: not client.nthreads())
        if left:
            local.scale(left)
            assert [*filter(None, running)] == [(0, [1, 2])]
        else:
            monkeypatch.setattr(cluster, "ABSENCE_SECONDS", 0.1)
            monkeypatch.setattr(cluster, "LOOK_SECONDS", 0)
            with pytest.raises(SweepError, match="cluster: no worker is left; start some"):
                list(running)
