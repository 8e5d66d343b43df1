"""Extracts of recorded runs and measurements for the lessons, as plain JSON data."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from draftscope.analysis.shipped_results import FOLDER as RESULTS
from draftscope.analysis.shipped_results import read_result
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.replay import canvas_size, replay_steps
from draftscope.traces.schema import Trace
from draftscope.traces.words import canvas_texts

TRACES: Final = ROOT / "assets" / "traces"
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


_DATA: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {"exact": _exact, "passes": _passes}
