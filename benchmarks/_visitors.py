"""Visitors of a running app: programs that ask for runs all at once, and somebody who only looks."""

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from gradio_client import Client, handle_file

METHODS: Final = ("ar", "scd")
MODEL: Final = "toy-raster"
SEEDS: Final = 10
"""Different runs; the same one has to give the same answer to everybody."""
_PATIENCE_SECONDS: Final = 600.0
_TIMEOUT_SECONDS: Final = 120.0
_AT_THE_DOOR: Final = 8
"""Visitors that come in at the same time: each is told first what the app can do."""
_AGAIN_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.3
_BUSY: Final = ("queue is full", "busy", "try again", "wait")
"""What a server says that has too much to do; who hears it asks again."""
LONG: Final[dict[str, Any]] = {"method": "cspd", "model": "toy-field", "prompt": "", "settings": {"steps": 250}}
"""A run of many seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request for a run."""

    asked: tuple[str, int]
    """Method and seed."""
    told: tuple[Any, ...]
    """What the answer says ran, and what it came to; empty where none came."""
    refused: int
    seconds: float
    problem: str = ""

    @property
    def mixed(self) -> bool:
        """Whether the answer is another's."""
        return bool(self.told) and self.told[:2] != self.asked


@dataclass(slots=True)
class Light:
    """How long requests took that need no model, by name; those that failed."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def client(address: str) -> Client:
    """A program that has just come."""
    return Client(address, verbose=False, download_files=False, httpx_kwargs={"timeout": _TIMEOUT_SECONDS})


def ask(asker: Client, number: int) -> Answer:
    """Ask for run `number` until it is answered."""
    method, seed = METHODS[number % len(METHODS)], number // len(METHODS) % SEEDS
    start, refused = time.monotonic(), 0
    while True:
        try:
            told = asker.predict(method=method, model=MODEL, prompt="", seed=seed, settings={}, api_name="/summary")
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:200]
            busy = any(word in problem.lower() for word in _BUSY)
            if busy and time.monotonic() - start < _PATIENCE_SECONDS:
                refused += 1
                time.sleep(_AGAIN_SECONDS)
                continue
            return Answer((method, seed), (), refused, time.monotonic() - start, problem)
        came = (told["method"], told["seed"], told["forwards"], told["accepted"])
        return Answer((method, seed), came, refused, time.monotonic() - start)


def crowd(address: str, visitors: int, runs: int) -> list[Answer]:
    """The answers to as many runs, asked for by as many visitors at once."""
    with ThreadPoolExecutor(_AT_THE_DOOR) as door:
        askers = list(door.map(lambda _: client(address), range(visitors)))
    with ThreadPoolExecutor(visitors) as pool:
        answers = list(pool.map(lambda number: ask(askers[number % visitors], number), range(runs)))
        list(pool.map(lambda asker: asker.close(), askers))
    return answers


def disagreeing(answers: Sequence[Answer]) -> int:
    """Answers to one and the same run that differ from the first."""
    first: dict[tuple[str, int], tuple[Any, ...]] = {}
    return sum(bool(one.told) and first.setdefault(one.asked, one.told) != one.told for one in answers)


@contextmanager
def watching(address: str, trace: Path) -> Iterator[Light]:
    """While the context lasts, open the page, ask for its health and have a trace checked, over and over."""
    light, done = Light(), threading.Event()
    asker = client(address)

    def look() -> None:
        acts: dict[str, Callable[[], object]] = {
            "/healthz": lambda: _opened(f"{address}/healthz"),
            "the page": lambda: _opened(f"{address}/"),
            "/validate": lambda: asker.predict(handle_file(trace), api_name="/validate"),
        }
        while not done.is_set():
            for name, act in acts.items():
                start = time.monotonic()
                try:
                    act()
                except Exception as error:
                    light.failed.append(f"{name}: {error}"[:200])
                light.seconds.setdefault(name, []).append(time.monotonic() - start)
            done.wait(_PAUSE_SECONDS)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield light
    finally:
        done.set()
        thread.join(60)
        with suppress(Exception):
            asker.close()


def _opened(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def _submit(address: str) -> None:
    """Ask for a long run, and never leave."""
    asker = client(address)
    asker.submit(**LONG, api_name="/summary")
    time.sleep(3600)


def freed_after(address: str, seconds: float) -> tuple[float, float]:
    """Seconds that a short run takes after somebody who had asked for a long one was killed, and alone."""
    asker = client(address)
    ask(asker, 0)
    alone = ask(asker, 0).seconds
    gone = get_context("spawn").Process(target=_submit, args=(address,), daemon=True)
    gone.start()
    time.sleep(seconds)
    gone.kill()
    gone.join()
    waited = ask(asker, 0).seconds
    asker.close()
    return waited, alone
