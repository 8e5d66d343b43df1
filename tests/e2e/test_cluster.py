"""Experiments on a Dask cluster: a scheduler and two workers in processes of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import chat_folder
from support.waiting import SECONDS, wait_until

from draftscope.cli.main import main
from draftscope.experiments import executors
from draftscope.traces.files import ROOT

pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install -r requirements-dev.txt")
pytestmark = pytest.mark.slow

GRID = {
    "model": "toy-raster",
    "seeds": list(range(8)),
    "configurations": [
        {"label": "ordinary", "method": "ar"},
        {"label": "window", "method": "scd", "config": {"window": [4, 8]}},
    ],
}


@contextmanager
def process(command: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, with what it starts; all of it ends with the context."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **variables}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs the tests in the background
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

    def __init__(self, folder: Path, stack: ExitStack, host: str = "127.0.0.1") -> None:
        self._stack, file = stack, folder / "scheduler.json"
        options = ["--host", host, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
        self.scheduler = stack.enter_context(process(command))
        wait_until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self, *, inside: Sequence[str] = (), threads: int = 1, **variables: str) -> None:
        """Start a worker, by the command `inside` if there is one, with environment variables."""
        from distributed import Client

        command = [*inside, sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"]
        started = self._stack.enter_context(process([*command, "--nthreads", str(threads)], **variables))
        self.workers.append(started)
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=SECONDS)

    def warm(self) -> dict[str, bool]:
        """Whether each worker has decoded, by its address."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            decoded: dict[str, bool] = client.run(lambda: bool(executors._WARM))
        return decoded


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def cluster(tmp_path: Path, stack: ExitStack) -> Cluster:
    return Cluster(tmp_path, stack)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(GRID))
    return path


def keys(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [row["key"] for row in map(json.loads, lines) if "key" in row]


def arguments(grid: Path, output: Path, cluster: Cluster) -> list[str]:
    return ["experiment", "run", str(grid), "-o", str(output), "--cluster", cluster.address]


def run(grid: Path, output: Path, cluster: Cluster) -> list[str]:
    return [sys.executable, "-m", "draftscope", *arguments(grid, output, cluster)]


def test_a_killed_worker_client_or_scheduler_loses_and_doubles_no_row(
    cluster: Cluster, grid: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    cluster.add_worker()
    cluster.add_worker()
    with process(run(grid, rows, cluster)) as running:
        wait_until(lambda: len(keys(rows)) >= 3)
        running.send_signal(signal.SIGINT)
        assert running.wait(SECONDS) == 130
    stopped = len(keys(rows))
    assert 3 <= stopped < 24

    with process(run(grid, rows, cluster)) as running:
        wait_until(lambda: len(keys(rows)) >= stopped + 3)
        kill(cluster.workers.pop())
        assert running.wait(SECONDS) == 0
    assert len(keys(rows)) == len(set(keys(rows))) == 24
    assert list(cluster.warm().values()) == [True]

    part = tmp_path / "part.jsonl"
    cluster.add_worker()
    grid.write_text(json.dumps({**GRID, "seeds": list(range(16))}))
    with process(run(grid, part, cluster)) as running:
        wait_until(lambda: len(keys(part)) >= 3)
        kill(cluster.scheduler)
        assert running.wait(SECONDS) == 2
        assert running.stderr is not None
        *progress, message = running.stderr.read().decode().splitlines()
    assert message == (
        f"draftscope experiment run: cluster: the scheduler at {cluster.address} is gone; start it and its "
        "workers, then run the same again, which repeats no run whose row is in a file"
    )
    assert not any("Traceback" in line for line in progress)
    assert 3 <= len(keys(part)) < 48
    assert main(["experiment", "run", str(grid), "-o", str(part), "--jobs", "1"]) == 0  # resumed on this machine
    assert len(keys(part)) == len(set(keys(part))) == 48 and set(keys(rows)) < set(keys(part))


def test_a_worker_on_another_address_decodes(
    tmp_path: Path, stack: ExitStack, grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker is in a network namespace of its own; alone, so that no row can come from elsewhere."""
    host, inside = second_network(stack)
    cluster = Cluster(tmp_path, stack, host)
    cluster.add_worker(inside=inside)
    rows = tmp_path / "rows.jsonl"
    executors._WARM.clear()
    assert main(arguments(grid, rows, cluster)) == 0
    assert len(keys(rows)) == len(set(keys(rows))) == 24
    ((address, decoded),) = cluster.warm().items()
    assert decoded and host not in address and not executors._WARM, "the client decoded nothing itself"


def second_network(stack: ExitStack) -> tuple[str, list[str]]:
    """Make a network namespace; return the address of this one, and the command that runs another one there."""
    name, host, other = f"draftscope{os.getpid()}", "10.231.77.1", "10.231.77.2"
    here, peer = f"ds{os.getpid()}a", f"ds{os.getpid()}b"
    if not (command := shutil.which("ip")):
        pytest.skip("there is no command ip")
    inside = [command, "netns", "exec", name]
    commands = [
        [command, "netns", "add", name],
        [command, "link", "add", here, "type", "veth", "peer", "name", peer],
        [command, "link", "set", peer, "netns", name],
        [command, "addr", "add", f"{host}/30", "dev", here],
        [command, "link", "set", here, "up"],
        [*inside, command, "addr", "add", f"{other}/30", "dev", peer],
        [*inside, command, "link", "set", peer, "up"],
        [*inside, command, "link", "set", "lo", "up"],
    ]
    stack.callback(subprocess.run, [command, "netns", "del", name], capture_output=True, check=False)
    for each in commands:
        finished = subprocess.run(each, capture_output=True, text=True, check=False)
        if finished.returncode:
            pytest.skip(f"network namespaces cannot be made here: {finished.stderr.strip()}")
    return host, inside


def test_a_cluster_that_cannot_run_it_is_told_before_anything_runs(
    cluster: Cluster,
    grid: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, command = tmp_path / "rows.jsonl", arguments(grid, tmp_path / "rows.jsonl", cluster)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        assert main([*command[:-1], address]) == 2
        assert f"cluster: no scheduler answers at '{address}'" in capsys.readouterr().err
    assert main([*command, "--jobs", "2"]) == 2
    assert "--jobs: is for this machine; leave it out with a cluster." in capsys.readouterr().err
    assert main(command) == 2
    assert "has no workers; start workers with: dask worker tcp://" in capsys.readouterr().err
    cluster.add_worker(threads=2)
    assert main(command) == 2
    assert "has 2 threads; start workers with: dask worker" in capsys.readouterr().err
    kill(cluster.workers.pop())

    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))  # the model is here, and not with the worker
    chat_folder.write(tmp_path / "models" / "smollm2")
    grid.write_text(json.dumps({**GRID, "model": "smollm2", "prompts": ["a"], "length": 8}))
    cluster.add_worker(DRAFTSCOPE_CACHE=str(tmp_path / "empty"))
    assert main(command) == 2
    message = capsys.readouterr().err
    assert "cluster: the worker tcp://127.0.0.1:" in message and "cannot run this: smollm2: is not fetched" in message
    assert "with: draftscope model download smollm2" in message and keys(rows) == []


@pytest.mark.nightly
def test_the_scripts_of_the_page_run_a_grid_on_jobs_and_pods(
    cluster: Cluster, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of this machine is in the role of jobs and pods; the scripts are those of docs/benchmarks.md."""
    requests: list[dict[str, Any]] = []

    class Started:
        scheduler_address = cluster.address

        def __init__(self, **options: Any) -> None:
            requests.append(options)

        def __enter__(self) -> "Started":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def adapt(self, **options: int) -> None:
            requests.append(options)

        def wait_for_workers(self, count: int) -> None:
            if not cluster.workers:
                cluster.add_worker()

    def make_cluster_spec(name: str, **options: Any) -> dict[str, Any]:
        requests.append(options)
        return {"spec": {"scheduler": {"spec": {"containers": [{"args": ["dask-scheduler", "--host", "0.0.0.0"]}]}}}}

    for module, names in {
        "dask_jobqueue": {"SLURMCluster": Started},
        "dask_kubernetes": {},
        "dask_kubernetes.operator": {"KubeCluster": Started, "make_cluster_spec": make_cluster_spec},
    }.items():
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        vars(sys.modules[module]).update(names)
    command = tmp_path / "draftscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m draftscope "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        with pytest.raises(SystemExit) as ended:
            exec(compile(code, "docs/benchmarks.md", "exec"), {})
        assert ended.value.code == 0
        assert len(keys(tmp_path / "rows.jsonl")) == 24
        (tmp_path / "rows.jsonl").unlink()
    job, jobs, pods, resource = requests
    assert job["cores"] == job["processes"] and jobs["minimum_jobs"] == jobs["maximum_jobs"]
    assert pods["worker_command"] == "dask worker --nthreads 1"
    (scheduler,) = resource["custom_cluster_spec"]["spec"]["scheduler"]["spec"]["containers"]
    assert scheduler["args"] == ["dask", "scheduler", "--host", "0.0.0.0"]
