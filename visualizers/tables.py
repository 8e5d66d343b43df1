"""Tables as CSV, Markdown, and LaTeX for the package booktabs; cells are escaped, so that they are read as text."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_NUMBER: Final = re.compile(r"[-+−]?[\d.]")
_MARKDOWN: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>|~$&"})
_TEX: Final = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "γ": r"$\gamma$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "−": "$-$",
        "[": "{[}",
        "]": "{]}",  # at the end of a line they would be read as its argument
    }
)


def as_csv(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as CSV. A text that a spreadsheet would take for a formula gets a quote before it.

    Args:
        heads: Titles of the columns.
        rows: Values of each row, as many as there are titles.
    """
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows([_cell(value) for value in row] for row in (heads, *rows))
    return target.getvalue()


def as_markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown, numbers aligned to the right.

    Args:
        heads: Titles of the columns.
        rows: Values of each row, as many as there are titles.
    """
    head, *body = (f"| {' | '.join(_escaped(row, _MARKDOWN))} |" for row in (heads, *rows))
    rule = "".join(f"| {'---:' if number else '---'} " for number in _numeric(heads, rows)) + "|"
    return "\n".join([head, rule, *body, ""])


def as_latex(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as LaTeX, for the package booktabs.

    Args:
        heads: Titles of the columns.
        rows: Values of each row, as many as there are titles.
    """
    head, *body = (" & ".join(_escaped(row, _TEX)) + r" \\" for row in (heads, *rows))
    columns = "".join("r" if number else "l" for number in _numeric(heads, rows))
    first = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*first, *body, r"\bottomrule", r"\end{tabular}", ""])


def table_files(name: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, str]:
    """Return a table as CSV, Markdown and LaTeX: file name -> text.

    Args:
        name: Name of the files without ending.
        heads: Titles of the columns.
        rows: Values of each row, as many as there are titles.
    """
    return {
        f"{name}.csv": as_csv(heads, rows),
        f"{name}.md": as_markdown(heads, rows),
        f"{name}.tex": as_latex(heads, rows),
    }


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return json.dumps(dict(value), sort_keys=True)
    if isinstance(value, list):
        return " ".join(f"{rate:.6g}" for rate in value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _escaped(row: Sequence[object], signs: Mapping[int, str]) -> list[str]:
    return [_BLANK.sub(" ", "" if value is None else str(value)).translate(signs) for value in row]


def _numeric(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Whether a column holds numbers; the first one names its row."""
    columns = [[str(row[index]) for row in rows if row[index] not in (None, "")] for index in range(len(heads))]
    return [index > 0 and all(map(_NUMBER.match, column)) for index, column in enumerate(columns)]
