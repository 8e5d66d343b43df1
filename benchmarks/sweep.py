"""Many runs on problems with known answers: every configuration of a grid, one row a run, in a process for each core.

Rows are appended as they come. The same command resumes a sweep that was interrupted, or whose grid grew; a line that
was cut off by the interruption is dropped and its problem solved again. - is standard input for GRID, and standard
output for RESULTS, which cannot be resumed. docs/benchmarks.md says what a grid and a row are.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TextIO

import torch
from tqdm import tqdm
from transformers.utils import logging

from analysis.groups import canonical, gathered
from analysis.results import ResultRow, SweepError
from benchmarks._grid import Chunk, Grid, GridError, key, read_grid, solve, try_out
from benchmarks._problems import held_out
from benchmarks._report_format import positive
from benchmarks._rows import Rows
from draftscope.cli.aliases import run as run_alias
from draftscope.cli.errors import NOT_WRITTEN
from draftscope.cli.streams import output_file
from engines.models.devices import add_option
from engines.models.errors import ModelError
from engines.runtime.environment import environment
from traces.files import STANDARD

DONE, USAGE, NO_MODEL, INTERRUPTED = 0, 2, 3, 130
REPORT_SECONDS: Final = 30
"""Between two lines of progress where there is no terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _options(arguments)
    logging.disable_progress_bar()  # of loading weights
    try:
        grid = read_grid(options.grid)
        grid = replace(grid, problems=options.problems or grid.problems)
        with output_file(str(options.output), ".jsonl") as path:
            rows = Rows(path)
            _check_rows(rows, grid, try_out(grid, options.device))
            return _sweep(grid, rows, options)
    except (GridError, SweepError, ModelError) as error:
        print(error, file=sys.stderr)
        return NO_MODEL if isinstance(error, ModelError) else USAGE


def _sweep(grid: Grid, rows: Rows, options: argparse.Namespace) -> int:
    """Solve what is missing."""
    chunks = missing(grid, rows, options.batch, options.device)
    wanted = sum(len(chunk.problems) for chunk in chunks)
    print(f"{wanted} runs to go, {len(rows.rows)} are there already", file=sys.stderr)
    seconds = 0.1 if sys.stderr.isatty() else REPORT_SECONDS
    try:
        if chunks:
            rows.begin(_about(options))
            with tqdm(total=wanted, unit="run", mininterval=seconds) as progress:
                for solved in solve_all(chunks, options.jobs):
                    rows.append(solved)
                    progress.update(len(solved))
        rows.finish()
    except KeyboardInterrupt:
        print(f"stopped; {len(rows.rows)} rows are kept; the same command resumes", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        kept = f"{len(rows.rows)} rows are kept; the same command resumes"
        print(f"-o: {rows.path} cannot be written ({error.strerror}); make room: {kept}", file=sys.stderr)
        return NOT_WRITTEN
    finally:
        rows.release()
    _summarise(rows, grid, sys.stderr if str(options.output) == STANDARD else sys.stdout)
    return DONE


def missing(grid: Grid, rows: Rows, batch: int, device: str) -> list[Chunk]:
    """What is still to solve. Configurations take turns, so that a machine's quiet hours favour none of them."""
    places = range(grid.problems)
    return [
        Chunk(model=grid.model, device=device, configuration=one, seed=seed, problems=tuple(wanted))
        for seed in grid.seeds
        for first in range(0, grid.problems, batch)
        for one in grid.configurations
        if (wanted := [i for i in places[first : first + batch] if key(grid.model, one, i, seed) not in rows.rows])
    ]


def solve_all(chunks: Sequence[Chunk], jobs: int) -> Iterator[list[ResultRow]]:
    """The rows of all chunks, in the order in which they come."""
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        yield from Parallel(batch_size=1, return_as="generator_unordered")(delayed(solve)(chunk) for chunk in chunks)


def _check_rows(rows: Rows, grid: Grid, weights: dict[str, str]) -> None:
    """Rows of other weights or by other names would end up in the same figure.

    Raises:
        SweepError: when the file holds such rows.
    """
    labels = {(one.method, canonical(one.config)): one.label for one in grid.configurations}
    for row in rows.rows.values():
        for model, digest in row.weights.items():
            if weights.get(model, digest) != digest:
                raise SweepError(f"-o: {rows.path} holds rows of other weights of {model}; name another file")
        label = labels.get((row.method, canonical(row.config)), row.label)
        if label != row.label:
            raise SweepError(f"label: {label!r} is {row.label!r} in {rows.path}; keep that or name another file")


def _about(options: argparse.Namespace) -> dict[str, Any]:
    from joblib import effective_n_jobs

    place = asdict(environment(torch.device("cpu"), torch.float32))
    return {
        "grid": options.grid.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "jobs": effective_n_jobs(options.jobs),
        **{name: place[name] for name in ("python", "libraries", "commit", "threads")},
    }


def _summarise(rows: Rows, grid: Grid, file: TextIO) -> None:
    """One line a configuration."""
    labels = {one.label for one in grid.configurations}
    for group in gathered([row for row in rows.rows.values() if row.label in labels]):
        error = f" ± {100 * group.accuracy_error:.1f}" if group.accuracy_error is not None else ""
        speed = group.total("tokens") / group.total("forwards")
        milliseconds = 1000 * group.total("seconds") / group.total("tokens")
        print(
            f"{group.label}: {100 * group.accuracy:.1f}{error} % right on {group.problems} problems, "
            f"{speed:.2f} tokens per forward, {milliseconds:.2f} ms per token",
            file=file,
        )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="draftscope experiment run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grid", type=Path, metavar="GRID", help="JSON; benchmarks/grids has some; - is standard input")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help=".jsonl or .jsonl.gz; - is standard output"
    )
    parser.add_argument("--jobs", type=positive, default=-1, metavar="N", help="processes; default: one a core")
    parser.add_argument("--batch", type=positive, default=1, metavar="B", help="problems a process decodes in lockstep")
    parser.add_argument("--problems", type=positive, metavar="N", help="the first N, whatever the grid says")
    add_option(parser)
    options = parser.parse_args(arguments)
    if find_spec("joblib") is None:
        parser.error("the package joblib is missing: pip install -r requirements-dev.txt")
    most = len(held_out())
    if options.problems is not None and options.problems > most:
        parser.error(f"argument --problems: {options.problems} is not valid; there are {most}")
    return options


if __name__ == "__main__":
    sys.exit(run_alias("benchmarks.sweep"))
