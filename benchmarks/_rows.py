"""The rows of a sweep on disk: JSON lines that are appended and never changed, so that a kill loses none of them.

Beside rows there are lines with nothing but `about`: when and with which software a stretch of the sweep ran.
"""

import fcntl
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from analysis.results import ResultRow, SweepError, read_line, to_line
from traces.files import write_atomic

ENDINGS: Final = (".jsonl", ".jsonl.gz")


class Rows:
    """The rows of one file. Only one process may write: from `begin` on the file is locked, and a kill unlocks it."""

    def __init__(self, path: Path) -> None:
        """Read what is there, without what an interruption cut off at its end.

        Raises:
            SweepError: for a name or folder that cannot be, and for lines that are no rows.
        """
        if not path.name.endswith(ENDINGS):
            raise SweepError(f"-o: {str(path)!r} must end in {' or '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise SweepError(f"-o: the folder {str(path.parent)!r} does not exist; make it first")
        self.path = path
        self._packed = path.suffix == ".gz"
        self._file: IO[bytes] | None = None
        parsed = [_parsed(line, f"{path}, line {i}") for i, line in enumerate(self._lines(), 1)]
        self.rows = {row.key: row for row in parsed if row}

    def begin(self, about: Mapping[str, Any]) -> None:
        """Make ready to append, and say about what.

        Raises:
            SweepError: while another process writes, or where one wrote since the rows were read.
            OSError: where the file cannot be written.
        """
        file = self._locked()
        with file:
            now = Rows(self.path)
            if list(now.rows) != list(self.rows) or not os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                raise SweepError(f"-o: another sweep wrote to {self.path} just now; give the same command again")
            line = json.dumps({"about": about}, separators=(",", ":")).encode() + b"\n"
            self._replace([*now._lines(), line])
            self._file = self._locked()

    def append(self, rows: Sequence[ResultRow]) -> None:
        """Add rows; they are in the file when this returns.

        Raises:
            SweepError: for a row that could not be read again; then none is written.
        """
        assert self._file, "begin first"
        data = b"".join([to_line(row) for row in rows])
        self._file.write(gzip.compress(data) if self._packed else data)  # all are compressed together in the end
        self._file.flush()
        self.rows |= {row.key: row for row in rows}

    def finish(self) -> None:
        """All rows are there: compress them together where the name says so, and let others write.

        Raises:
            OSError: where the file cannot be written.
        """
        if self._packed and self._file:
            self._replace(self._lines())
        self.release()

    def release(self) -> None:
        """Let others write, with what is there."""
        if self._file:
            with suppress(OSError):  # an error of writing was reported before
                self._file.close()
            self._file = None

    def _lines(self) -> list[bytes]:
        """The whole lines of the file."""
        lines: list[bytes] = []
        try:
            with gzip.open(self.path) if self._packed else self.path.open("rb") as file:
                lines.extend(file)
        except FileNotFoundError:
            pass
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            if not (lines and isinstance(error, EOFError)):  # a kill cut off what was compressed last
                raise SweepError(f"-o: {self.path} cannot be unpacked ({error}); name another file") from None
        return [line for line in lines if line.endswith(b"\n")]

    def _locked(self) -> IO[bytes]:
        """The file to append to, locked against other processes."""
        file = self.path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            remedy = "wait until it is done, or name another file"
            raise SweepError(f"-o: another sweep is writing to {self.path}; {remedy}") from None
        return file

    def _replace(self, lines: Iterable[bytes]) -> None:
        data = b"".join(lines)
        write_atomic(self.path, gzip.compress(data, 9, mtime=0) if self._packed else data)


def _parsed(line: bytes, where: str) -> ResultRow | None:
    """The row of a sweep; None for a line about its making."""
    try:
        row = read_line(line, where)
    except SweepError as error:
        raise SweepError(f"{error}, or name another file with -o") from None
    if not isinstance(row, ResultRow):
        return None
    missing = "weights" if row.key else "key"
    if not getattr(row, missing):
        raise SweepError(f"{where}.{missing}: is missing, so no sweep wrote the row; name another file with -o")
    return row
