"""A grid: the same prompts decoded with several settings, one run a cell. Knows nothing of the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from demo.decoding import Asked
from demo.limits import PROMPT_CHARACTERS, Deadline, current
from demo.workbench.repeating import duration, tried
from demo.workbench.tray import Entry
from engines.config import ConfigError, shown
from engines.models.catalog import MODELS
from engines.runtime.driver import Run
from engines.sampling.chance import read_seed
from traces.schema import Trace

MOST_COLUMNS: Final = 4
MOST_ROWS: Final = 6
_SAID_SECONDS: Final = 0.4
"""Between two words of progress."""


@dataclass(frozen=True, slots=True)
class Column:
    """A setting."""

    asked: Asked
    """Method, model and settings; its prompt and seed are those of a row."""
    title: str
    note: str
    """Settings beyond the defaults, and the model where columns differ in it."""
    seconds: float
    """What the run took that the setting comes from."""


@dataclass(frozen=True, slots=True)
class Row:
    """What every column decodes."""

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How far a grid has come."""

    done: int
    total: int
    share: float
    """Of the work, from 0 to 1."""
    seconds_left: float
    cell: int
    """The cell under way, counted row by row; `total` once there is none."""
    trace: Trace | None = None
    """The run of the cell before, in the message that it is whole."""
    ended: str = ""
    """Why nothing more comes, where that is not because all is done."""


def columns_of(chosen: Sequence[Entry]) -> tuple[Column, ...]:
    """The settings of runs, each once.

    Raises:
        ConfigError: for no run or too many settings, and for a run that cannot be decoded here.
    """
    found: dict[Asked, Entry] = {}
    for entry in chosen:
        if entry.asked is None:
            raise ConfigError(
                f"runs: {entry.title} ({entry.note}) came as a file whose model or settings are not here, so it cannot "
                "be decoded with another prompt; untick it."
            )
        found.setdefault(replace(entry.asked, prompt="", seed=0), entry)
    if not 1 <= len(found) <= MOST_COLUMNS:
        many = f"have {len(found)} different settings" if found else "are not there yet"
        raise ConfigError(f"runs: those that are ticked {many}; tick runs of 1 to {MOST_COLUMNS} settings.")
    several = len({asked.model for asked in found}) > 1
    return tuple(
        Column(asked, entry.title, _note(entry, MODELS[asked.model].title if several else ""), entry.seconds)
        for asked, entry in found.items()
    )


def _note(entry: Entry, model: str) -> str:
    return ", ".join(filter(None, [entry.settings, model]))


def rows_of(prompts: str, seeds: object, first: int, columns: Sequence[Column]) -> tuple[Row, ...]:
    """A row for every line of `prompts` and every seed; models that take no prompt have a row a seed.

    Raises:
        ConfigError: for no rows, too many, or a prompt that is too long.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MOST_ROWS:
        raise ConfigError(f"seeds: {shown(seeds)} is not allowed; use a whole number from 1 to {MOST_ROWS}.")
    asks = any(MODELS[column.asked.model].default_prompt for column in columns)
    lines = list(dict.fromkeys(filter(None, map(str.strip, prompts.splitlines())))) if asks else [""]
    if not lines:
        raise ConfigError("prompts: there is none; write at least one, or press one of the examples.")
    for number, line in enumerate(lines, 1):
        if len(line) > PROMPT_CHARACTERS:
            raise ConfigError(
                f"prompts: number {number} has {len(line)} characters; {PROMPT_CHARACTERS} are the most. Shorten it."
            )
    if len(lines) * seeds > MOST_ROWS:
        raise ConfigError(
            f"prompts: {len(lines)} with {seeds} seed{'s' * (seeds > 1)} each make a grid {len(lines) * seeds} high, "
            f"and {MOST_ROWS} is the most; remove prompts or use fewer seeds."
        )
    return tuple(Row(line, read_seed(first + more)) for line in lines for more in range(seeds))


def fill(columns: Sequence[Column], rows: Sequence[Row], stopped: Callable[[], bool]) -> Iterator[Filled]:
    """Decode the cells row by row, one run after the other, so that times are those of single runs.

    The first message comes before anything counts and says about how long it will take.

    Args:
        columns: The settings.
        rows: Prompts and seeds.
        stopped: Whether to stop before the next pass; cells that are whole were told before.

    Raises:
        ConfigError: for a grid that would take too long.
        ValueError: for a prompt or setting that a model refuses.
        ModelError: when a model cannot be had.
    """
    cells = [replace(column.asked, prompt=row.prompt, seed=row.seed) for row in rows for column in columns]
    _check(cells)
    each = [tried(cell.job()) for cell in cells[: len(columns)]]
    expected, total = sum(each) * len(rows), len(cells)
    most = current().repeat_seconds
    if most is not None and expected > most:
        fit = int(most // sum(each))
        fewer = f"use at most {fit} of the {len(rows)} prompts and seeds"
        remedy = fewer if fit else "tick fewer runs or choose a smaller model"
        raise ConfigError(
            f"prompts: this grid would take about {duration(expected)} here, and the server gives {duration(most)}; "
            f"{remedy}."
        )
    yield Filled(done=0, total=total, share=0.0, seconds_left=expected, cell=0)
    yield from _runs(cells, each, Deadline.within(most, stopped))


def _check(cells: Sequence[Asked]) -> None:
    """Let every model look at every prompt before the first one is decoded.

    Raises:
        ValueError: naming the prompt.
    """
    for cell in cells:
        try:
            _ = cell.job().task
        except ValueError as error:
            said = f" (the prompt {shown(cell.prompt)})" if cell.prompt else ""
            raise ConfigError(f"{error}{said}") from error


def _runs(cells: Sequence[Asked], each: Sequence[float], stopped: Deadline) -> Iterator[Filled]:
    spent = [0.0] * len(each)
    counts = [0] * len(each)
    weights = [each[index % len(each)] for index in range(len(cells))]
    whole = sum(weights) or 1.0
    said = time.monotonic()

    def now(done: int, running: float, trace: Trace | None = None, ended: str = "") -> Filled:
        usual = [spent[i] / counts[i] if counts[i] else each[i] for i in range(len(each))]
        left = sum(usual[index % len(each)] for index in range(done, len(cells))) - running
        share = min(1.0, (sum(weights[:done]) + min(running, 0.95 * (weights[done] if running else 0))) / whole)
        told = {"done": done, "total": len(cells), "share": share, "seconds_left": max(left, 0.0)}
        return Filled(**told, cell=done, trace=trace, ended=ended)  # type: ignore[arg-type]

    for index, cell in enumerate(cells):
        run, begun = Run(cell.job()), time.monotonic()
        for _ in run:
            if stopped():
                yield now(index, 0.0, ended=stopped.said)
                return
            if time.monotonic() - said > _SAID_SECONDS:
                said = time.monotonic()
                yield now(index, said - begun)
        spent[index % len(each)] += time.monotonic() - begun
        counts[index % len(each)] += 1
        yield now(index + 1, 0.0, trace=run.trace())


def planned(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """What is asked for, in words, with what it takes going by the runs that the settings come from."""
    count = len(columns) * len(rows)
    prompts, seeds = len({row.prompt for row in rows}), len({row.seed for row in rows})
    bare = not any(row.prompt for row in rows)
    parts = [] if bare else [_counted(prompts, "prompt")]
    parts += [_counted(seeds, "seed")] if bare or seeds > 1 else []
    parts.append(_counted(len(columns), "setting"))
    seconds = sum(column.seconds for column in columns) * len(rows)
    took = f", about {duration(seconds)} if they take as long as the ticked ones" if seconds else ""
    return f"{' × '.join(parts)}: {_counted(count, 'run')}{took}."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
