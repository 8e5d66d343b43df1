"""Experiments on a Dask cluster: a scheduler and two workers in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from draftscope.cli.main import main
from draftscope.traces.files import ROOT

pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install -r requirements-dev.txt")
pytestmark = pytest.mark.slow

SECONDS = 120
SCHEDULER = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
GRID = {
    "model": "toy-raster",
    "seeds": list(range(8)),
    "configurations": [
        {"label": "ordinary", "method": "ar"},
        {"label": "window", "method": "scd", "config": {"window": [4, 8]}},
    ],
}


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "a state was not reached in time"
        time.sleep(0.1)


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, with what it starts; all of it ends with the context."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, start_new_session=True
    ) as started:
        try:
            yield started
        finally:
            kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack, file = stack, folder / "scheduler.json"
        command = [*SCHEDULER, "--no-dashboard", "--scheduler-file", str(file)]
        self.scheduler = stack.enter_context(process(*command))
        wait_until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self, threads: int = 1) -> None:
        from distributed import Client

        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"]
        self.workers.append(self._stack.enter_context(process(*command, "--nthreads", str(threads))))
        with Client(self.address) as client:
            client.wait_for_workers(len(self.workers), timeout=SECONDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(GRID))
    return path


def keys(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [row["key"] for row in map(json.loads, lines) if "key" in row]


def run(grid: Path, output: Path, cluster: Cluster) -> list[str]:
    command = ["experiment", "run", str(grid), "-o", str(output), "--cluster", cluster.address]
    return [sys.executable, "-m", "draftscope", *command]


def test_a_killed_worker_or_scheduler_loses_and_doubles_no_row(
    cluster: Cluster, grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_worker()
    cluster.add_worker()
    rows = tmp_path / "rows.jsonl"
    with process(*run(grid, rows, cluster)) as running:
        wait_until(lambda: len(keys(rows)) >= 3)
        kill(cluster.workers.pop())
        assert running.wait(SECONDS) == 0
    assert len(keys(rows)) == len(set(keys(rows))) == 24

    part = tmp_path / "part.jsonl"
    grid.write_text(json.dumps({**GRID, "seeds": list(range(40))}))
    with process(*run(grid, part, cluster)) as running:
        wait_until(lambda: keys(part))
        kill(cluster.scheduler)
        ended = running.wait(SECONDS)  # it decodes the rest itself, or reports the loss and stops
        assert running.stderr is not None and (ended == 0 or b"cluster: the scheduler at" in running.stderr.read())
    assert main(["experiment", "run", str(grid), "-o", str(part), "--jobs", "2"]) == 0  # resumed on this machine
    assert len(keys(part)) == len(set(keys(part))) == 120 and set(keys(rows)) < set(keys(part))


def test_a_cluster_that_cannot_run_it_is_told_before_anything_runs(
    cluster: Cluster, grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    arguments = ["experiment", "run", str(grid), "-o", str(rows), "--cluster"]
    assert main([*arguments, cluster.address]) == 2
    assert "has no workers; start workers with: dask worker tcp://" in capsys.readouterr().err
    cluster.add_worker(threads=2)
    assert main([*arguments, cluster.address]) == 2
    assert "has 2 threads; start workers with: dask worker" in capsys.readouterr().err
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        assert main([*arguments, address]) == 2
        assert f"cluster: no scheduler answers at '{address}'" in capsys.readouterr().err
    assert keys(rows) == []
