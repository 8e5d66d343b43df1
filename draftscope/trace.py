"""A trace as a notebook has it: it shows itself, and becomes a table."""

import html
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from importlib import import_module
from math import isnan
from typing import Any, Final

from draftscope import traces
from draftscope.traces.perfetto import to_perfetto
from draftscope.traces.words import step_words

_COLUMNS: Final = ("row", "draft", "p", "q", "accept_prob", "coin", "likely")
_INTEGERS: Final = ("step", "position", "token", "row", "draft")
"""Columns of whole numbers, where tokens are ids."""
_LIKELY: Final = ("token", "p", "q")
HEIGHT: Final = 760
"""Pixels of the player in a notebook."""
_MOST: Final = 12_000_000
"""Characters of a page that is shown inline; notebooks keep what they show."""


class Trace(traces.Trace):
    """A `draftscope.traces.Trace` that a notebook shows as the player."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from draftscope.visualizers.player_page import standalone

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
        """Return a row for every entry of a step, that is for every position that a pass touched.

        Returns:
            Lists of equal length by name, such as step, position, fate, token, p and q; None where a step did not
            record something. `milliseconds` is the time of the whole pass, which all of its entries share.
        """
        words = zip(self.steps, step_words(self), strict=True)
        rows = [row for index, (step, shown) in enumerate(words) for row in _rows(index, step, shown)]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_perfetto(self) -> dict[str, Any]:
        """The trace in Chrome's trace format, as plain data: dumped as JSON, ui.perfetto.dev opens it."""
        return to_perfetto(self)

    def to_pandas(self) -> Any:
        """`to_columns` as a pandas.DataFrame, whole numbers as Int64; raises ImportError without pandas."""
        frame = _installed("to_pandas", "pandas").DataFrame(self.to_columns())
        return frame.astype({name: "Int64" for name in _INTEGERS if name in frame and _are_whole(frame[name])})

    def to_arrow(self) -> Any:
        """`to_columns` as a pyarrow.Table; raises ImportError without pyarrow.

        Whole numbers are int64, `likely` a list of structs of token, p and q. The metadata has `schema`, `version`,
        `method`, `model` and `prompt` of the trace.
        """
        pyarrow = _installed("to_arrow", "pyarrow")
        columns = self.to_columns()
        if "likely" in columns:
            columns["likely"] = [
                None if each is None else [dict(zip(_LIKELY, entry, strict=True)) for entry in each]
                for each in columns["likely"]
            ]
        types: dict[str, Any] = {
            name: pyarrow.int64() for name in _INTEGERS if name in columns and _are_whole(columns[name])
        }
        entry = zip(_LIKELY, (pyarrow.int64(), pyarrow.float64(), pyarrow.float64()), strict=True)
        types["likely"] = pyarrow.list_(pyarrow.struct(list(entry)))  # pyarrow 18 sorts the fields by name otherwise
        arrays = {name: pyarrow.array(values, types.get(name)) for name, values in columns.items()}
        about = {"schema": self.schema, "version": self.version, "method": self.method, "model": self.model.id}
        return pyarrow.table(arrays).replace_schema_metadata({**about, "prompt": self.prompt})

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write `to_arrow` as a Parquet file.

        Raises:
            ImportError: Without pyarrow, which the extra `draftscope[parquet]` installs.
            OSError: If the file cannot be written.
        """
        table = self.to_arrow()
        import_module("pyarrow.parquet").write_table(table, os.fspath(path))

    def push_to_hub(self, repository: str, name: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload the trace to a data set of the Hugging Face hub; `ds.read` takes the address that is returned.

        The data set is made if it is missing, with a card. The trace contains the prompt, the output, and device,
        platform and libraries of the run; nothing else is sent.

        Args:
            repository: OWNER/NAME of the data set.
            name: Name of the file without its ending.
            private: Whether a data set that is made here is visible to its owner alone.
            token: Token with write access; by default the one that `hf auth login` stored.

        Raises:
            ValueError: For an invalid repository or name.
            ImportError: Without huggingface_hub, which the extra `draftscope[hub]` installs.
            OSError: The hub refuses the upload or cannot be reached.
        """
        from draftscope.hub import push

        return push(self, repository, name, private=private, token=token)

    def log_to(self, run: Any, *, figures: Sequence[str] = (), step: int | None = None) -> dict[str, float]:
        """Log numbers and figures to a run of Weights & Biases or trackio; return the numbers.

        Args:
            run: What `wandb.init(...)` or `trackio.init(...)` returned.
            figures: Names of `ds.figures(trace)`; trackio gets them as pictures, which need Chrome or Chromium.
            step: Step of the tracker; the next one by default.

        Raises:
            ValueError: If `run` is from another client.
            FigureError: For an unknown figure, or a trace that lacks what it needs.
        """
        from draftscope.tracking import log

        return log(self, run, figures=figures, step=step)

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


def _rows(index: int, step: traces.Step, words: Sequence[str | None]) -> Iterator[dict[str, Any]]:
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
            "text": words[entry],
            "fate": fate.value,
            "milliseconds": step.call.milliseconds.total,
            **{name: column[entry] for name, column in recorded.items()},
        }


def _are_whole(values: Iterable[Any]) -> bool:
    """Whether values are whole numbers or missing."""
    return all(
        value is None or isinstance(value, int) or (isinstance(value, float) and (isnan(value) or value.is_integer()))
        for value in values
    )


def _installed(method: str, package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(
            f"trace.{method}() needs {package}, which is not installed: pip install {package}, "
            "or use trace.to_columns(), which gives the same as lists."
        ) from None
