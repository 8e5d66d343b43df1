"""Session of a user: a folder of files, the traces being viewed, and a way to stop a run.

The folder's name is a secret hash of the session. So a client cannot choose it, another cannot guess it, and no table
of sessions is needed. A stop request is an empty file in it: a decoder in any thread sees it before its next forward
pass.

Browsers fetch traces at URLs of this app: Gradio would expose the full path on the disk.
"""

import hashlib
import hmac
import re
import secrets
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from draftscope.demo.server.limits import FILE_LIFETIME_SECONDS
from draftscope.demo.server.startup import remove_folder, temporary_folder
from draftscope.traces import read, write
from draftscope.traces.schema import Trace

TRACE_ADDRESS: Final = "/traces/{folder}/{file}"
_STOP: Final = "stop"
_PLAIN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_FOLDER: Final = re.compile(r"[\w-]+", re.ASCII)
_FILE: Final = re.compile(r"[\w-][\w.-]*\.json\.gz", re.ASCII)


@dataclass(frozen=True, slots=True)
class CurrentTraces:
    """Trace files that a user is viewing: one, or a baseline and the run compared with it."""

    paths: tuple[Path, ...] = ()
    origin: str = ""
    """Origin of the traces, in words."""

    def traces(self) -> tuple[Trace, ...]:
        """Read the traces; none if they were removed with the session, for which something may still be drawn."""
        try:
            return tuple(read(path) for path in self.paths)
        except FileNotFoundError:
            return ()


def url(path: Path) -> str:
    """Return the URL of a trace, relative to the page."""
    return TRACE_ADDRESS.removeprefix("/").format(folder=quote(path.parent.name), file=quote(path.name))


def trace_file(folder: str, file: str, visitors: Path, recorded: Sequence[Path]) -> Path | None:
    """The trace that an address names: a visitor's, or one of the recorded ones; None where there is no such trace."""
    if not (_FOLDER.fullmatch(folder) and _FILE.fullmatch(file)):
        return None
    known = {folder.name: folder.resolve() for folder in recorded}
    inside = known.get(folder, visitors.resolve() / folder)
    path = inside / file
    return path if path.is_file() and path.resolve().parent == inside else None


def file_name(trace: Trace) -> str:
    """Return a file name without suffix for a trace: a trace from elsewhere may contain a path as its method."""
    method = trace.method if _PLAIN_NAME.fullmatch(trace.method) else "trace"
    return method if trace.seed is None else f"{method}-seed-{trace.seed}"


class Visitor:
    """One visitor's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        """Forget an earlier request to stop."""
        (self.folder / _STOP).unlink(missing_ok=True)

    def stop(self) -> None:
        """Ask the decoder to stop."""
        (self.folder / _STOP).touch()

    def stopped(self) -> bool:
        """Whether the visitor asked to stop."""
        return (self.folder / _STOP).exists()

    def keep(self, traces: Sequence[Trace], origin: str) -> CurrentTraces:
        """Write traces where the browser can fetch them."""
        paths = []
        for trace in traces:
            path = self.folder / f"{file_name(trace)}-{secrets.token_hex(4)}.json.gz"
            write(trace, path)
            paths.append(path)
        return CurrentTraces(tuple(paths), origin)

    def file(self, name: str) -> Path:
        """A path for a file the visitor will download; `name` is ours, never the visitor's."""
        folder = self.folder / secrets.token_hex(4)
        folder.mkdir()
        return folder / name

    def delete_files(self) -> None:
        """Remove everything."""
        self.stop()  # a run that is still under way ends before its next forward pass
        for path in self.folder.iterdir():
            if path.name != _STOP:
                remove_folder(path) if path.is_dir() else path.unlink(missing_ok=True)


class Visitors:
    """The folders of all visitors, below one that goes when the program ends."""

    def __init__(self) -> None:
        self.root = temporary_folder()
        """The folder the server may hand files out from."""
        self._secret = secrets.token_bytes(32)
        self._closed = False
        weakref.finalize(self, remove_folder, self.root)

    def of(self, session: str | None) -> Visitor:
        """The visitor of a session."""
        folder = self.root / hmac.new(self._secret, (session or "").encode(), hashlib.sha256).hexdigest()[:32]
        folder.mkdir(parents=not self._closed, exist_ok=True)  # the system may have removed an old, empty root
        return Visitor(folder)

    def close(self) -> None:
        """Remove all folders. What still runs for a visitor finds its folder no more: FileNotFoundError."""
        self._closed = True
        remove_folder(self.root)

    def prune(self, kept_seconds: float = FILE_LIFETIME_SECONDS) -> None:
        """Remove folders that have not been written to for `kept_seconds`."""
        oldest = time.time() - kept_seconds
        with suppress(FileNotFoundError):  # another request removes them at the same time
            for folder in self.root.iterdir():
                if folder.stat().st_mtime < oldest:
                    remove_folder(folder)
