"""Extracts of recorded runs and measurements for the lessons, as plain JSON data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from draftscope.analysis.shipped_results import FOLDER as RESULTS
from draftscope.analysis.shipped_results import read_result
from draftscope.traces import read
from draftscope.traces.files import ASSETS
from draftscope.traces.replay import canvas_size, canvas_states, position_updates, replay_steps
from draftscope.traces.schema import Fate, Step, Token, Trace
from draftscope.traces.words import canvas_texts

TRACES: Final = ASSETS / "traces"
_PLACES: Final = (53, 17, 50)
"""Positions of the recorded story at which a draft was rejected."""
_WORDS: Final = 4
_DIGITS: Final = 4
_BEFORE: Final = 9
"""Words of the text that are shown before a position."""


def lesson_data(name: str) -> Any:
    """Return what a lesson shows, as JSON data.

    Args:
        name: A name of `visualizers.lessons.LESSONS`.

    Raises:
        FileNotFoundError: If a recorded run is missing.
    """
    return _DATA[name]()


def recorded(name: str) -> Trace:
    """Return a run of assets/traces by its name.

    Raises:
        FileNotFoundError: If it is missing.
    """
    path = TRACES / f"{name}.json.gz"
    if not path.is_file():
        raise FileNotFoundError(f"lessons: {path.name} is missing; copy assets/traces of the repository")
    return read(path)


def _exact() -> dict[str, Any]:
    trace = recorded("speculative-lighthouse")
    return {"places": [_words_at(trace, position) for position in _PLACES]}


def _words_at(trace: Trace, position: int) -> dict[str, Any]:
    """The likeliest words of drafter and model where a draft was rejected; all others count as one."""
    recorded_here = (
        likely
        for step in trace.steps
        for where, likely in zip(step.position, step.likely or (), strict=False)
        if where == position and likely
    )
    likely = sorted(next(recorded_here), key=lambda one: -max(one[1:]))[:_WORDS]
    words = [(trace.legend.vocabulary or {})[token].strip() for token, _, _ in likely]
    p, q = ([round(one[column], _DIGITS) for one in likely] for column in (1, 2))
    return {
        "sentence": _before(trace, position),
        "words": [*words, "all others"],
        "p": [*p, round(1 - sum(p), _DIGITS)],
        "q": [*q, round(1 - sum(q), _DIGITS)],
    }


def _before(trace: Trace, position: int) -> str:
    """The end of the text before a position."""
    tokens = replay_steps(trace.steps, canvas_size(trace.canvas)).tokens[:position]
    text = "".join(word or "" for word in canvas_texts(trace.legend.vocabulary or {}, tokens))
    return " ".join(text.split()[-_BEFORE:])


def _passes() -> dict[str, Any]:
    """Measured speed-ups by draft length."""
    rows = read_result(RESULTS / "smollm2_drafts.json")["rows"]
    fits = (row for row in rows if (row["sampling"], row["drafter"]) == ("greedy", "lookup-eagle"))
    return {"measured": sorted((row["gamma"], row["faster_overall"]) for row in fits)}


_END: Final = "end"
"""Word of an end of sequence in blocks.js."""
_LETTERS: Final[Mapping[Fate, str]] = {
    Fate.DRAFTED: "d",
    Fate.CHANGED: "c",
    Fate.KEPT: "k",
    Fate.ACCEPTED: "a",
    Fate.RESAMPLED: "r",
    Fate.BONUS: "b",
    Fate.SAMPLED: "s",
}
"""Letters by which jacobi.js knows the fates of a pass."""


def _jacobi() -> dict[str, Any]:
    """One picture decoded with coupled and with independent drafts, pass by pass."""
    runs = {"on": ("scd-picture", "MC-SJD"), "off": ("scd-picture-none", "SJD")}
    side = recorded("scd-picture").canvas.shape[0]
    return {"side": side, "runs": {name: _churn(recorded(run), decoder) for name, (run, decoder) in runs.items()}}


def _churn(trace: Trace, decoder: str) -> dict[str, Any]:
    """Fates of all pieces after each pass, pictures of them, and passes over several pictures with their error."""
    passes = []
    for state, step in zip(canvas_states(trace), trace.steps, strict=False):
        row = ["-" if final else "." for final in state.final]
        for position, outcome in position_updates(step).items():
            row[position] = _LETTERS[outcome.fate]
        passes.append("".join(row))
    rows = read_result(RESULTS / "speed.json")["rows"]
    setting = {"decoder": decoder, **{name: trace.config[name] for name in ("window", "guidance")}}
    fits = [(row["nfe"], row["nfe_standard_error"]) for row in rows if setting.items() <= row.items()]
    frames = [frame.image for frame in trace.legend.frames]
    return {"passes": passes, "frames": frames, "average": fits[0] if fits else None}


def _blocks() -> dict[str, Any]:
    """Runs of S2D2 and what decoding by confidence wrote instead."""
    by_confidence = recorded("capital-confidence").output.text or ""
    runs = (
        ("The capital of France", "capital-s2d2", by_confidence),
        ("Seven loaves and five muffins", "text-s2d2", ""),
    )
    return {"runs": [_filled(recorded(run), name, other) for name, run, other in runs]}


def _filled(trace: Trace, name: str, other: str) -> dict[str, Any]:
    """The passes of a run over its final text; `filling` is the one that was surest of a wrong word."""
    tokens = replay_steps(trace.steps, canvas_size(trace.canvas)).tokens[: trace.summary.tokens]
    words = [_word(trace, token) for token in tokens]
    passes = [{"fills": step.call.mode == "draft", "cells": _cells(trace, step)} for step in trace.steps]
    wrong: dict[int, float] = {
        number: max((cell["sure"] for cell in _cells(trace, step) if _is_wrong(cell, words)), default=0.0)
        for number, step in enumerate(trace.steps)
        if step.call.mode == "draft"
    }
    filling = max(wrong, key=lambda number: wrong[number])
    return {
        "name": name,
        "prompt": trace.prompt,
        "words": words,
        "passes": passes,
        "filling": filling,
        "other": other,
    }


def _cells(trace: Trace, step: Step) -> list[dict[str, Any]]:
    """Word, fate, draft, confidence of the filling and p of each position of a pass."""
    nothing = (None,) * len(step.position)
    columns = zip(
        step.token, step.draft or nothing, step.numbers.get("confidence") or nothing, step.p or nothing, strict=True
    )
    return [
        {
            "at": position,
            "word": _word(trace, token),
            "fate": fate.value,
            "draft": _word(trace, draft),
            "sure": None if sure is None else round(sure, _DIGITS),
            "p": None if p is None else round(p, _DIGITS),
        }
        for position, fate, (token, draft, sure, p) in zip(step.position, step.fate, columns, strict=True)
    ]


def _word(trace: Trace, token: Token | None) -> str:
    """Text of a token, `_END` for an end of sequence; empty without a token."""
    if not isinstance(token, int):
        return ""
    return _END if token in trace.legend.ends else (trace.legend.vocabulary or {})[token]


def _is_wrong(cell: Mapping[str, Any], words: Sequence[str]) -> bool:
    return cell["at"] < len(words) and cell["word"] != words[cell["at"]] and cell["sure"] is not None


def _vectors() -> dict[str, Any]:
    """Verified drafts of a run on patches, with the ratios of their denoising steps."""
    trace = recorded("cspd-patch")
    drafts = [
        {
            "at": position,
            "ratios": [round(ratio, _DIGITS) for ratio in path.log_ratio],
            "uniform": uniform,
            "accepted": fate is Fate.ACCEPTED,
            **{name: round(float(step.numbers[column][entry] or 0), _DIGITS) for name, column in _LAST_STEP.items()},
        }
        for step in trace.steps
        for entry, (position, fate, path, uniform) in enumerate(
            zip(step.position, step.fate, step.paths or (), step.coin or (), strict=False)
        )
        if fate in (Fate.ACCEPTED, Fate.RESAMPLED) and path and path.log_ratio and uniform is not None
    ]
    return {"drafts": drafts, "examples": _EXAMPLES}


_LAST_STEP: Final = {"distance": "last_mean_distance", "p": "last_std", "q": "last_std_draft", "draft": "last_place"}
_EXAMPLES: Final = (5, 7, 37)
"""Drafts with many steps against them, of which the first is accepted; the last recovers on its way."""

_DATA: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "exact": _exact,
    "passes": _passes,
    "jacobi": _jacobi,
    "blocks": _blocks,
    "vectors": _vectors,
}
