"""Many visitors at once: no run is lost or mixed up, whoever only looks is answered, and memory does not grow."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from gradio_client import Client, handle_file
from robustness.strategies import FULL

from benchmarks.app import resident_megabytes, served

TRACE = Path(__file__).parents[2] / "assets" / "traces" / "ar-juice.json.gz"
VISITORS, RUNS, ROUNDS = (50, 200, 3) if FULL else (3, 6, 1)
SEEDS = 10
"""Different runs of a method; the same run has to give the same answer to everybody."""
PATIENCE_SECONDS = 600.0
BUSY = ("queue is full", "busy", "try again", "wait")
"""What a server says that has too much to do; who hears it asks again."""
LIGHT_SECONDS = 1.0 if FULL else 10.0
"""For the median answer to whoever only looks; the suite runs on machines that have other work."""
MOST_GROWTH = 1.1
"""Memory after the last round, over that after the first."""


def client(address: str) -> Client:
    return Client(address, verbose=False, download_files=False, httpx_kwargs={"timeout": 120.0})


def ask(asker: Client, number: int) -> tuple[Any, ...]:
    """Ask for run `number` until it is answered: its method and seed, and what the answer says ran."""
    method, seed = ("ar", "scd")[number % 2], number // 2 % SEEDS
    late = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            told = asker.predict(method=method, model="toy-raster", seed=seed, api_name="/summary")
        except Exception as error:
            if time.monotonic() > late or not any(word in str(error).lower() for word in BUSY):
                raise
            time.sleep(1.0)
            continue
        assert (told["method"], told["seed"]) == (method, seed), "somebody else's answer"
        return method, seed, told["forwards"], told["accepted"]


@contextmanager
def looking(address: str) -> Iterator[dict[str, list[float]]]:
    """While the context lasts, ask for health and page and have a trace checked: seconds by what was asked."""
    seconds: dict[str, list[float]] = {"/healthz": [], "/": [], "/validate": []}
    asker, done, problems = client(address), threading.Event(), list[Exception]()

    def look() -> None:
        while not done.wait(0.3):
            for name, spent in seconds.items():
                start = time.monotonic()
                try:
                    if name == "/validate":
                        asker.predict(handle_file(TRACE), api_name=name)
                    else:
                        urllib.request.urlopen(f"{address}{name}", timeout=60).close()
                except Exception as error:
                    problems.append(error)
                spent.append(time.monotonic() - start)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seconds
    finally:
        done.set()
        thread.join(60)
        asker.close()
    assert not problems


@pytest.mark.slow
@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of gradio's client
def test_nothing_is_lost_in_a_crowd() -> None:
    held, answers, light = list[float](), set[tuple[Any, ...]](), list[dict[str, list[float]]]()
    with served() as (address, _, process):
        for _ in range(ROUNDS):
            askers = [client(address) for _ in range(VISITORS)]
            with looking(address) as seconds, ThreadPoolExecutor(VISITORS) as pool:
                answers |= set(pool.map(lambda number: ask(askers[number % VISITORS], number), range(RUNS)))  # noqa: B023
            for asker in askers:
                asker.close()
            light.append(seconds)
            held.append(resident_megabytes(process) or 1.0)
    assert len(answers) == min(RUNS, 2 * SEEDS), "one run gave two answers"
    for name in light[0]:
        assert median(one for seconds in light for one in seconds[name]) < LIGHT_SECONDS, name
    assert held[-1] < MOST_GROWTH * held[0]
