"""What runs are called on the page."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from engines.config import as_values, settings
from engines.methods import METHODS, SHARED, ordinary
from traces.schema import Trace
from visualizers.figure import labels

ORDINARY: Final = "Ordinary decoding, one token at a time"
"""As the player says it, too."""


@cache
def baselines() -> dict[str, dict[str, Any]]:
    """Name of a method -> its own settings where it decodes the ordinary way."""
    shared = {family: {setting.name for setting in settings(SHARED[family])} for family in SHARED}
    usual = {family: ordinary(family, {}) for family in SHARED}
    return {
        method.name: {name: value for name, value in as_values(config).items() if name not in shared[family]}
        for family, (method, config) in usual.items()
    }


def is_ordinary(trace: Trace) -> bool:
    """Whether a run decoded the ordinary way: one token after the other, without drafts."""
    own = baselines().get(trace.method)
    return own is not None and all(str(trace.config.get(name, value)) == str(value) for name, value in own.items())


def title_of(trace: Trace) -> str:
    """The name of a run's decoding: of its preset or method, or ordinary decoding where it is that."""
    if is_ordinary(trace):
        return ORDINARY
    return trace.variant or method_title(trace.method)


def titles_of(traces: Sequence[Trace]) -> list[str]:
    """The names of several runs; those that would be the same say what sets them apart, as figures do."""
    names, titles = [title_of(trace) for trace in traces], []
    for trace, name, label in zip(traces, names, labels(traces), strict=True):
        apart = label.removeprefix(trace.variant or trace.method)
        titles.append(name if names.count(name) == 1 else name + (apart if apart != label else f": {label}"))
    return titles


def method_title(method: str) -> str:
    """The name of a method, which may be one of somebody else's."""
    return METHODS[method].title if method in METHODS else method
