"""The recorded traces that ship with the app, each beside ordinary decoding where that was recorded too.

`python -m demo record` makes what assets/traces/gallery.json lists, or those of its files that are named. The list
holds one record a run: `file`, `method`, and where they differ from the defaults `model`, `prompt`, `seed` and
`settings`; `title` and `about` are what the gallery says of it.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from demo.naming import title_of
from engines.config import as_values, make_config, settings
from engines.methods import METHODS, SHARED, ordinary
from engines.models.catalog import MODELS, default_model, load_model
from engines.runtime.driver import Job, Run
from traces import TraceError, read, write
from traces.schema import Trace
from traces.stats import draft_forwards

FOLDER: Final = Path(__file__).parents[1] / "assets" / "traces"
LIST: Final = "gallery.json"
_PROMPT_CHARACTERS: Final = 60
_TRACES: Final = "*.json.gz"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run, with its baseline before it where there is one."""

    method: str
    title: str
    about: str
    note: str
    """Prompt and forward passes, read off the traces."""
    paths: tuple[Path, ...]
    traces: tuple[Trace, ...]


def recordings(folder: Path = FOLDER) -> tuple[Recording, ...]:
    """All recordings in `folder`, listed ones first and in their order; files that are no sound traces are left out."""
    told = {entry["file"]: entry for entry in listed(folder)}
    place = {name: number for number, name in enumerate(told)}
    paths = sorted(folder.glob(_TRACES), key=lambda path: (place.get(path.name, len(place)), path.name))
    found = [(path, trace) for path in paths if (trace := _sound(path))]
    pairs = [[*_baseline_of(trace, found), (path, trace)] for path, trace in found if not _is_baseline(trace)]
    used = {path for pair in pairs for path, _ in pair}
    alone = [[entry] for entry in found if entry[0] not in used]
    return tuple(_recording(entries, told.get(entries[-1][0].name, {})) for entries in [*pairs, *alone])


def record(entry: Mapping[str, Any], folder: Path = FOLDER) -> Trace:
    """Decode what an entry of the list asks for and write its trace into `folder`."""
    method = METHODS[entry["method"]]
    model = entry.get("model", default_model(method.family))
    prompt = entry.get("prompt", MODELS[model].default_prompt)
    config = make_config(method.config, entry.get("settings", {}))
    run = Run(Job(method, load_model(model), prompt, config, entry.get("seed", 0)))
    for _ in run:
        pass
    trace = run.trace()
    write(trace, folder / entry["file"])
    return trace


def listed(folder: Path) -> list[dict[str, Any]]:
    """What gallery.json in `folder` asks for; nothing when there is none, or none that can be read."""
    path = folder / LIST
    try:
        found = json.loads(path.read_text("utf-8")) if path.exists() else []
    except (OSError, ValueError, RecursionError) as error:
        _LOG.warning("%s: cannot be read (%s); restore it from the repository", LIST, error)
        return []
    named = [entry for entry in found if isinstance(entry, dict) and isinstance(entry.get("file"), str)]
    return named if isinstance(found, list) else []


def left_out(found: Sequence[Recording], folder: Path = FOLDER) -> list[str]:
    """Files of a folder that are listed or lie there and are no recordings, since they are missing or unsound."""
    used = {path.name for recording in found for path in recording.paths}
    return sorted(({entry["file"] for entry in listed(folder)} | {path.name for path in folder.glob(_TRACES)}) - used)


def _sound(path: Path) -> Trace | None:
    try:
        return read(path)
    except (TraceError, OSError) as error:
        _LOG.warning("%s: is left out of the gallery: %s", path.name, error)
        return None


def _baseline_of(trace: Trace, found: Sequence[tuple[Path, Trace]]) -> list[tuple[Path, Trace]]:
    """Ordinary decoding of the same model, prompt and seed under the same sampling."""
    fits = [
        (path, other)
        for path, other in found
        if _is_baseline(other)
        and (other.model, other.prompt, other.seed) == (trace.model, trace.prompt, trace.seed)
        and all(trace.config.get(name) == other.config[name] for name in _shared(other))
    ]
    return fits[:1]


def _is_baseline(trace: Trace) -> bool:
    """Whether a run is ordinary decoding."""
    if trace.method not in METHODS:
        return False
    method, config = ordinary(METHODS[trace.method].family, {name: trace.config[name] for name in _shared(trace)})
    # A setting that is newer than the recording is not in it.
    return method.name == trace.method and trace.config.items() <= as_values(config).items()


def _shared(trace: Trace) -> list[str]:
    """The settings of a run that its baseline has, too."""
    return [setting.name for setting in settings(SHARED[METHODS[trace.method].family]) if setting.name in trace.config]


def _recording(entries: Sequence[tuple[Path, Trace]], told: Mapping[str, Any]) -> Recording:
    trace = entries[-1][1]
    asked = shorten(trace.prompt, _PROMPT_CHARACTERS, placeholder=" ...")
    drafted = draft_forwards(trace.steps)
    passes = f"{trace.summary.forwards - drafted} {'target' if drafted else 'forward'} passes"
    note = [asked or trace.model.title or trace.model.id, passes]
    if len(entries) > 1:
        note[1] += f" instead of {entries[0][1].summary.forwards}"
    return Recording(
        method=trace.method,
        title=told.get("title", title_of(trace)),
        about=told.get("about", ""),
        note=", ".join(note),
        paths=tuple(path for path, _ in entries),
        traces=tuple(trace for _, trace in entries),
    )
