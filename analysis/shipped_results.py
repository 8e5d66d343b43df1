"""Results shipped with the app, from the files that `make measured` writes.

A file is a JSON object with `rows`, a list of flat objects that name their `method`; `title` and `environment` describe
what was measured and on which machine.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from draftscope.analysis.speedup_model import MeasuredSpeeds
from draftscope.analysis.tables import in_words
from draftscope.traces.files import ROOT

FOLDER: Final = ROOT / "benchmarks" / "results"
_CONCLUSIONS: Final = "claims.json"
_HIDDEN: Final = ("method", "commit")
_COMMIT_DIGITS: Final = 12
_SHORT: Final = 8
"""Numbers that a cell lists; of more it has the range."""
_ERRORS: Final = ("_standard_error", "_error")
_TIGHT: Final = "\N{NO-BREAK SPACE}"
_MEDIAN, _LOW, _HIGH = "_median", "_low_quartile", "_high_quartile"


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of one result that are about a method."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    device_text: str
    """Machine of the measurement and what all rows share, in words."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Conclusion of a paper, with the result of runs of the models that ship."""

    source: str
    """Figure or table of the paper."""
    statement: str
    found: str
    verdict: str


def read_result(path: Path) -> dict[str, Any]:
    """A result with its rows and environment; empty where there is no such file."""
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {"rows": [], "environment": {}, **result}


def measured(method: str, folder: Path = FOLDER) -> list[Measured]:
    """Return the results of all files for a method.

    Args:
        method: Name of the method.
        folder: Folder of result files; by default those that ship.
    """
    results = {path: read_result(path) for path in sorted(folder.glob("*.json")) if path.name != _CONCLUSIONS}
    return [
        _of(result, rows, path.stem.replace("_", " "))
        for path, result in results.items()
        if (rows := [row for row in result["rows"] if row.get("method") == method])
    ]


def conclusions(method: str, folder: Path = FOLDER) -> list[Conclusion]:
    """Return the conclusions of a method's paper, with what was found of each.

    Args:
        method: Name of the method.
        folder: Folder of result files; by default those that ship.
    """
    rows = (row for row in read_result(folder / _CONCLUSIONS)["rows"] if row["method"] == method)
    return [Conclusion(row["place"], row["says"], row["found"], row["verdict"]) for row in rows]


def drafted(folder: Path = FOLDER) -> tuple[MeasuredSpeeds, ...]:
    """Speculative decoding as benchmarks.draft_models and benchmarks.continuous measured it, by model and drafter."""
    by_pair: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for result in (read_result(folder / name) for name in ("draft_models.json", "continuous.json")):
        for row in result["rows"]:
            if "gamma" in row:
                drafter = ", ".join(filter(None, (row["drafter"], row.get("verdict"))))
                device_text = str(result["environment"].get("device", ""))
                by_pair.setdefault((row["model"], drafter, device_text), []).append(row)
    spread = "faster_median", "faster_low_quartile", "faster_high_quartile"
    return tuple(
        MeasuredSpeeds(
            target=target,
            drafter=drafter,
            location=device_text,
            acceptance=(mean := round(fmean(row["acceptance"] for row in rows), 2)),
            spread=round(max(abs(row["acceptance"] - mean) for row in rows), 2),
            speeds={(row["gamma"], row.get("batch", 1)): tuple(row[name] for name in spread) for row in rows},
        )
        for (target, drafter, device_text), rows in by_pair.items()
    )


def _of(result: Mapping[str, Any], rows: list[Mapping[str, Any]], title: str) -> Measured:
    names = dict.fromkeys(name for row in rows for name in row)
    candidates = [name for name in names if name not in _HIDDEN and not _belongs(name, names)]
    cells = {name: [_cell(row, name) for row in rows] for name in candidates}
    shared = {name: of[0] for name, of in cells.items() if len(rows) > 1 and len({*of}) == 1}
    columns = [name for name in candidates if name not in shared] or candidates
    environment = {name: value for name, value in result["environment"].items() if isinstance(value, str | int)}
    if "commit" in environment:
        environment["commit"] = str(environment["commit"])[:_COMMIT_DIGITS]
    described = {**(shared if columns != candidates else {}), **environment}
    title, device = str(result.get("title") or title), str(environment.get("device", "cpu"))
    return Measured(
        title=title if device.startswith("cpu") else f"{title}, {device}",
        heads=tuple(name.replace("_", " ") for name in columns),
        rows=tuple(zip(*(cells[name] for name in columns), strict=True)),
        device_text=", ".join(f"{name.replace('_', ' ')} {value}" for name, value in described.items()),
    )


def _belongs(name: str, names: Mapping[str, None]) -> bool:
    """Return whether a column is the error or a quartile of another one, next to which it is written."""
    owners = [name.removesuffix(ending) for ending in _ERRORS if name.endswith(ending)]
    owners += [name.removesuffix(ending) + _MEDIAN for ending in (_LOW, _HIGH) if name.endswith(ending)]
    return any(owner in names or f"{owner}_percent" in names for owner in owners)


def _cell(row: Mapping[str, Any], name: str) -> str:
    bare, base = name.removesuffix("_percent"), name.removesuffix(_MEDIAN)
    if isinstance(words := row.get(name), str):
        return words
    text = _listed(words) if isinstance(words, list) else in_words(words)
    error = next((row[bare + ending] for ending in _ERRORS if bare + ending in row), None)
    if error is not None:
        text += f" ± {error:.2g}"
    if name.endswith(_MEDIAN) and row.get(base + _LOW) is not None and row.get(base + _HIGH) is not None:
        text += f" ({in_words(row[base + _LOW])} to {in_words(row[base + _HIGH])})"
    return text.replace(" ", _TIGHT)


def _listed(numbers: Sequence[Any]) -> str:
    """A few values one by one, many numbers as their range."""
    if not all(isinstance(number, int | float) for number in numbers):
        return in_words(tuple(numbers))
    if len(numbers) > _SHORT:
        return f"{min(numbers):.2g} to {max(numbers):.2g} ({len(numbers)} values)"
    return ", ".join(f"{number:.2g}" for number in numbers)
