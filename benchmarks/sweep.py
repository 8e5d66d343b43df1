"""Old name of `draftscope experiment run`: many runs on problems with known answers, in a process per core.

Rows are appended as they come. The same command resumes an experiment that was interrupted, or that has grown.
docs/benchmarks.md describes files and rows.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from analysis.results import SweepError
from benchmarks._report_format import positive
from cli.streams import exit_code_for_pipe
from draftscope.experiments.grid_file import run_grid_file
from engines.models.devices import add_option
from engines.models.errors import ModelError
from engines.settings import ConfigError

USAGE, NO_MODEL = 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("grid", metavar="GRID", help="JSON or TOML; benchmarks/grids has some; - is standard input")
    add("-o", "--output", required=True, metavar="FILE", help=".jsonl or .jsonl.gz; - is standard output")
    add("--jobs", type=positive, default=-1, metavar="N", help="processes; default: one per core")
    add("--batch", type=positive, default=1, metavar="B", help="problems that a process decodes in one batch")
    add("--problems", type=positive, metavar="N", help="the first N, in place of the number in the file")
    add_option(parser)
    options = parser.parse_args(arguments)
    if find_spec("joblib") is None:
        parser.error("the package joblib is missing: pip install -r requirements-dev.txt")
    try:
        return run_grid_file(
            options.grid,
            options.output,
            jobs=options.jobs,
            batch_size=options.batch,
            num_problems=options.problems,
            device=options.device,
        )
    except (ConfigError, SweepError, ModelError) as error:
        print(error, file=sys.stderr)
        return NO_MODEL if isinstance(error, ModelError) else USAGE


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
