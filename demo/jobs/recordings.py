"""Recorded traces that ship with the app, each with its baseline if that was recorded as well.

`draftscope dev record` decodes the runs listed in assets/traces/gallery.json, or those named. The list has one entry
per run: `file`, `method`, and if they differ from the defaults `model`, `prompt`, `seed` and `settings`; `title` and
`about` are shown in the gallery, and `first` puts the run on the first screen.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from draftscope.analysis.baselines import baseline_of
from draftscope.analysis.run_report import RunReport, run_reports
from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled import tally
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.traces import TraceError, read, write
from draftscope.traces.files import ASSETS
from draftscope.traces.labels import is_baseline, method_name
from draftscope.traces.schema import Trace

FOLDER: Final = ASSETS / "traces"
LIST: Final = "gallery.json"
_PROMPT_CHARACTERS: Final = 60
_PROBLEMS: Final = FOLDER.parent / "problems.json"
_TRACES: Final = "*.json.gz"
_LOG: Final = logging.getLogger(__name__)


class Recording(NamedTuple):
    """A recorded run, with its baseline before it where there is one."""

    method: str
    title: str
    about: str
    note: str
    """Prompt and forward passes, read off the traces."""
    paths: tuple[Path, ...]
    traces: tuple[Trace, ...]
    first: bool = False
    """Whether the first screen shows it, whatever others gain."""

    @property
    def report(self) -> RunReport:
        """The report of the last run, compared with its baseline if there is one."""
        return run_reports(self.traces)[-1]

    @property
    def address(self) -> str:
        """Return the URL fragment of the page while the recording is shown."""
        return urlencode({"gallery": self.name})

    @property
    def name(self) -> str:
        """Return the name of the recording in links."""
        return self.paths[-1].name.removesuffix(".json.gz")


def recordings(folder: Path = FOLDER) -> tuple[Recording, ...]:
    """Return all recordings in a folder, listed ones first and in their order; invalid traces are left out."""
    by_file = {entry["file"]: entry for entry in listed(folder)}
    order = {name: number for number, name in enumerate(by_file)}
    paths = sorted(folder.glob(_TRACES), key=lambda path: (order.get(path.name, len(order)), path.name))
    sound = [(path, trace) for path in paths if (trace := _sound(path))]
    pairs = [[*_baseline_of(trace, sound), (path, trace)] for path, trace in sound if not is_baseline(trace)]
    used = {path for pair in pairs for path, _ in pair}
    alone = [[entry] for entry in sound if entry[0] not in used]
    return tuple(_recording(entries, by_file.get(entries[-1][0].name, {})) for entries in [*pairs, *alone])


def record(entry: Mapping[str, Any], folder: Path = FOLDER) -> Trace:
    """Decode what an entry of the list asks for and write its trace into `folder`."""
    options = {"seed": entry.get("seed", 0), "settings": entry.get("settings", {})}
    run = Run(RunRequest(entry["method"], entry.get("model"), entry.get("prompt"), **options).job())
    run.finish()
    trace = run.trace()
    write(trace, folder / entry["file"])
    return trace


def listed(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of gallery.json in a folder; none if the file is missing or unreadable."""
    path = folder / LIST
    try:
        entries = json.loads(path.read_text("utf-8")) if path.exists() else []
    except (OSError, ValueError, RecursionError) as error:
        _LOG.warning("%s: cannot be read (%s); restore it from the repository", LIST, error)
        return []
    named = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("file"), str)]
    return named if isinstance(entries, list) else []


def answers_to(prompts: Iterable[str | None]) -> dict[str, str | list[str]]:
    """Return the correct answers to prompts if known: a number, or one regular expression per line."""
    found = {prompt: _answer(prompt) for prompt in prompts if prompt}
    return {prompt: right for prompt, right in found.items() if right}


def _answer(prompt: str) -> str | list[str] | None:
    try:
        return _answers().get(prompt) or tally.read(prompt).lines()
    except ValueError:  # no story, nor a problem
        return None


@cache
def _answers() -> dict[str, str]:
    return {one["question"]: one["answer"] for one in json.loads(_PROBLEMS.read_text("utf-8"))}


def invalid_recordings(among: Sequence[Recording], folder: Path = FOLDER) -> list[str]:
    """Return the names of listed files that are missing or invalid, and of invalid files in the folder."""
    used = {path.name for recording in among for path in recording.paths}
    return sorted(({entry["file"] for entry in listed(folder)} | {path.name for path in folder.glob(_TRACES)}) - used)


def _sound(path: Path) -> Trace | None:
    try:
        return read(path)
    except (TraceError, OSError) as error:
        _LOG.warning("%s: is left out of the gallery: %s", path.name, error)
        return None


def _baseline_of(trace: Trace, among: Sequence[tuple[Path, Trace]]) -> list[tuple[Path, Trace]]:
    base = baseline_of(trace, (other for _, other in among))
    return [(path, other) for path, other in among if other is base]


def _recording(entries: Sequence[tuple[Path, Trace]], entry: Mapping[str, Any]) -> Recording:
    traces = tuple(trace for _, trace in entries)
    trace = traces[-1]
    prompt = shorten(trace.prompt, _PROMPT_CHARACTERS, placeholder=" ...")
    return Recording(
        method=trace.method,
        title=entry.get("title", method_name(trace)),
        about=entry.get("about", ""),
        note=f"{prompt or trace.model.title or trace.model.id}, {run_reports(traces)[-1].counts()}",
        paths=tuple(path for path, _ in entries),
        traces=traces,
        first=entry.get("first", False),
    )


KINDS: Final = ("text", "picture", "video", "continuous")
"""Kinds of output, in the order in which they are offered."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording with its baseline."""

    kind: str
    """One of `KINDS`."""
    recording: Recording


def pairs(among: Sequence[Recording]) -> tuple[Pair, ...]:
    """One pair for each kind that was recorded with its baseline, the one that shows best what drafting does."""
    last = [(one, one.traces[-1]) for one in among if len(one.traces) > 1 and one.method in METHODS]
    fit = [one for one, trace in last if trace.summary.complete and trace.summary.judged]
    by_kind = {kind: [one for one in fit if kind_of(one.traces[-1]) == kind] for kind in KINDS}
    return tuple(Pair(kind, max(ones, key=_merit)) for kind, ones in by_kind.items() if ones)


def kind_of(trace: Trace) -> str:
    """Return the kind of output of a run."""
    if trace.method in METHODS and METHODS[trace.method].family == "continuous-ar":
        return "continuous"
    return {"image": "picture"}.get(trace.canvas.kind, trace.canvas.kind)


def _merit(one: Recording) -> tuple[bool, bool, bool, float]:
    """Runs that take fewer passes come first, among others those that are exact; then what a pass accepts counts."""
    baseline, accelerated = one.traces[0].summary, one.traces[-1].summary
    fewer = accelerated.forwards < baseline.forwards
    exact = one.report.fidelity == "exact"
    return one.first, fewer, fewer or exact, accelerated.accepted / accelerated.forwards
