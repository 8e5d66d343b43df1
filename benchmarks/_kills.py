"""Killing who writes rows, at any moment, again and again; and two who want to write at once."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from typing import Final

from benchmarks._rows import Rows, RowsError
from traces.results import ResultRow, read_line

_MOST_SECONDS: Final = 0.03
"""Between a writer's first row and its end."""
_OF_ONE_FILE: Final = 3
"""Writers, one after the other; then comes another file, since all its rows are read after each."""


@dataclass(frozen=True, slots=True)
class Killed:
    """What a file of rows was like after its writer was killed."""

    lost: int
    doubled: int
    refused: bool
    """Whether a second writer was told that there is one already."""


def kills(folder: Path, count: int, seed: int = 0) -> Iterator[Killed]:
    """Have rows written, and kill the writer: the next one goes on from there. Half of the files are zipped."""
    chance, before = Random(seed), 0
    for number in range(count):
        ending = ".jsonl.gz" if number // _OF_ONE_FILE % 2 else ".jsonl"
        path = folder / f"{number // _OF_ONE_FILE}{ending}"
        before = before if number % _OF_ONE_FILE else 0
        found, before = _killed(path, chance.random() * _MOST_SECONDS, before)
        yield found


def _killed(path: Path, seconds: float, before: int) -> tuple[Killed, int]:
    context = get_context("fork")  # a process that begins anew takes a second to import
    written: Synchronized[int] = context.Value("q", before, lock=False)
    writer = context.Process(target=_write, args=(path, written), daemon=True)
    writer.start()
    while written.value <= before and writer.is_alive():
        time.sleep(0.0005)
    refused = _refused(path)
    time.sleep(seconds)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    keys = [int(key) for key in Rows(path).rows]
    lines = _lines(path)
    lost = len(set(range(written.value)) - set(keys)) + (keys != list(range(len(keys))))
    return Killed(lost, len(lines) - len(set(lines)), refused), len(keys)


def _refused(path: Path) -> bool:
    second = Rows(path)
    try:
        second.begin({})
    except RowsError as error:
        return "another sweep" in str(error)
    second.release()
    return False


def _write(path: Path, written: "Synchronized[int]") -> None:
    """Write rows until the end, or that of the process that waits for it."""
    rows, parent = Rows(path), os.getppid()
    rows.begin({"grid": "a"})
    number = len(rows.rows)
    while os.getppid() == parent:
        rows.append([_row(number + i) for i in range(3)])
        number += 3
        written.value = number


def _row(number: int) -> ResultRow:
    return ResultRow(
        method="blockwise",
        label="a",
        config={"block": "4"},
        problem=number,
        correct=True,
        forwards=1,
        forwards_by_mode={},
        row_forwards=1,
        query_tokens=1,
        tokens=1,
        seconds=0.5,
        key=str(number),
        weights={"a": "0"},
        answer="a" * (number % 400),
    )


def _lines(path: Path) -> list[str]:
    """The keys of all whole lines."""
    plain = path.with_name(path.name + ".part") if path.suffix == ".gz" else path
    data = plain.read_bytes()
    found = [read_line(line, "line") for line in data[: data.rfind(b"\n") + 1].splitlines()]
    return [row.key for row in found if isinstance(row, ResultRow)]
