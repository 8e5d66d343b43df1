"""`draftscope trace`: check and show traces, print the schema of the format, convert to Perfetto."""

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

from typer import Argument, Typer

from draftscope.cli.errors import DONE, INVALID
from draftscope.cli.options import TraceFiles
from draftscope.cli.streams import read_trace
from draftscope.traces.errors import TraceError, TraceWarning
from draftscope.traces.schema import Trace

app = Typer(help="Check, show and convert traces.", rich_markup_mode=None)


@app.command()
def validate(traces: TraceFiles) -> int:
    """Check traces; print one line per error."""
    return _read_all(traces)


@app.command()
def show(traces: TraceFiles) -> int:
    """Print what ran, and the summary."""
    from draftscope.analysis.summary_text import summary_text

    return _read_all(traces, summary_text)


@app.command()
def schema() -> int:
    """Print the JSON Schema of the trace format."""
    from draftscope.traces.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return DONE


@app.command()
def perfetto(
    trace: Annotated[str, Argument(metavar="TRACE", help="A trace, .json or .json.gz; - is standard input.")],
) -> int:
    """Convert a trace to JSON that ui.perfetto.dev opens."""
    from draftscope.traces.perfetto import to_perfetto

    return _read_all([trace], lambda trace: json.dumps(to_perfetto(trace)))


def _read_all(paths: Sequence[str], text: Callable[[Trace], str] | None = None) -> int:
    """Read traces, print their text and report errors; return DONE if all are valid, otherwise INVALID."""
    valid = [_read(path, text) for path in paths]
    return DONE if all(valid) else INVALID


def _read(path: str, text: Callable[[Trace], str] | None) -> bool:
    """Read one trace and print its text; report an error and return False if it is invalid."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TraceWarning)
            trace = read_trace(path)
    except TraceError as error:
        print(error, file=sys.stderr)
        return False
    for warning in caught:
        print(warning.message, file=sys.stderr)
    if text:
        print(text(trace))
    return True
