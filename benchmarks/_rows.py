"""The rows of a sweep on disk: JSON lines that are appended and never changed, so that a kill loses none of them.

Beside rows there are lines with nothing but `about`: when and with which software a stretch of the sweep ran.
"""

import fcntl
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from traces.files import whole
from traces.results import ResultRow, SweepError, read_line, written
from traces.streams import STANDARD

ENDINGS: Final = (".jsonl", ".jsonl.gz")


class RowsError(ValueError):
    """A file that is not one of ours, or holds rows of something else; the message names field, value and remedy."""


class Rows:
    """The rows of one file. Only one process may write: from `begin` on the file is locked, and a kill unlocks it."""

    def __init__(self, path: Path) -> None:
        """Read what is there, without its last line where that was cut off.

        Raises:
            RowsError: for a name or folder that cannot be, and for lines that are no rows.
        """
        if not path.name.endswith(ENDINGS):
            raise RowsError(f"-o: {str(path)!r} must end in {' or '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise RowsError(f"-o: the folder {str(path.parent)!r} does not exist; make it first")
        self.path = path
        self._zipped = path.suffix == ".gz"
        self._plain = path.with_name(path.name + ".part") if self._zipped else path
        self._sound_bytes = 0
        self._open: IO[bytes] | None = None
        self.rows = self._read()

    def _read(self) -> dict[str, ResultRow]:
        """Key -> row."""
        source = self._plain if self._plain.exists() else self.path
        rows: dict[str, ResultRow] = {}
        if not source.exists():
            return rows
        data = source.read_bytes()
        try:
            data = gzip.decompress(data) if source.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error) as error:
            raise RowsError(f"-o: {source} cannot be unpacked ({error}); name another file") from None
        self._sound_bytes = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._sound_bytes].splitlines(), 1):
            row = _parsed(line, f"{source}, line {number}")
            if row:
                rows[row.key] = row
        return rows

    def begin(self, about: Mapping[str, Any]) -> None:
        """Make ready to append, and say about what.

        Raises:
            RowsError: while another process writes, or where one wrote since the rows were read.
            OSError: where the file cannot be written.
        """
        with self._claimed() as free:
            if free and self._zipped and self.path.exists():
                with whole(self._plain) as part:
                    part.write_bytes(gzip.decompress(self.path.read_bytes()))
            self._open = self._locked()
        there = list(self.rows)
        if list(self._read()) != there:
            self.release()
            raise RowsError(f"-o: another sweep wrote to {self.path} just now; give the same command again")
        self._open.truncate(self._sound_bytes)
        self._write([json.dumps({"about": about}, separators=(",", ":")).encode() + b"\n"])

    def append(self, rows: Sequence[ResultRow]) -> None:
        """Add rows; they are in the file when this returns.

        Raises:
            SweepError: for a row that could not be read again; then none is written.
        """
        self._write([written(row) for row in rows])
        self.rows |= {row.key: row for row in rows}

    def finish(self) -> None:
        """All rows are there: compress them where the name says so, and let others write.

        Raises:
            RowsError: while another process writes.
            OSError: where the file cannot be written.
        """
        if self._zipped and self._plain.exists():
            self._open = self._open or self._locked()
            with whole(self.path) as part:
                part.write_bytes(gzip.compress(self._plain.read_bytes(), 9, mtime=0))
            with self._claimed():
                self._plain.unlink()
        self.release()

    def release(self) -> None:
        """Let others write, with what is there."""
        if self._open:
            with suppress(OSError):  # what could not be written was told when it was tried
                self._open.close()
            self._open = None

    def _write(self, lines: Iterable[bytes]) -> None:
        file = self._open or self._locked()
        file.write(b"".join(lines))
        file.flush()
        self._open = file

    @contextmanager
    def _claimed(self) -> Iterator[bool]:
        """Whether nobody began yet, while the folder is locked: what is unpacked is unpacked once."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield not self._plain.exists()
        finally:
            os.close(folder)

    def _locked(self) -> IO[bytes]:
        """The file to append to, which nobody else may now."""
        file = self._plain.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            remedy = "wait until it is done, or name another file"
            raise RowsError(f"-o: another sweep is writing to {self.path}; {remedy}") from None
        return file


class PrintedRows(Rows):
    """Rows that go to standard output: nothing is there before, and nothing can go on from there."""

    def __init__(self) -> None:
        """Begin without any."""
        self.path = Path(STANDARD)
        self._open = None
        self.rows = {}

    def begin(self, about: Mapping[str, Any]) -> None:
        """Say about what."""
        self._write([json.dumps({"about": about}, separators=(",", ":")).encode() + b"\n"])

    def finish(self) -> None:
        """All rows are there."""

    def _write(self, lines: Iterable[bytes]) -> None:
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.flush()


def rows_of(path: Path) -> Rows:
    """The rows of a file that a command names; `-` is standard output.

    Raises:
        RowsError: as for `Rows`.
    """
    return PrintedRows() if str(path) == STANDARD else Rows(path)


def _parsed(line: bytes, where: str) -> ResultRow | None:
    """The row of a sweep; None for a line about its making."""
    try:
        row = read_line(line, where)
    except SweepError as error:
        raise RowsError(f"{error}, or name another file with -o") from None
    if not isinstance(row, ResultRow):
        return None
    missing = "weights" if row.key else "key"
    if not getattr(row, missing):
        raise RowsError(f"{where}.{missing}: is missing, so no sweep wrote the row; name another file with -o")
    return row
