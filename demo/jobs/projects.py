"""Projects: the runs of a comparison as one JSON text, which a browser keeps and a file carries.

A recorded run is kept by its name, a run that can be decoded again by its link, and any other as its trace. A project
can come from anywhere, so all of it is checked, and nothing in it becomes a path.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from draftscope.demo.jobs.links import MAX_LINK_CHARACTERS, linked_runs
from draftscope.demo.jobs.run_selection import MAX_STORED_RUNS, RunSelection, SelectableRun
from draftscope.demo.server.sessions import url
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, format_value
from draftscope.traces import TraceError, loads
from draftscope.traces.schema import Trace

KIND: Final = "draftscope-project"
VERSION: Final = 1
MAX_FILE_BYTES: Final = 2**20
"""Maximum size of a trace in a project, compressed."""
MAX_BYTES: Final = 4 * 2**20
"""Maximum size of a project: browsers keep about 5 MB for a site."""
MAX_NAME: Final = 60
_AGAIN: Final = "export the project again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """A run of a project."""

    run: str | RunRequest | Trace
    """Name of a recording, what decodes the run again, or its trace."""
    chosen: int
    """Number among the selected runs, from 1; 0 if it is not selected."""


@dataclass(frozen=True, slots=True)
class Project:
    """The runs of a comparison."""

    name: str
    runs: tuple[SavedRun, ...]


def read_project(text: object) -> Project:
    """Read a project.

    Raises:
        ConfigError: With the field, its value and the remedy.
    """
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        raise ConfigError(f"project: is not a text of at most {MAX_BYTES // 2**20} MiB; {_AGAIN} with fewer traces.")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"project: is not JSON; {_AGAIN}.") from None
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("version") != VERSION:
        raise ConfigError(f"project: kind and version are not {KIND} {VERSION}; {_AGAIN} with this version of the app.")
    if unknown := data.keys() - {"kind", "version", "name", "runs"}:
        raise ConfigError(f"project: has an unknown field {format_value(min(unknown)[:MAX_NAME])}; remove it.")
    name, runs = data.get("name"), data.get("runs")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        raise ConfigError(f"name: is not a text of 1 to {MAX_NAME} characters; rename the project.")
    if not isinstance(runs, list) or len(runs) > 2 * MAX_STORED_RUNS:
        raise ConfigError(f"runs: is not a list of up to {2 * MAX_STORED_RUNS} runs; {_AGAIN}.")
    return Project(name, tuple(_run(number, run) for number, run in enumerate(runs, 1)))


def _run(number: int, data: Any) -> SavedRun:
    what = f"run {number}"
    if not isinstance(data, dict) or data.keys() not in ({"link", "chosen"}, {"file", "chosen"}):
        raise ConfigError(f"{what}: does not have the two fields chosen and link or file; {_AGAIN}.")
    chosen = data["chosen"]
    if type(chosen) is not int or not 0 <= chosen <= MAX_STORED_RUNS:
        raise ConfigError(f"{what}: chosen is not a whole number from 0 to {MAX_STORED_RUNS}; {_AGAIN}.")
    value = data.get("link", data.get("file"))
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{what}: link or file is not a text; {_AGAIN}.")
    try:
        run = _linked(value) if "link" in data else _trace(value, what)
    except (ConfigError, TraceError) as error:
        message = str(error)
        raise ConfigError(message if message.startswith(what) else f"{what}: {message}") from None
    return SavedRun(run=run, chosen=chosen)


def _linked(link: str) -> str | RunRequest:
    found = linked_runs(link)
    if not found:
        raise ConfigError(f"link: has more than {MAX_LINK_CHARACTERS} characters; remove the run.")
    return found[0]


def _trace(text: str, what: str) -> Trace:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ConfigError(f"file: is not base64; {_AGAIN}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"file: has more than {MAX_FILE_BYTES // 2**20} MiB; open the trace by itself.")
    return loads(data, name=what)


def saved_runs(tray: RunSelection, undecoded: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return what a page keeps of a selection.

    Args:
        tray: The runs of the visitor, and the selected ones.
        undecoded: Links of runs that the project has and that were not decoded yet.

    Returns:
        Runs as in a project; a trace is given by the `url` where the page gets it, with its `id` and `title`.
    """
    numbers = {entry.id: number for number, entry in enumerate(tray.chosen, 1)}
    by_id = {entry.id: entry for entry in (*tray.added, *tray.chosen)}
    runs = [_saved(entry, numbers.get(entry.id, 0)) for entry in by_id.values()]
    return [*runs, *({"link": link, "chosen": 0} for link in undecoded)]


def _saved(entry: SelectableRun, number: int) -> dict[str, Any]:
    if entry.source == "recorded" or entry.request is not None:
        return {"link": entry.address, "chosen": number}
    return {"url": url(entry.path), "id": entry.id, "title": entry.title, "chosen": number}
