"""Write what was measured into README.md, docs/measured.md and docs/training.md.

    python -m benchmarks.report [--root FOLDER]

README's table has a line for each method. docs/measured.md has for each result in benchmarks/results the most important
columns of its rows, and its claims: the figure, its target, whether it is met and where it comes from. The table of
docs/training.md has a line for each model in assets/models/MANIFEST.json. All stand between markers, and no figure is
written here.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import _headlines
from traces.streams import piped

ROOT: Final = Path(__file__).parents[1]
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Speculative decoding": ("drafting",),
    "SCD": ("video", "speed", "quality", "toy"),
    "S2D2 and decoding in blocks": ("text",),
    "PSD, its baselines, and what haste costs": ("compare",),
    "SimSD": ("verifiers",),
    "CSpD": ("continuous", "patches"),
    "What the engine costs": ("lean",),
    "The app": ("app",),
}
"""Heading -> benchmarks; those that no heading names come last."""
_SPEED: Final = ("speedup", "faster_median", ".2f")
TABLES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "drafting": (
        *(
            ("model", "model", ""),
            ("drafts by", "drafter", ""),
            ("γ", "gamma", ""),
            ("acceptance", "acceptance", ".2f"),
        ),
        *(("tokens per target pass", "fewer_target_passes", ".1f"), _SPEED),
    ),
    "video": (
        *(("decoder", "decoder", ""), ("L", "window", ""), ("fewer passes", "nfe_ratio", ".1f")),
        *(("speedup", "time_ratio", ".2f"), ("Fréchet-like distance of frames", "frames_distance", ".1f")),
        ("of changes", "changes_distance", ".2f"),
    ),
    "speed": (
        *(("decoder", "decoder", ""), ("L", "window", ""), ("guidance", "guidance", "g")),
        *(("fewer passes", "fewer_passes", ".1f"), _SPEED),
    ),
    "quality": (
        *(("decoder", "decoder", ""), ("as asked, %", "all_three_percent", ".1f")),
        ("bits per token", "bits_per_token", ".2f"),
    ),
    "text": (
        *(("decoder", "decoder", ""), ("solved", "accuracy", ".1%"), ("±", "accuracy_standard_error", ".1%")),
        ("fewer passes", "fewer_passes", ".1f"),
        *(("fewer target passes", "fewer_target_passes", ".1f"), _SPEED),
    ),
    "compare": (
        *(("setting", "setting", ""), ("against", "baseline", ""), ("tokens per pass, times", "speed", ".2f")),
        *(("speedup", "speed_by_clock", ".2f"), ("solved", "accuracy", ".1%"), ("against", "baseline_accuracy", ".1%")),
    ),
    "continuous": (
        *(("drafter", "drafter", ""), ("verdict", "verdict", ""), ("γ", "gamma", ""), ("batch", "batch", "")),
        *(("acceptance", "acceptance", ".2f"), ("breaks even at", "acceptance_to_break_even", ".2f")),
        *(("tokens per target pass", "tokens_per_verification", ".1f"), _SPEED),
    ),
    "patches": (
        *(("decoder", "decoder", ""), ("guidance", "guidance", "g"), ("as asked, %", "all_three_percent", ".0f")),
        ("Fréchet-like distance", "frechet_like", ".0f"),
    ),
}
"""Benchmark -> heading, field and format of the columns that are shown of its rows.

Rows without the last column are left out. Of "compare" the numbers of its claims are shown.
"""
_VERDICTS: Final = {True: "met", False: "**missed**", None: ""}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill all tables; 1 when that cannot be done."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=Path, default=ROOT, help="the checkout to write into")
    root: Path = options.parse_args(arguments).root
    manifest = json.loads((root / "assets" / "models" / "MANIFEST.json").read_text(encoding="utf-8"))
    paths = sorted((root / "benchmarks" / "results").glob("*.json"))
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    try:
        rewrite(root / "docs" / "training.md", "models", models_table(manifest))
        if not results:
            raise ValueError("benchmarks/results: there is no *.json in it; run a benchmark with --json first")
        rewrite(root / "docs" / "measured.md", "benchmarks", tables(results))
        rewrite(root / "README.md", "methods", _headlines.table(results))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def rewrite(path: Path, marker: str, content: str) -> None:
    """Put `content` between the markers of a file.

    Raises:
        ValueError: when the markers are not there once each, in this order.
    """
    try:
        path.write_text(fill(path.read_text(encoding="utf-8"), marker, content), encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def fill(text: str, marker: str, content: str) -> str:
    """`text` with `content` between `<!-- marker -->` and `<!-- /marker -->`.

    Raises:
        ValueError: when the markers are not there once each, in this order.
    """
    opening, closing = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    before, opened, rest = text.partition(opening)
    _, closed, after = rest.partition(closing)
    if not (opened and closed) or opening in rest or closing in after:
        raise ValueError(f"it needs {opening} and {closing} once each, in this order; put them back")
    return f"{before}{opening}\n{content}\n{closing}{after}"


def models_table(manifest: Mapping[str, Any]) -> str:
    """What the manifest says of every model."""
    lines = ["| model | parameters | command | trained | measured |", "|---|---|---|---|---|"]
    for name, entry in manifest.items():
        run = entry["trained"]
        trained = f"{run['steps']:,} steps of {run['batch']} in {run['minutes']:g} minutes, {run['device']}"
        metrics = "; ".join(f"{metric.replace('_', ' ')} {value:g}" for metric, value in entry["metrics"].items())
        lines.append(f"| {name} | {entry['parameters']:,} | `{entry['command']}` | {trained} | {metrics} |")
    return "\n".join(lines)


def tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """All results by method."""
    named = {name for names in SECTIONS.values() for name in names}
    sections = {**SECTIONS, "Other": tuple(sorted(results.keys() - named))}
    parts = []
    for heading, names in sections.items():
        shown = [section(name, results[name]) for name in names if name in results]
        parts += [f"## {heading}", *shown] if shown else []
    return "\n\n".join(parts)


def section(name: str, result: Mapping[str, Any]) -> str:
    """The rows and claims of one result."""
    rows, claims = result["rows"], result["claims"]
    if name == "compare":
        rows = [claim["numbers"] for claim in claims if claim.get("numbers")]
        claims = [claim for claim in claims if claim["target"] is not None]
    parts = [f"`{result['command']}`: {place(result)}."]
    if name in TABLES:
        columns = TABLES[name]
        cells = [[_cell(row.get(field), form) for _, field, form in columns] for row in rows]
        parts.append(_table([heading for heading, *_ in columns], [row for row in cells if row[-1]]))
    if claims:
        parts.append(_table(["", "measured", "target", "", "from"], map(_claim, claims)))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in (head, *rows)]
    return "\n".join([f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {line} |" for line in lines[1:])])


def _cell(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def place(result: Mapping[str, Any]) -> str:
    """Device, threads, commit and date of a result."""
    environment = result["environment"]
    commit, _, dirty = environment["commit"].partition("+")
    state = f"commit {commit[:12]}{' with changes' if dirty else ''}" if commit else "no commit"
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    return ", ".join([environment["device"], threads, state, result["created"][:10]])


def _claim(claim: Mapping[str, Any]) -> list[str]:
    """A claim with the first clause of where it comes from; the rest stands in the result."""
    measured = "not measured" if claim["measured"] is None else _quantity(claim["measured"], claim["unit"])
    target = "" if claim["target"] is None else f"{claim['bound']} {_quantity(claim['target'], '')}"
    return [claim["name"], measured, target, _VERDICTS[claim["met"]], claim["reason"].partition(";")[0]]


def _quantity(number: float, unit: str) -> str:
    digits = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return f"{digits} {unit}".strip()


if __name__ == "__main__":
    sys.exit(piped(main))
