"""Standard input and output of commands: `-` as a file name, and readers that close a pipe early."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from draftscope.cli.errors import INVALID, NOT_WRITTEN, OUT_OF_MEMORY, READER_GONE, CommandError
from draftscope.traces import limits
from draftscope.traces.errors import TraceError
from draftscope.traces.files import STANDARD
from draftscope.traces.io import loads, read
from draftscope.traces.schema import Trace

_MAX_CHARACTERS: Final = 500
"""Length to which messages of libraries are cut."""


def read_trace(path: str) -> Trace:
    """Return the trace of a file, or of standard input for `-`.

    Raises:
        TraceError: The file cannot be read or is invalid; the field begins with the path.
    """
    try:
        if path == STANDARD:
            return loads(sys.stdin.buffer.read(limits.FILE_BYTES + 1), name=path)
        return read(path)
    except TraceError as error:
        concerns_file = error.field in (path, Path(path).name)
        field = path if concerns_file else f"{path}: {error.field}"
        raise TraceError(field, error.problem, error.remedy, more=error.more) from None
    except OSError as error:
        raise TraceError(path, f"cannot be read ({error.strerror})", "check the path") from None


@contextmanager
def output_file(path: str, suffix: str) -> Iterator[Path]:
    """Yield the path to write to.

    Args:
        path: Path given on the command line. For `-`, a temporary file is copied to standard output at the end.
        suffix: File name extension of the temporary file, with its dot.
    """
    if path != STANDARD:
        yield Path(path)
        return
    with TemporaryDirectory() as folder:
        temporary = Path(folder) / f"output{suffix}"
        yield temporary
        if temporary.exists():
            with temporary.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()


@contextmanager
def report_unwritable(path: str, field: str = "-o") -> Iterator[None]:
    """Turn an OSError while a file is written into a CommandError; a closed pipe passes through."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"{field}: {path!r} cannot be written ({error.strerror}); choose another path.") from error


def exit_code_for_pipe(main: Callable[[], int | None]) -> int:
    """Run a command and return its exit code, also where output, input or memory fails.

    A reader may close the pipe early, as `head` does; this gives READER_GONE without a message.
    """
    try:
        try:
            code = main() or 0
        finally:
            sys.stdout.flush()  # also after SystemExit
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        if isinstance(error, BrokenPipeError):
            return READER_GONE
        if error.errno is None:  # raised by libraries for files that they cannot read
            sys.stderr.write(f"{' '.join(str(error).split())[:_MAX_CHARACTERS]}\n")
            return INVALID
        sys.stderr.write(f"{error.filename or 'standard output'}: {error.strerror}; choose another path.\n")
        return NOT_WRITTEN
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):  # torch has no class for this
            raise
        sys.stderr.write("memory: not enough is free; give a smaller file, or free memory.\n")
        return OUT_OF_MEMORY
    return code
