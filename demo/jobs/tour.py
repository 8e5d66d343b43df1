"""The tour: scenes that the player shows one after the other, with a sentence or two each; tour.toml has them."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from draftscope.demo.jobs.recordings import Pair, Recording
from draftscope.demo.server.sessions import url
from draftscope.traces.schema import Fate, Step, Trace

SCENES: Final = Path(__file__).with_name("tour.toml")
_REPAIRED: Final = (Fate.RESAMPLED, Fate.REJECTED)
_SEVERAL: Final = 3
_TELLING: Final = (0.3, 0.7)
"""Acceptance probabilities for which the uniform draw could well have decided otherwise, as in the player's
worked.js."""

Scene = dict[str, Any]
"""`title`, `text` and what the player's `scene` takes."""


def scenes(recordings: Sequence[Recording], pairs: Sequence[Pair] = (), path: Path = SCENES) -> list[Scene]:
    """The scenes whose recordings are there, in order."""
    named = {
        file.name.removesuffix(".json.gz"): (file, trace)
        for entry in recordings
        for file, trace in zip(entry.paths, entry.traces, strict=True)
    }
    called = {entry.paths: entry.address for entry in recordings}
    of_kind = {pair.kind: list(zip(pair.recording.paths, pair.recording.traces, strict=True)) for pair in pairs}
    scenes_there = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["scene"]:
        if "kind" in entry:
            shown = of_kind.get(entry["kind"], [])
        else:
            shown = [named[name] for name in entry["files"]] if named.keys() >= {*entry["files"]} else []
        if shown:
            files = tuple(file for file, _ in shown)
            passes = {name: _pass(entry[name], shown[-1][1]) for name in ("from", "to") if name in entry}
            played = {"urls": [url(file) for file in files], "called": called.get(files, "")}
            scenes_there.append(entry | passes | played)
    return scenes_there


def _pass(number: int | str, trace: Trace) -> int:
    """A number of passes, or that of the first pass that accepts several drafts, or whose rejection tells much."""
    if isinstance(number, int):
        return number
    found = {"accepted": (_several,), "rejection": (_telling, _repaired)}.get(number)
    if found is None:
        raise ValueError(f"scene: pass {number!r} is not known; give a number, accepted or rejection")
    fit = (passes for fits in found for passes, step in enumerate(trace.steps, 1) if fits(step))
    return next(fit, len(trace.steps))


def _several(step: Step) -> bool:
    """Whether a pass accepts several drafts and rejects none."""
    return step.fate.count(Fate.ACCEPTED) >= _SEVERAL and not _repaired(step)


def _repaired(step: Step) -> list[int]:
    """The entries of a pass whose draft was rejected."""
    return [entry for entry, fate in enumerate(step.fate) if fate in _REPAIRED]


def _telling(step: Step) -> list[int]:
    """Return the drafts whose verdict could well have been otherwise.

    An initial draft is not sampled from the model.
    """
    low, high = _TELLING
    odds, initial = step.accept_prob or (), step.numbers.get("initial", ())
    entries = [entry for entry in _repaired(step) if entry < len(odds) and low <= (odds[entry] or 0) <= high]
    return [entry for entry in entries if entry >= len(initial) or initial[entry] != 1]
