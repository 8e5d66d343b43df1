"""A grid: the same prompts decoded with several settings, one run a cell. Knows nothing of the page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from demo.jobs.run_selection import SelectableRun
from demo.jobs.series import Progress, counted, decode_all, duration
from demo.server.limits import PROMPT_CHARACTERS
from engines.models.catalog import MODELS
from engines.runtime.run_request import RunRequest
from engines.sampling.random_source import parse_seed
from engines.settings import ConfigError, format_value

MOST_COLUMNS: Final = 4
MOST_ROWS: Final = 6


@dataclass(frozen=True, slots=True)
class Row:
    """Prompt and seed of a row, shared by all columns."""

    prompt: str
    seed: int


def columns_of(chosen: Sequence[SelectableRun]) -> tuple[SelectableRun, ...]:
    """The settings of runs, each once: the first run that has them, its note being the model where there are several.

    Raises ConfigError for no run or too many settings, and for a run that cannot be decoded here.
    """
    columns: dict[RunRequest, SelectableRun] = {}
    for entry in chosen:
        columns.setdefault(replace(entry.to_request("with another prompt"), prompt="", seed=0), entry)
    if not 1 <= len(columns) <= MOST_COLUMNS:
        many = f"have {len(columns)} different settings" if columns else "are not there yet"
        raise ConfigError(f"runs: those that are ticked {many}; tick runs of 1 to {MOST_COLUMNS} settings.")
    several = len({request.model for request in columns}) > 1
    return tuple(
        replace(entry, note=MODELS[request.model].title if several else "") for request, entry in columns.items()
    )


def rows_of(prompts: str, seeds: object, first: int, columns: Sequence[SelectableRun]) -> tuple[Row, ...]:
    """A row for every line of `prompts` and every seed; models that take no prompt have a row a seed.

    Raises ConfigError for no rows, too many, or a prompt that is too long.
    """
    if type(seeds) is not int or not 1 <= seeds <= MOST_ROWS:
        raise ConfigError(f"seeds: {format_value(seeds)} is not allowed; use a whole number from 1 to {MOST_ROWS}.")
    asks = any(column.request and MODELS[column.request.model].default_prompt for column in columns)
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
            f"prompts: {len(lines)} with {counted(seeds, 'seed')} each make a grid {len(lines) * seeds} high, "
            f"and {MOST_ROWS} is the most; remove prompts or use fewer seeds."
        )
    return tuple(Row(line, parse_seed(first + more)) for line in lines for more in range(seeds))


def fill(columns: Sequence[SelectableRun], rows: Sequence[Row], stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode the cells row by row; see `decode_all`."""
    settings = [column.request for column in columns if column.request]
    cells = [[replace(setting, prompt=row.prompt, seed=row.seed) for setting in settings] for row in rows]
    yield from decode_all(cells, f"prompts: {len(rows)}", stopped)


def planned(columns: Sequence[SelectableRun], rows: Sequence[Row]) -> str:
    """Return a sentence on what was requested, with its cost estimated from the selected runs."""
    prompts, seeds = len({row.prompt for row in rows}), len({row.seed for row in rows})
    bare = not any(row.prompt for row in rows)
    parts = [] if bare else [counted(prompts, "prompt")]
    parts += [counted(seeds, "seed")] if bare or seeds > 1 else []
    parts.append(counted(len(columns), "setting"))
    seconds = sum(column.seconds for column in columns) * len(rows)
    took = f", about {duration(seconds)} if they take as long as the ticked ones" if seconds else ""
    return f"{' × '.join(parts)}: {counted(len(columns) * len(rows), 'run')}{took}."
