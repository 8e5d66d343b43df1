"""The rows of a sweep on disk: JSON lines that are appended and never changed, so that a kill loses none of them.

Beside rows there are lines with nothing but `about`: when and with which software a stretch of the sweep ran.
"""

import gzip
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from traces.results import ResultRow, SweepError, read_line, written
from traces.streams import STANDARD

ENDINGS: Final = (".jsonl", ".jsonl.gz")


class RowsError(ValueError):
    """A file that is not one of ours, or holds rows of something else; the message names field, value and remedy."""


class Rows:
    """The rows of one file. Only one process may write."""

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
        except (OSError, EOFError) as error:
            raise RowsError(f"-o: {source} cannot be unpacked ({error}); name another file") from None
        self._sound_bytes = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._sound_bytes].splitlines(), 1):
            row = _parsed(line, f"{source}, line {number}")
            if row:
                rows[row.key] = row
        return rows

    def begin(self, about: Mapping[str, Any]) -> None:
        """Make ready to append, and say about what."""
        if self._zipped and not self._plain.exists() and self.path.exists():
            unfinished = self._plain.with_suffix(".tmp")
            unfinished.write_bytes(gzip.decompress(self.path.read_bytes()))
            os.replace(unfinished, self._plain)
        if self._plain.exists():
            os.truncate(self._plain, self._sound_bytes)
        self._write([json.dumps({"about": about}, separators=(",", ":")).encode() + b"\n"])

    def append(self, rows: Sequence[ResultRow]) -> None:
        """Add rows; they are in the file when this returns.

        Raises:
            SweepError: for a row that could not be read again; then none is written.
        """
        self._write([written(row) for row in rows])
        self.rows |= {row.key: row for row in rows}

    def finish(self) -> None:
        """All rows are there: compress them where the name says so."""
        if not self._zipped or not self._plain.exists():
            return
        unfinished = self._plain.with_suffix(".tmp")
        with unfinished.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:  # no name, no time
            packed.write(self._plain.read_bytes())
        os.replace(unfinished, self.path)
        self._plain.unlink()

    def _write(self, lines: Iterable[bytes]) -> None:
        with self._plain.open("ab") as file:
            file.write(b"".join(lines))


class PrintedRows(Rows):
    """Rows that go to standard output: nothing is there before, and nothing can go on from there."""

    def __init__(self) -> None:
        """Begin without any."""
        self.path = Path(STANDARD)
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
