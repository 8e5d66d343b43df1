"""Write measurements into README.md, docs/measured.md, docs/reproduction.md and docs/training.md.

README's table has a line for each method. docs/measured.md has one for each variant as well, and for each result in
benchmarks/results the most important columns of its rows, and its claims: the figure, its target, whether it is met and
its details. docs/reproduction.md has the verdicts on the papers' conclusions, docs/training.md a line for each model in
assets/models/MANIFEST.json. All are written between markers; report.toml defines their columns and lines, and neither
contains a figure of its own.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from draftscope.analysis.results import commit_in_words
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.traces.files import ROOT

Record = Mapping[str, Any]
SHOWN: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SECTIONS: Final[Mapping[str, Sequence[str]]] = SHOWN["sections"]
"""Heading -> benchmarks; those that no heading names come last."""
COLUMNS: Final[Mapping[str, Sequence[str]]] = SHOWN["columns"]
"""Field of a row -> heading and format of its column; other fields are headed by their names."""
TABLES: Final[Mapping[str, Sequence[str]]] = SHOWN["tables"]
"""Benchmark -> fields that are shown of its rows."""
_TOKENS: Final = (
    *("tokens_per_verification", "fewer_target_passes", "nfe_ratio", "fewer_passes", "tokens_per_target_pass"),
)
"""Fields with the tokens that one pass of the target gives, the first that a row has; ordinary decoding gives one."""
_GROUPS: Final = (
    *("engine", "model", "decoder", "drafter", "verdict", "sampling", "family", "method", "setting"),
    *("kind", "guidance", "tokens", "tokens_per_step"),
)
"""Fields that make up a decoder in a table; of its other settings the fastest and the slowest are shown."""
_SPEEDS: Final = ("faster_overall", "faster_median", "time_ratio")
"""Fields with the speed over ordinary decoding, the first that a row has."""
_MET: Final = {True: ": met", False: ": **missed**", None: ""}


@dataclass(frozen=True, slots=True)
class Headline:
    """The row of a method: what it does, and which result has its figures."""

    method: str
    paper: str
    does: str
    result: str
    """Name of the benchmark whose result holds the row."""
    row: Record
    """Fields of the row; of several that match, the fastest is used."""
    exact: str = "yes, proved"
    in_readme: bool = True


_HEAD: Final = (
    *("method", "what it does", "setting", "tokens per target pass", "drafter's passes per target pass"),
    *("speedup (all settings)", "quality here", "exact"),
)
HEADLINES: Final = tuple(Headline(**line) for line in SHOWN["methods"])


def main() -> int:
    """Fill all tables; 1 when that cannot be done."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    manifest = json.loads((ROOT / "assets" / "models" / "MANIFEST.json").read_text(encoding="utf-8"))
    paths = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    results = {path.stem: read(path) for path in paths}
    try:
        rewrite(ROOT / "docs" / "training.md", "models", models_table(manifest))
        if not results:
            raise ValueError("benchmarks/results: there is no *.json in it; run a benchmark with --json first")
        if "claims" in results:
            rewrite(ROOT / "docs" / "reproduction.md", "claims", verdicts(results["claims"]))
        rewrite(ROOT / "docs" / "measured.md", "benchmarks", tables(results))
        rewrite(ROOT / "docs" / "measured.md", "methods", headlines(results))
        rewrite(ROOT / "README.md", "methods", brief(results))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> Record:
    """Read a result; if a row counts passes of both models, the drafter's passes per target pass are added."""
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for row in result["rows"]:
        for drafts, passes in (("draft_passes", "target_passes"), ("draft_calls", "target_calls")):
            if drafts in row:
                row["drafting"] = row[drafts] / row[passes]
        if "fewer_target_passes" in row and "fewer_passes" in row:
            row["drafting"] = row["fewer_target_passes"] / row["fewer_passes"] - 1
    return result


def rewrite(path: Path, marker: str, content: str) -> None:
    """Put `content` between the markers of a file; see `fill`."""
    try:
        path.write_text(replace_marked_section(path.read_text(encoding="utf-8"), marker, content), encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def replace_marked_section(text: str, marker: str, content: str) -> str:
    """`text` with `content` between `<!-- marker -->` and `<!-- /marker -->`.

    Raises:
        ValueError: when the markers are not there once each, in this order.
    """
    opening, closing = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    before, opened, remainder = text.partition(opening)
    _, closed, after = remainder.partition(closing)
    if not (opened and closed) or opening in remainder or closing in after:
        raise ValueError(f"it needs {opening} and {closing} once each, in this order; put them back")
    return f"{before}{opening}\n{content}\n{closing}{after}"


def headlines(results: Mapping[str, Record]) -> str:
    """Return the table of all methods and variants that have a result; ordinary decoding is 1 in both speeds."""
    return table(_HEAD, [_headline(line, results[line.result]["rows"]) for line in HEADLINES if line.result in results])


def brief(results: Mapping[str, Record]) -> str:
    """Return README's table: the rows that belong there, without settings and the drafter's passes."""
    lines = [line for line in HEADLINES if line.result in results and line.in_readme]
    rows = [_headline(line, results[line.result]["rows"]) for line in lines]
    head, *cells = ([cell for i, cell in enumerate(row) if i not in (2, 4)] for row in (_HEAD, *rows))
    return table(head, cells)


def _headline(line: Headline, rows: Sequence[Record]) -> list[str]:
    rows, ordinary = [row for row in rows if line.row.items() <= row.items()], rows[0]
    speeds = {_first(row, _SPEEDS): row for row in rows}
    slowest, fastest = min(speeds), max(speeds)
    row = speeds[fastest]
    quality = (
        "same distribution" if line.exact == "yes, proved" else f"{row.get('acceptance', 0):.0%} of drafts accepted"
    )
    if line.result == "text":  # the share of problems solved, with the larger of both standard errors
        error = max(each["accuracy_standard_error"] for each in (row, ordinary))
        quality = f"{row['accuracy']:.1%} solved, ordinary {ordinary['accuracy']:.1%} (± {error:.1%})"
    elif line.exact != "yes, proved" and "same_percent" in row:
        quality = f"{row['same_percent']:.0f}% of texts are ordinary decoding's"
    setting = [str(row[field]) for field in ("decoder",) if field in row]
    setting += [f"{symbol} = {row[field]}" for symbol, field in (("L", "window"), ("γ", "gamma")) if row.get(field)]
    return [
        f"**{line.method}** ([{line.paper}](https://arxiv.org/abs/{line.paper}))",
        line.does,
        ", ".join(setting),
        next(_cell(row[field], field) for field in _TOKENS if field in row),
        f"{row['drafting']:.1f}" if row.get("drafting") else "",
        f"{fastest:.2f}×" + (f" ({slowest:.2f} to {fastest:.2f})" if len(rows) > 1 else ""),
        quality,
        line.exact,
    ]


def _first(row: Record, fields: Sequence[str]) -> float:
    """The first of the fields that a row has."""
    return next(float(row[field]) for field in fields if field in row)


def verdicts(result: Record) -> str:
    """Return the findings on each published conclusion, by machine."""
    head = ["where", "conclusion", "effects on the CPU, positive as reported", "CPU", "H100"]
    rows = [
        [
            f"{row['paper']}, {row['place']}",
            row["says"],
            row["found"],
            f"**{row['verdict']}**",
            f"**{row['verdict_h100']}**: {row['found_h100']}" if "verdict_h100" in row else "",
        ]
        for row in result["rows"]
        if row["verdict"] != "needs weights"
    ]
    return f"`{result['command']}`: {origin(result)}.\n\n{table(head, rows)}"


def models_table(manifest: Record) -> str:
    """Return the table of all models in the manifest."""
    rows = []
    for name, entry in manifest.items():
        run = entry["trained"]
        trained = f"{run['steps']:,} steps of {run['batch']}, {run['minutes']:g} min"
        metrics = "; ".join(f"{metric.replace('_', ' ')} {value:g}" for metric, value in entry["metrics"].items())
        rows.append([name, f"{entry['parameters']:,}", trained, metrics])
    return table(["model", "parameters", "trained", "measured"], rows)


def tables(results: Mapping[str, Record]) -> str:
    """All results by method."""
    named = {name for names in SECTIONS.values() for name in names} | {"claims"}  # which are in docs/reproduction.md
    sections = {**SECTIONS, "Other": tuple(sorted(results.keys() - named))}
    parts = []
    for heading, names in sections.items():
        written = [section(name, results[name]) for name in names if name in results]
        parts += [f"## {heading}", *written] if written else []
    return "\n\n".join(parts)


def section(name: str, result: Record) -> str:
    """The rows and claims of one result."""
    rows, claims = result["rows"], result["claims"]
    if name == "compare":
        rows = [claim["numbers"] for claim in claims if claim.get("numbers")]
        claims = [claim for claim in claims if claim["target"] is not None]
    parts = [f"`{result['command']}`: {origin(result)}."]
    if name in TABLES:
        cells = [[_cell(row.get(field), field) for field in TABLES[name]] for row in fastest_and_slowest(rows, name)]
        heads = [COLUMNS.get(field, (field, ""))[0] for field in TABLES[name]]
        parts.append(table(heads, [row for row in cells if row[-1]]))
    if claims:
        parts.append(table(["figure", "measured", "target", "details"], map(_claim, claims)))
    return "\n\n".join(parts)


def fastest_and_slowest(rows: Sequence[Record], name: str) -> list[Record]:
    """Return the fastest and the slowest row of each decoder; in tables without speeds, by the last column."""
    last = next((field for field in _SPEEDS if field in TABLES[name]), TABLES[name][-1])
    groups: dict[tuple[object, ...], list[Record]] = {}
    for row in rows:
        if row.get(last) is not None:
            groups.setdefault(tuple(row.get(field) for field in _GROUPS), []).append(row)
    shown = {id(pick(group, key=lambda row: row[last])) for group in groups.values() for pick in (min, max)}
    return [row for row in rows if id(row) in shown]


def _cell(value: Any, field: str) -> str:
    if value is None or (field == "drafting" and value < 0.05):
        return ""
    if isinstance(value, list):
        return " ".join(_cell(part, field) for part in value)
    return format(value, COLUMNS.get(field, ("", ""))[1])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in (head, *rows)]
    return "\n".join([f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {line} |" for line in lines[1:])])


def origin(result: Record) -> str:
    """Device, threads, commit and date of a result."""
    environment = result["environment"]
    state = commit_in_words(environment["commit"]) or "no commit"
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    return ", ".join([environment["device"], threads, state, result["created"][:10]])


def _claim(claim: Record) -> list[str]:
    """A claim with the first clause of its details; the result has the rest."""
    measured = "not measured" if claim["measured"] is None else _quantity(claim["measured"], claim["unit"])
    target = "" if claim["target"] is None else f"{claim['bound']} {_quantity(claim['target'], '')}{_MET[claim['met']]}"
    return [claim["name"], measured, target, claim["reason"].partition(";")[0]]


def _quantity(number: float, unit: str) -> str:
    digits = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return f"{digits} {unit}".strip()


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
