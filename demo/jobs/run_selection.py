"""Selection of runs to compare. Independent of the page."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, Literal

from draftscope.analysis.results import digest
from draftscope.analysis.run_report import Fidelity, RunReport
from draftscope.demo.jobs.links import FILE, MAX_COMPARED, comparison_link, request_from_trace, run_link
from draftscope.demo.jobs.recordings import Recording, kind_of
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, config_values
from draftscope.traces import read
from draftscope.traces.labels import is_baseline, method_name, settings_of
from draftscope.traces.schema import Trace

Source = Literal["yours", "opened", "recorded"]
MAX_SELECTED: Final = MAX_COMPARED
"""Maximum number of selected runs."""
MAX_STORED_RUNS: Final = 60
"""Own runs and opened files; beyond that the oldest that is not chosen makes room."""
_SETTINGS_SAID: Final = 4
_SHOWN: Final = 80
"""Characters of a prompt."""
_KINDS: Final[Mapping[str, str]] = {
    "picture": "a picture",
    "video": "a video",
    "text": "a text",
    "continuous": "a picture of vectors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableRun:
    """A run that can be chosen."""

    id: str
    """A hash: equal runs have equal ones, and nothing of a stranger's is in it."""
    source: Source
    path: Path
    title: str
    """Its name, and settings beyond the defaults."""
    note: str
    """Seed and forward passes."""
    prompt: str
    kind: str
    """A name of `_KINDS`."""
    passes: int
    timed: bool
    """Whether its passes have times."""
    address: str
    """Name in links: that of a recording, the fragment of a run, or `FILE`."""
    request: RunRequest | None
    """Request that decodes the run again; None if its method, model or settings are not available here."""
    seconds: float
    """Duration of the run."""
    method: str
    """Name of the method."""
    model: str
    """Title of the model."""
    fidelity: Fidelity
    ratio: float | None
    """Times as fast per token as ordinary decoding of the same prompt, where that came with it."""
    passes_per_token: float | None
    """Target passes."""
    acceptance: float | None

    def to_request(self, how: str) -> RunRequest:
        """Return the request that decodes the run again.

        Args:
            how: Purpose, for the error message.

        Raises:
            ConfigError: If the run cannot be decoded again.
        """
        if self.request is None:
            raise ConfigError(
                f"runs: {self.title} ({self.note}) came as a file whose model or settings are not here, so it cannot "
                f"be decoded {how}; deselect it."
            )
        return self.request


@dataclass(frozen=True, slots=True)
class RunSelection:
    """Runs that a user has added, and those that are selected, in the order of selection."""

    added: tuple[SelectableRun, ...] = ()
    chosen: tuple[SelectableRun, ...] = ()

    def without(self, run: str) -> "RunSelection":
        """Without the run of this id."""
        return RunSelection(
            *(tuple(entry for entry in entries if entry.id != run) for entries in (self.added, self.chosen))
        )

    def with_run(self, entries: Sequence[SelectableRun]) -> "RunSelection":
        """Return the selection with runs added and selected, as far as they fit.

        A run that is already there is replaced.
        """
        new = {entry.id: entry for entry in entries}
        merged = tuple(new.pop(entry.id, entry) for entry in self.added)
        chosen = tuple(next((e for e in entries if e.id == entry.id), entry) for entry in self.chosen)
        if any(one.kind != entry.kind for one in chosen for entry in entries):
            chosen = ()
        for entry in entries:
            if entry.id not in {one.id for one in chosen} and len(chosen) < MAX_SELECTED:
                chosen = (*chosen, entry)
        added = (*merged, *new.values())
        spare = [entry for entry in added if entry not in chosen][: max(0, len(added) - MAX_STORED_RUNS)]
        return replace(self, added=tuple(entry for entry in added if entry not in spare), chosen=chosen)


def entries_of(paths: Sequence[Path], source: Source) -> tuple[SelectableRun, ...]:
    """Return the runs in trace files written by this app; those among ordinary decoding are compared with it."""
    traces = [read(path) for path in paths]
    return tuple(entry_of(trace, path, source, traces) for trace, path in zip(traces, paths, strict=True))


def entry_of(trace: Trace, path: Path, source: Source, among: Sequence[Trace] = ()) -> SelectableRun:
    """Return the entry of a run in the selection; its baseline is looked for `among` traces."""
    alike = (one for one in among if (one.prompt, one.model.id) == (trace.prompt, trace.model.id) and is_baseline(one))
    report = RunReport(trace, next(alike, None))
    what = [trace.method, trace.model.id, trace.prompt, trace.seed, dict(trace.config), trace.output.tokens]
    stopped = "" if trace.summary.complete else f", stopped after {trace.summary.tokens} tokens"
    seed = "no seed" if trace.seed is None else f"seed {trace.seed}"
    count = len(trace.steps)
    method = METHODS.get(trace.method)
    defaults = config_values(method.config()) if method else {}
    settings = settings_of(trace).items()
    unusual = [words for name, words in settings if name in defaults and trace.config[name] != defaults[name]]
    request = request_from_trace(trace)
    link = FILE if request is None else run_link(request, compared=True)
    return SelectableRun(
        id=digest([*what, trace.summary.complete, count])[:16],
        source=source,
        path=path,
        title=", ".join([method_name(trace), *unusual[:_SETTINGS_SAID], *["..."] * (len(unusual) > _SETTINGS_SAID)]),
        note=f"{seed}: {count} pass{'' if count == 1 else 'es'}{stopped}",
        prompt=trace.prompt or trace.model.title or trace.model.id,
        kind=kind_of(trace),
        passes=count,
        address=path.name.removesuffix(".json.gz") if source == "recorded" else link,
        request=request,
        seconds=trace.summary.seconds,
        method=method_name(trace),
        model=trace.model.title or trace.model.id,
        fidelity=report.fidelity,
        ratio=None if is_baseline(trace) else report.time_ratio,
        passes_per_token=report.passes / trace.summary.tokens if trace.summary.tokens else None,
        acceptance=trace.summary.acceptance,
        timed=any(step.call.milliseconds.total > 0 for step in trace.steps),
    )


def recorded_entries(recordings: Sequence[Recording]) -> dict[str, tuple[SelectableRun, ...]]:
    """The recorded runs, each once, by what they decode."""
    groups: dict[str, dict[str, SelectableRun]] = {}
    for recording in recordings:
        for path, trace in zip(recording.paths, recording.traces, strict=True):
            entry = entry_of(trace, path, "recorded", recording.traces)
            what = f"{_KINDS[entry.kind].partition(' ')[2].capitalize()}: {shorten(entry.prompt, _SHOWN)}"
            groups.setdefault(what, {}).setdefault(entry.id, entry)
    return {title: tuple(entries.values()) for title, entries in groups.items()}


def comparison_error(chosen: Sequence[SelectableRun]) -> str:
    """Return why these runs cannot be compared, and the remedy; empty if they can."""
    if len(chosen) > MAX_SELECTED:
        return f"{len(chosen)} runs are selected and at most {MAX_SELECTED} can be compared: deselect one first."
    if idle := [entry for entry in chosen if not entry.passes]:
        return f"{idle[0].title} ({idle[0].note}) has no forward pass, so it has no clock to share: deselect it."
    kinds = list(dict.fromkeys(entry.kind for entry in chosen))
    if len(kinds) > 1:
        first, second = (_KINDS.get(kind, kind) for kind in kinds[:2])
        return f"One of these runs decodes {first}, another {second}: they cannot be compared. Select runs of one kind."
    return ""


def comparison_warning(chosen: Sequence[SelectableRun]) -> str:
    """Return a warning about a comparison that is possible; empty if there is none."""
    if untimed := [entry for entry in chosen if not entry.timed]:
        return f"{untimed[0].title} ({untimed[0].note}) has no recorded times: compare by forward passes."
    if len({entry.source == "recorded" for entry in chosen}) > 1:
        return "A recorded run was timed on another day or machine: compare by forward passes."
    if any("stopped after" in entry.note for entry in chosen) and len(chosen) > 1:
        return "A run was stopped: its totals cannot be compared with those of a complete run."
    return ""


def listed(
    groups: Mapping[str, Sequence[SelectableRun]], tray: RunSelection, wanted: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the list of runs as the page shows it: a row for each, what is chosen, and the ticks that this answers."""
    names = {entry.id: entry.address for entries in groups.values() for entry in entries}
    recorded = {entry.id: entry for entries in groups.values() for entry in entries}
    entries = [*tray.added, *(entry for run, entry in recorded.items() if run not in {one.id for one in tray.added})]
    return {
        "rows": _rows(entries),
        "chosen": [entry.id for entry in tray.chosen],
        "asked": wanted,
        "address": comparison_link([names.get(entry.id, entry.address) for entry in tray.chosen]),
        "turn": secrets.token_hex(4),  # or the page would not hear of a tick that was taken back
    }


def _rows(entries: Sequence[SelectableRun]) -> list[dict[str, Any]]:
    """Return a row for each run; titles that would be the same for one prompt say the seed, too."""
    titles = [(entry.prompt, entry.title) for entry in entries]
    names = [
        entry.title if titles.count(title) == 1 else f"{entry.title}, {entry.note.partition(':')[0]}"
        for entry, title in zip(entries, titles, strict=True)
    ]
    return [
        {
            "id": entry.id,
            "own": entry.source != "recorded",
            "source": entry.source,
            "title": title,
            "note": entry.note,
            "method": entry.method,
            "model": entry.model,
            "prompt": entry.prompt,
            "kind": entry.kind,
            "fidelity": entry.fidelity,
            "ratio": entry.ratio,
            "passes": entry.passes_per_token,
            "acceptance": entry.acceptance,
            "seconds": entry.seconds or None,
        }
        for entry, title in zip(entries, names, strict=True)
    ]
