"""Stores of results: in memory, or as JSON lines in a file that an interrupted experiment resumes.

Lines are appended and never changed, so that a killed process loses none. Lines with only `about` give the date and
the software of the rows after them.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Protocol

import torch
from filelock import FileLock, Timeout

from draftscope.analysis.groups import canonical
from draftscope.analysis.results import ResultRow, SweepError, read_line, to_line
from draftscope.engines.runtime.environment import environment
from draftscope.experiments.definition import PlannedRun
from draftscope.experiments.executors import RunOutcome
from draftscope.traces.files import write_atomic
from draftscope.traces.schema import Trace

ENDINGS: Final = (".jsonl", ".jsonl.gz")


class ResultStore(Protocol):
    """Keeps results; what a store has no need for, it inherits."""

    def __contains__(self, run: PlannedRun) -> bool:
        """Whether a run is done, so that it is skipped."""

    def check(self, runs: Sequence[PlannedRun], weights: Mapping[str, str]) -> None:
        """Check that what the store holds can be mixed with new results.

        Args:
            runs: The runs of the experiment.
            weights: Hash of the weights by model id.

        Raises:
            SweepError: If it cannot.
        """
        return

    def open(self) -> None:
        """Prepare for `add`."""
        return

    def add(self, outcome: RunOutcome) -> None:
        """Add a result. It is durable when this returns."""

    def close(self, *, complete: bool) -> None:
        """Release the store; `complete` if all runs of the experiment are in it."""
        return


class MemoryStore(ResultStore):
    """Results in memory, with traces."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, tuple[int, int, int]], RunOutcome] = {}

    @property
    def outcomes(self) -> tuple[RunOutcome, ...]:
        """Results sorted by prompt, seed and arm."""
        return tuple(sorted(self._outcomes.values(), key=lambda outcome: outcome.run.order))

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """Rows of the results, sorted by prompt, seed and arm."""
        return tuple(outcome.row for outcome in self.outcomes)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Traces of the results, sorted by prompt, seed and arm; arms with a runner have none."""
        return tuple(outcome.trace for outcome in self.outcomes if outcome.trace)

    def __contains__(self, run: PlannedRun) -> bool:
        return (run.key, run.order) in self._outcomes

    def add(self, outcome: RunOutcome) -> None:
        """Add a result."""
        self._outcomes[outcome.run.key, outcome.run.order] = outcome


class JsonlStore(ResultStore):
    """Rows in a file of JSON lines.

    From `open` to `close` the file with its name and .lock is locked; a killed process unlocks it.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Read the rows that the file contains, without a last line that an interruption cut off.

        Args:
            path: File that ends in .jsonl or .jsonl.gz; it need not exist.
            about: Facts for the line before new rows, in addition to date, commit and libraries.

        Raises:
            SweepError: For an invalid name or folder, and for lines that are not rows of an experiment.
        """
        self.path, self._about = Path(path), dict(about or {})
        if not self.path.name.endswith(ENDINGS):
            raise SweepError(f"output: {str(path)!r} is not allowed; use a name that ends in {' or '.join(ENDINGS)}")
        if not self.path.parent.is_dir():
            raise SweepError(f"output: the folder {str(self.path.parent)!r} does not exist; create it first")
        self._compressed = self.path.suffix == ".gz"
        self._file: IO[bytes] | None = None
        self._lock = FileLock(f"{self.path}.lock", blocking=False, thread_local=False)
        parsed = [_parse(line, f"{self.path}, line {i}") for i, line in enumerate(self._lines(), 1)]
        self.rows: dict[str, ResultRow] = {row.key: row for row in parsed if row}
        """Rows by key."""

    def __contains__(self, run: PlannedRun) -> bool:
        return run.key in self.rows

    def check(self, runs: Sequence[PlannedRun], weights: Mapping[str, str]) -> None:
        """Check that the rows of the file have the weights and labels of these runs.

        Rows of other weights, or of the same settings by another label, would end up in the same figure.

        Raises:
            SweepError: If the file contains such rows.
        """
        labels = {(run.arm.method, canonical(run.config)): run.arm.label for run in runs}
        for row in self.rows.values():
            for model, digest in row.weights.items():
                if weights.get(model, digest) != digest:
                    raise SweepError(
                        f"output: {self.path} contains rows of other weights of {model}; name another file"
                    )
            label = labels.get((row.method, canonical(row.config)), row.label)
            if label != row.label:
                raise SweepError(
                    f"label: {label!r} is {row.label!r} in {self.path}; keep that label or name another file"
                )

    def open(self) -> None:
        """Lock the file and write a line about the rows that follow.

        Raises:
            SweepError: While another process writes, or if one wrote since the rows were read.
            OSError: If the file cannot be written.
        """
        try:
            self._lock.acquire()
        except Timeout:
            remedy = "wait until it is done, or name another file"
            raise SweepError(f"output: another process is writing to {self.path}; {remedy}") from None
        try:
            current = JsonlStore(self.path)
            if list(current.rows) != list(self.rows):
                raise SweepError(f"output: another process has just written to {self.path}; run the same command again")
            software = environment(torch.device("cpu"), torch.float32)
            about = {
                **self._about,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "python": software.python,
                "libraries": software.libraries,
                "commit": software.commit,
                "threads": software.threads,
            }
            line = json.dumps({"about": about}, separators=(",", ":")).encode() + b"\n"
            self._replace([*current._lines(), line])
            self._file = self.path.open("ab")
        except BaseException:
            self._unlock()
            raise

    def add(self, outcome: RunOutcome) -> None:
        """Append a row; it is in the file when this returns.

        Raises:
            SweepError: For a row that could not be read again; it is not written.
            OSError: If the file cannot be written.
        """
        assert self._file, "call open first"
        line = to_line(outcome.row)
        self._file.write(gzip.compress(line) if self._compressed else line)  # `close` compresses all rows together
        self._file.flush()
        self.rows[outcome.row.key] = outcome.row

    def close(self, *, complete: bool) -> None:
        """Unlock the file; a complete one that is compressed is compressed again as a whole.

        Raises:
            OSError: If a complete file cannot be written.
        """
        if not self._file:
            return
        with suppress(OSError):  # an error of writing has been reported before
            self._file.close()
        self._file = None
        try:
            if complete and self._compressed:
                self._replace(self._lines())
        finally:
            self._unlock()

    def _lines(self) -> list[bytes]:
        """Return the complete lines of the file."""
        lines: list[bytes] = []
        try:
            with gzip.open(self.path) if self._compressed else self.path.open("rb") as file:
                lines.extend(file)
        except FileNotFoundError:
            pass
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            if not (lines and isinstance(error, EOFError)):  # a kill may cut off the row that was compressed last
                raise SweepError(f"output: {self.path} cannot be unpacked ({error}); name another file") from None
        return [line for line in lines if line.endswith(b"\n")]

    def _unlock(self) -> None:
        with suppress(OSError):  # Windows removes it on release
            Path(self._lock.lock_file).unlink()
        self._lock.release()

    def _replace(self, lines: Iterable[bytes]) -> None:
        data = b"".join(lines)
        write_atomic(self.path, gzip.compress(data, 9, mtime=0) if self._compressed else data)


def _parse(line: bytes, name: str) -> ResultRow | None:
    """Return the row of a line; None for a line about the rows."""
    try:
        row = read_line(line, name)
    except SweepError as error:
        raise SweepError(f"{error}, or name another output file") from None
    if not isinstance(row, ResultRow):
        return None
    missing = "weights" if row.key else "key"
    if not getattr(row, missing):
        raise SweepError(f"{name}.{missing}: is missing, so no experiment wrote the row; name another output file")
    return row
