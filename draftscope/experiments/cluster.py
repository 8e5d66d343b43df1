"""Runs on the workers of a Dask scheduler, on other machines or on this one."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch

from draftscope.analysis.results import SweepError
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, check_count
from draftscope.experiments.definition import PlannedRun
from draftscope.experiments.executors import (
    Executor,
    RunOutcome,
    check_weights,
    chunked,
    decode_chunk,
    weights_of,
)

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")

VARIABLE: Final = "DRAFTSCOPE_CLUSTER"
"""Environment variable with the address of a scheduler, for commands and for the page."""
CONNECT_SECONDS: Final = 10
"""Time in which a scheduler has to answer."""
ABSENCE_SECONDS: Final = 60
"""Time without any worker after which a run ends; a worker that died is usually started again sooner."""
LOOK_SECONDS: Final = 5
"""Interval at which workers are counted."""
POLL_SECONDS: Final = 0.05
"""Interval at which finished tasks are collected."""
_AGAIN: Final = "then run the same again, which repeats no run whose row is in a file"


@dataclass(frozen=True, slots=True)
class Cluster(Executor):
    """The workers of a Dask scheduler. Models must be named by id, and each worker has one thread."""

    address: str
    """Address of the scheduler, such as "tcp://HOST:8786"."""
    batch_size: int = 1
    """Problems that a worker decodes in one batch; times are then shares of the batch."""
    keep_traces: bool = False
    """Whether outcomes have traces, and come in the order of the runs, as the page shows them."""

    def __post_init__(self) -> None:
        check_count("batch", self.batch_size)

    @property
    def about(self) -> Mapping[str, Any]:
        """Facts about the cluster, for the line before the rows."""
        return {"cluster": self.address}

    def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
        """Yield outcomes in the order in which they come, or that of the runs with `keep_traces`.

        Raises:
            ConfigError: If no scheduler answers, or a worker cannot run this.
            SweepError: If the scheduler or all workers are lost, or a worker has other weights than this machine.
        """
        requests = list({run.arm_index: run.request for run in runs}.values())
        tasks = [(chunk, self.keep_traces) for chunk in chunked(runs, self.batch_size)]
        with connected(self.address) as client:
            prepare(client, requests)
            waiting, next_index = dict[int, list[RunOutcome]](), 0
            for result in results(client, decode_chunk, tasks, stop):
                if result is None:
                    yield None
                elif not self.keep_traces:
                    yield from result[1]
                else:
                    waiting[result[0]] = result[1]
                    while next_index in waiting:
                        yield from waiting.pop(next_index)
                        next_index += 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep distributed from logging the loss of a scheduler with tracebacks, inside the context."""
    handlers = logging.getLogger("distributed").handlers
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)


@contextmanager
def connected(address: str) -> Iterator["Client"]:
    """Connect to a scheduler inside the context.

    Raises:
        ConfigError: If no scheduler answers, or its workers have several threads.
        SweepError: If the scheduler is lost inside the context.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError("cluster: dask.distributed is not installed; pip install 'draftscope[cluster]'") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        remedy = "start one with: dask scheduler"
        raise ConfigError(f"cluster: no scheduler answers at {address!r} ({error}); {remedy}") from None
    with _quiet(), client:
        threads, remedy = client.nthreads(), f"start workers with: dask worker {address} --nthreads 1"
        if not threads:
            raise ConfigError(f"cluster: {address} has no workers; {remedy}")
        if shared := [worker for worker, count in threads.items() if count != 1]:
            raise ConfigError(f"cluster: the worker {shared[0]} has {threads[shared[0]]} threads; {remedy}")
        try:
            yield client
        except (CancelledError, OSError) as error:  # OSError: its connection was closed
            raise SweepError(
                f"cluster: the scheduler at {address} is gone; start it and its workers, {_AGAIN}"
            ) from error


def prepare(client: "Client", requests: Sequence[RunRequest]) -> None:
    """Load the models of runs in every worker.

    Args:
        client: Client of the scheduler.
        requests: Requests of the runs, whose weights this machine has, too.

    Raises:
        ConfigError: If a worker cannot load one; the message names the worker and the remedy.
        SweepError: If a worker has other weights than this machine.
    """
    expected = load_weights(requests)
    for worker, found in client.run(load_weights, requests, on_error="return").items():
        if isinstance(found, Exception):
            raise ConfigError(f"cluster: the worker {worker} cannot run this: {found}")
        check_weights(found, expected)


def load_weights(requests: Sequence[RunRequest]) -> dict[str, str]:
    """Load the models of runs in this process, which keeps them; return a hash of the weights by model id."""
    return {model: digest for request in requests for model, digest in weights_of(request.job()).items()}


def results(
    client: "Client", function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], stop: Callable[[], bool]
) -> Iterator[tuple[int, T] | None]:
    """Call a function in workers, once per task; the tasks of a worker that died are done by others.

    Args:
        client: See `connected`.
        function: Function of a module.
        tasks: Arguments of each call.
        stop: Checked between results; True stops.

    Yields:
        Index and result of a task, in the order in which they come, and None between them.

    Raises:
        SweepError: If a call fails, or no worker is left.
        CancelledError: If the scheduler is lost; `connected` turns it into a SweepError.
    """
    from distributed import as_completed

    futures = {client.submit(call, function, task, pure=False): index for index, task in enumerate(tasks)}
    ready, looked, seen = as_completed(futures, loop=client.loop), 0.0, time.monotonic()
    while ready.count() and not stop():
        for future in ready.next_batch(block=False):
            try:
                found = _result(future)
            except TimeoutError:  # lost with its worker before it was fetched, and computed again if there is another
                ready.add(future)
            else:
                yield futures.pop(future), found
        if time.monotonic() - looked > LOOK_SECONDS:
            looked = time.monotonic()
            seen = looked if client.nthreads() else seen
            if looked - seen > ABSENCE_SECONDS:
                raise SweepError(f"cluster: no worker is left; start some, {_AGAIN}")
        yield None
        time.sleep(POLL_SECONDS)


def call(function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """Call a function in a worker, in one thread.

    Args:
        function: Function that can be pickled.
        arguments: Its positional arguments.

    Raises:
        SweepError: If it raises ModelError, OSError or ValueError; the message names the worker.
    """
    from distributed import get_worker

    torch.set_num_threads(1)
    try:
        return function(*arguments)
    except (ModelError, OSError, ValueError) as error:
        raise SweepError(f"cluster: the worker {get_worker().address} cannot run this: {error}") from error


def _result(future: Any) -> Any:
    """Return the result of a task that has ended; raise TimeoutError if the worker that had it is lost."""
    from distributed import KilledWorker

    if not future.done():
        raise TimeoutError
    try:
        return future.result(timeout=ABSENCE_SECONDS)
    except KilledWorker as error:
        count, last = error.allowed_failures + 1, error.last_worker.address
        remedy = f"give workers more memory or time, {_AGAIN}"
        raise SweepError(f"cluster: {count} workers died in the same run, {last} last; {remedy}") from error
