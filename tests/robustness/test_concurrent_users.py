"""Many users at once: no run is lost or mixed up, light requests are answered, and memory does not grow."""

import itertools
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from statistics import median
from typing import Any

import pytest
from gradio_client import Client, handle_file
from robustness.strategies import FULL

from benchmarks._app_process import served
from benchmarks.app import resident_megabytes
from draftscope.traces.files import ROOT

TRACE = ROOT / "assets" / "traces" / "ar-juice.json.gz"
VISITORS, RUNS, ROUNDS = (50, 200, 3) if FULL else (3, 6, 1)
SEEDS = 10
"""Number of different runs of a method; the same run must give the same answer to every client."""
PATIENCE_SECONDS = 600.0
BUSY = ("queue is full", "busy", "try again", "wait")
"""Messages of an overloaded server; the client tries again."""
LIGHT_SECONDS = 1.0
"""Maximum median time of light requests, on an otherwise idle machine."""
MAX_GROWTH = 1.1
"""Memory after the last round, over that after the first."""


def client(address: str) -> Client:
    return Client(address, verbose=False, download_files=False, httpx_kwargs={"timeout": 120.0})


def answer_of(asker: Client, number: int) -> tuple[Any, ...]:
    """Ask for run `number` until it is answered: its method and seed, and what the answer says ran."""
    method, seed = ("ar", "scd")[number % 2], number // 2 % SEEDS
    late = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = asker.predict(method=method, model="toy-raster", seed=seed, api_name="/summary")
        except Exception as error:
            if time.monotonic() > late or not any(word in str(error).lower() for word in BUSY):
                raise
            time.sleep(1.0)
            continue
        assert (answer["method"], answer["seed"]) == (method, seed), "the answer of another client"
        return method, seed, answer["forwards"], answer["accepted"]


def look(address: str, done: threading.Event) -> dict[str, list[float]]:
    """Until it is done, ask for health and page and have a trace checked: seconds by what was asked."""
    asker = client(address)
    calls = {
        "/healthz": lambda: urllib.request.urlopen(f"{address}/healthz", timeout=60).close(),
        "/": lambda: urllib.request.urlopen(f"{address}/", timeout=60).close(),
        "/validate": lambda: asker.predict(handle_file(TRACE), api_name="/validate"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    while not done.wait(0.3):
        for name, call in calls.items():
            start = time.monotonic()
            call()
            seconds[name].append(time.monotonic() - start)
    asker.close()
    return seconds


@pytest.mark.slow
@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of gradio's client
@pytest.mark.nightly
def test_nothing_is_lost_in_a_crowd(request: pytest.FixtureRequest) -> None:
    resident, answers, light = list[float](), set[tuple[Any, ...]](), list[dict[str, list[float]]]()
    with served() if FULL else nullcontext((request.getfixturevalue("server"), 0, None)) as (address, _, process):
        for _ in range(ROUNDS):
            askers, done = [client(address) for _ in range(VISITORS)], threading.Event()
            with ThreadPoolExecutor(VISITORS + 1) as pool:
                looker = pool.submit(look, address, done)
                try:
                    answers |= set(pool.map(answer_of, itertools.cycle(askers), range(RUNS)))
                finally:
                    done.set()
                light.append(looker.result())
            for asker in askers:
                asker.close()
            resident.append((process and resident_megabytes(process)) or 1.0)
    assert len(answers) == min(RUNS, 2 * SEEDS), "one run gave two answers"
    for name in light[0]:
        middle = median(one for seconds in light for one in seconds[name])
        assert middle < LIGHT_SECONDS or not FULL, name
    assert resident[-1] < MAX_GROWTH * resident[0]
