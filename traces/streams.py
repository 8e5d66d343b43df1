"""What command lines share: `-` for standard input, errors that name the file once, and readers that go away."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from traces import limits
from traces.errors import TraceError
from traces.io import loads, read
from traces.schema import Trace

STANDARD: Final = "-"
"""Standard input, or output, where a file is named."""
GONE: Final = 141
"""Exit code of a command whose reader went away, as that of others that a closed pipe ends."""
FULL: Final = 74
"""Exit code where output could not be written, as sysexits.h has it."""


def read_named(path: str) -> Trace:
    """The trace of a file that a command names, or of standard input for `-`.

    Raises:
        TraceError: for whatever is wrong with it; the field begins with the path as it was given.
    """
    try:
        if path == STANDARD:
            return loads(sys.stdin.buffer.read(limits.FILE_BYTES + 1), name=path)
        return read(path)
    except TraceError as error:
        whole = error.field in (path, Path(path).name)
        field = path if whole else f"{path}: {error.field}"
        raise TraceError(field, error.problem, error.remedy, more=error.more) from None
    except OSError as error:
        raise TraceError(path, f"cannot be read ({error.strerror})", "check the path") from None


def piped(main: Callable[[], int]) -> int:
    """The exit code of a command, whose output may go to a reader that has seen enough, as `head` has."""
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the exit
        if isinstance(error, BrokenPipeError):
            return GONE
        sys.stderr.write(f"{error.filename or 'standard output'}: {error.strerror}; choose another place.\n")
        return FULL
    return code
