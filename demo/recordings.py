"""The recorded traces that ship with the app, each beside ordinary decoding where that was recorded too."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from traces import TraceError, read
from traces.schema import Trace

FOLDER: Final = Path(__file__).parents[1] / "assets" / "traces"
_BASELINE: Final = "ar"


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run, with its baseline before it where there is one."""

    method: str
    note: str
    paths: tuple[Path, ...]
    traces: tuple[Trace, ...]


def recordings(folder: Path = FOLDER) -> tuple[Recording, ...]:
    """All recordings in `folder`; files that are no sound traces are left out."""
    found = [(path, trace) for path in sorted(folder.glob("*.json.gz")) if (trace := _sound(path))]
    runs = [(path, trace) for path, trace in found if trace.method != _BASELINE]
    pairs = [[*_baseline_of(trace, found), (path, trace)] for path, trace in runs]
    used = {path for pair in pairs for path, _ in pair}
    alone = [[entry] for entry in found if entry[0] not in used]
    return tuple(_recording(entries) for entries in [*pairs, *alone])


def opening(among: Sequence[Recording]) -> Recording | None:
    """What the app shows first: a run beside its baseline if there is one."""
    return max(among, key=lambda recording: len(recording.paths), default=None)


def _sound(path: Path) -> Trace | None:
    try:
        return read(path)
    except (TraceError, OSError):
        return None


def _baseline_of(trace: Trace, found: Sequence[tuple[Path, Trace]]) -> list[tuple[Path, Trace]]:
    """Ordinary decoding of the same model, prompt and seed under the same sampling."""
    fits = [
        (path, other)
        for path, other in found
        if other.method == _BASELINE
        and (other.model, other.prompt, other.seed) == (trace.model, trace.prompt, trace.seed)
        and all(trace.config.get(name) == value for name, value in other.config.items())
    ]
    return fits[:1]


def _recording(entries: Sequence[tuple[Path, Trace]]) -> Recording:
    trace = entries[-1][1]
    told = [trace.prompt or trace.model.title or trace.model.id, f"{trace.summary.forwards} forward passes"]
    if len(entries) > 1:
        told[1] += f" instead of {entries[0][1].summary.forwards}"
    return Recording(
        method=trace.method,
        note=", ".join(told),
        paths=tuple(path for path, _ in entries),
        traces=tuple(trace for _, trace in entries),
    )
