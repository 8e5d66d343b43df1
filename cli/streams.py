"""What command lines share: `-` for standard input, errors that name the file once, and readers that go away."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
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
_MOST: Final = 500
"""Characters of a library's message."""
LOW: Final = 71
"""Exit code where memory did not suffice, as sysexits.h has it."""


def read_named(path: str) -> Trace:
    """The trace of a file, or of standard input for `-`; raises TraceError, whose field begins with the path."""
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


def bytes_of(path: str | os.PathLike[str]) -> bytes:
    """What a file holds, or standard input for `-`; raises OSError."""
    return sys.stdin.buffer.read() if os.fspath(path) == STANDARD else Path(path).read_bytes()


@contextmanager
def output_file(named: str, ending: str) -> Iterator[Path]:
    """The path to write to: the one that a command names, or for `-` a file that goes to standard output afterwards.

    Args:
        named: What the command was given.
        ending: That of the file where it is `-`, with its dot.
    """
    if named != STANDARD:
        yield Path(named)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"output{ending}"
        yield path
        if path.exists():
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()


def exit_code_for_pipe(main: Callable[[], int | None]) -> int:
    """The exit code of a command, whose output may go to a reader that has seen enough, as `head` has."""
    try:
        try:
            code = main() or 0
        finally:
            sys.stdout.flush()  # also where argparse exits behind its help
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the exit
        if isinstance(error, BrokenPipeError):
            return GONE
        if error.errno is None:  # what a library makes of a file that it cannot read
            sys.stderr.write(f"{' '.join(str(error).split())[:_MOST]}\n")
            return 1
        sys.stderr.write(f"{error.filename or 'standard output'}: {error.strerror}; choose another path.\n")
        return FULL
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):  # torch has no class for this
            raise
        sys.stderr.write("memory: there is not enough for this; give a smaller file, or more memory.\n")
        return LOW
    return code
