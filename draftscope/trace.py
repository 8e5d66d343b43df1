"""A trace as a notebook has it: it shows itself, and becomes a table."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, Final

import traces
from traces.perfetto import to_perfetto

_COLUMNS: Final = ("row", "draft", "p", "q", "accept_prob", "coin")
HEIGHT: Final = 760
"""Pixels of the player in a notebook."""
_MOST: Final = 12_000_000
"""Characters of a page that is shown inline; notebooks keep what they show."""


class Trace(traces.Trace):
    """A `traces.Trace` that a notebook shows as the player."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from visualizers.player_page import standalone

        page = standalone([self], "Draftscope")
        if len(page) > _MOST:
            words = f"{self!r} is too large to be shown inline: ds.view(trace, 'run.html') writes a page."
            return f"<p>{html.escape(words)}</p>"
        # Opaque origin, scripts only: the page can neither reach the notebook nor, by its own policy, the network.
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Draftscope" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )

    def to_columns(self) -> dict[str, list[Any]]:
        """One row an entry of a step, as lists of equal length by name; None where a step did not record something.

        `milliseconds` is the time of the whole pass, which all of its entries share.
        """
        words = self.legend.vocabulary or {}
        rows = [row for index, step in enumerate(self.steps) for row in _rows(index, step, words)]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_perfetto(self) -> dict[str, Any]:
        """The trace in Chrome's trace format, as plain data: dumped as JSON, ui.perfetto.dev opens it."""
        return to_perfetto(self)

    def to_pandas(self) -> Any:
        """`columns` as a pandas.DataFrame; raises ImportError without pandas."""
        return _installed("to_pandas", "pandas").DataFrame(self.to_columns())

    def to_arrow(self) -> Any:
        """`columns` as a pyarrow.Table; raises ImportError without pyarrow."""
        return _installed("arrow", "pyarrow").table(self.to_columns())

    def __eq__(self, other: object) -> bool:
        """Equal to any trace with the same fields."""
        if not isinstance(other, traces.Trace):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name, None) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]  # As for any trace: its mappings have no hash.


def displayable(trace: traces.Trace) -> Trace:
    """The trace as one that shows itself."""
    if isinstance(trace, Trace):
        return trace
    return Trace(**{field.name: getattr(trace, field.name) for field in fields(trace)})


def _rows(index: int, step: traces.Step, words: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """Yield what a step recorded at every position, by name."""
    recorded = {name: column for name in _COLUMNS if (column := getattr(step, name)) is not None} | dict(step.numbers)
    for entry, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
        token = step.token[entry] if step.token else None
        yield {
            "step": index,
            "role": step.call.role,
            "mode": step.call.mode,
            "position": position,
            "token": token,
            "text": words.get(token) if isinstance(token, int) else None,
            "fate": fate.value,
            "milliseconds": step.call.milliseconds.total,
            **{name: column[entry] for name, column in recorded.items()},
        }


def _installed(method: str, package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(
            f"trace.{method}() needs {package}, which is not installed: pip install {package}, "
            "or use trace.columns(), which gives the same as lists."
        ) from None
