"""Command line: check traces, print the schema, show a summary, print the events of a trace for Perfetto."""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Final

from analysis.summary_text import summary_text
from cli.streams import exit_code_for_pipe, read_named
from traces.errors import TraceError, TraceWarning
from traces.json_schema import json_schema
from traces.perfetto import to_perfetto
from traces.schema import Trace

_FILES: Final = "a trace, .json or .json.gz; - is standard input"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 a broken trace, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    if options.command == "schema":
        print(json.dumps(json_schema(), indent=2))
        return 0
    shown = {"show": summary_text, "perfetto": lambda trace: json.dumps(to_perfetto(trace))}.get(options.command)
    sound = [_is_sound(path, shown) for path in options.files]
    return 0 if all(sound) else 1


def _is_sound(path: str, shown: Callable[[Trace], str] | None) -> bool:
    """Read one trace; print what is wrong with it on standard error, or the result of `shown`.

    Returns whether it is valid.
    """
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", TraceWarning)
            trace = read_named(path)
    except TraceError as error:
        print(error, file=sys.stderr)
        return False
    for each in warned:
        print(each.message, file=sys.stderr)
    if shown:
        print(shown(trace))
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m traces", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="check traces; silent if all are valid, one line per error")
    validate.add_argument("files", nargs="+", metavar="FILE", help=_FILES)
    commands.add_parser("schema", help="print the JSON Schema of the format")
    show = commands.add_parser("show", help="print what ran and the summary")
    show.add_argument("files", nargs="+", metavar="FILE", help=_FILES)
    perfetto = commands.add_parser("perfetto", help="print a trace as JSON that ui.perfetto.dev opens")
    perfetto.add_argument("files", nargs=1, metavar="FILE", help=_FILES)
    return parser


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
