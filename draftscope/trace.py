"""A trace as a notebook has it: it shows itself, and becomes a table."""

import html
from dataclasses import fields
from typing import Any, Final

import traces
from draftscope.tables import columns
from traces.later import LaterTrace

HEIGHT: Final = 760
"""Pixels of the player in a notebook."""
_MOST: Final = 12_000_000
"""Characters of a page that is shown inline; notebooks keep what they show."""


class Trace(traces.Trace):
    """A `traces.Trace` that a notebook shows as the player."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from visualizers.page import standalone

        page = standalone([self], "Draftscope")
        if len(page) > _MOST:
            words = f"{self!r} is too large to be shown inline: ds.view(trace, 'run.html') writes a page."
            return f"<p>{html.escape(words)}</p>"
        # Opaque origin, scripts only: the page can neither reach the notebook nor, by its own policy, the network.
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Draftscope" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )

    def columns(self) -> dict[str, list[Any]]:
        """One row an entry of a step, as lists of equal length by name."""
        return columns(self)

    def frame(self) -> Any:
        """`columns` as a pandas.DataFrame.

        Raises:
            ImportError: Without pandas.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(_needs("frame", "pandas")) from None
        return pandas.DataFrame(self.columns())

    def arrow(self) -> Any:
        """`columns` as a pyarrow.Table.

        Raises:
            ImportError: Without pyarrow.
        """
        try:
            import pyarrow
        except ImportError:
            raise ImportError(_needs("arrow", "pyarrow")) from None
        return pyarrow.table(self.columns())

    def __eq__(self, other: object) -> bool:
        """Equal to any trace with the same fields."""
        if not isinstance(other, traces.Trace):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name, None) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]  # As for any trace: its mappings have no hash.


class _LaterTrace(Trace, LaterTrace):
    """The same for a trace with fields that this release does not know."""

    __slots__ = ()


def shown(trace: traces.Trace) -> Trace:
    """The trace as one that shows itself."""
    if isinstance(trace, Trace):
        return trace
    kind = _LaterTrace if isinstance(trace, LaterTrace) else Trace
    return kind(**{field.name: getattr(trace, field.name) for field in fields(trace)})


def _needs(method: str, package: str) -> str:
    return (
        f"trace.{method}() needs {package}, which is not installed: pip install {package}, "
        "or use trace.columns(), which gives the same as lists."
    )
