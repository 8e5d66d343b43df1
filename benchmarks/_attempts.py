"""Trying one strange document after the other in a process of its own: what came of it, how long it took, what it held.

A document that crashes, hangs or kills the process costs that process alone; the next one goes on behind it.
"""

import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks._mutation import shortened

HANGS_SECONDS: Final = 180.0
"""Without an answer; importing what is tried takes a while on a busy machine."""
MOST_BYTES: Final = 16 * 2**30
"""Of address space: a document may not take the machine down."""
_SELF: Final = Path("/proc/self")


class Case(NamedTuple):
    """A strange document, and what is done with it."""

    document: object
    run: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One way into the project."""

    name: str
    errors: tuple[type[BaseException], ...]
    """The project's own: what a refusal may be."""
    prepare: Callable[[], Callable[[Random], Case]]
    """Called once a process; returns what makes a case of chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one document."""

    number: int
    verdict: str
    """accepted, refused, crashed, hung or killed."""
    seconds: float = 0.0
    """Of the processor: other work on the machine does not count."""
    megabytes: float = 0.0
    """Held at most, beyond what was held before; 0 where the system does not say."""
    said: str = ""
    document: str = ""
    """Shortened, of what failed."""


def chance_of(seed: int, area: str, number: int) -> Random:
    """What case `number` of an area is made of."""
    return Random(f"{seed} {area} {number}")


def attempts(area: Area, seed: int, numbers: Sequence[int]) -> Iterator[Tried]:
    """Try all of them, in processes of their own."""
    left = list(numbers)
    while left:
        line, there = get_context("spawn").Pipe()
        process = get_context("spawn").Process(target=_work, args=(area, seed, left, there), daemon=True)
        process.start()
        there.close()
        done = 0
        try:
            for tried in _heard(line):
                done += 1
                yield tried
        finally:
            process.kill()
            process.join()
        if done < len(left):
            hung = "hung" if line.closed else "killed"
            code = f"after {HANGS_SECONDS:.0f} s" if hung == "hung" else f"exit code {process.exitcode}"
            case = area.prepare()(chance_of(seed, area.name, left[done]))
            yield Tried(number=left[done], verdict=hung, said=code, document=shortened(case.document))
            done += 1
        line.close()
        left = left[done:]


def _heard(line: Connection) -> Iterator[Tried]:
    """What the process says, until it is done, dies, or says nothing for too long; then the line is closed."""
    while True:
        if not line.poll(HANGS_SECONDS):
            line.close()
            return
        try:
            tried = line.recv()
        except (EOFError, OSError):
            return
        if tried is None:
            return
        yield tried


def _work(area: Area, seed: int, numbers: Sequence[int], there: Connection) -> None:
    """Try cases and say what came of each."""
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for tried in here(area, seed, numbers):
        there.send(tried)
    there.send(None)


def here(area: Area, seed: int, numbers: Sequence[int]) -> Iterator[Tried]:
    """Try all of them in this process, which a document may then end."""
    make = area.prepare()
    for number in numbers:
        yield attempt(area, number, make(chance_of(seed, area.name, number)))


def attempt(area: Area, number: int, case: Case) -> Tried:
    """Try one case here and now."""
    before = _held(reset=True)
    start = time.process_time()
    said, verdict, document = "", "accepted", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run()
    except area.errors as error:
        said, verdict = str(error), "refused"
        if "\n" in said.strip() or not said.strip():
            verdict, said, document = "crashed", f"not one line: {said[:200]!r}", shortened(case.document)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, it is what this looks for
        said, verdict, document = f"{type(error).__name__}: {error}"[:300], "crashed", shortened(case.document)
    seconds = time.process_time() - start
    return Tried(
        number=number,
        verdict=verdict,
        seconds=seconds,
        megabytes=max(0.0, _held() - before),
        said=said[:300],
        document=document,
    )


def _held(*, reset: bool = False) -> float:
    """Megabytes of this process: the most since the last reset."""
    return held_in(_SELF, reset=reset)


def held_in(process: Path, *, reset: bool = False) -> float:
    """Megabytes that a process, by its folder in /proc, holds: the most since the last reset, or now, and reset.

    0 where the system does not say.
    """
    try:
        if reset:
            (process / "clear_refs").write_text("5", encoding="ascii")
        status = dict(line.split(":", 1) for line in (process / "status").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return 0.0
    held: Any = status["VmRSS" if reset else "VmHWM"]
    return int(held.split()[0]) * 1024 / 1e6
