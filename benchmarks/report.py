"""Write what was measured into README.md, docs/measured.md and docs/training.md.

    python -m benchmarks.report [--root FOLDER]

README's table has one line a method. The tables of docs/measured.md have one for every claim in benchmarks/results: the
figure, its target, whether it is met and where it comes from. The table of docs/training.md has one for every model in
assets/models/MANIFEST.json. All stand between markers, and no figure is written here.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import _headlines
from traces.streams import piped

ROOT: Final = Path(__file__).parents[1]
_HEAD: Final = "| claim | measured | target | | where it comes from |\n|---|---|---|---|---|"
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Speculative decoding": ("drafting",),
    "SCD": ("video", "speed", "quality", "toy"),
    "S2D2 and decoding in blocks": ("text",),
    "PSD, its baselines, and what haste costs": ("compare",),
    "SimSD": ("verifiers",),
    "CSpD": ("continuous", "patches"),
    "What the engine costs": ("lean",),
    "The app": ("app", "load"),
    "Strange documents and faults": ("fuzz", "faults"),
}
"""Heading -> benchmarks; those that no heading names come last."""
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
    """All claims by method, ratios first and the best of them on top, with command and machine."""
    named = {name for names in SECTIONS.values() for name in names}
    sections = {**SECTIONS, "Other": tuple(sorted(results.keys() - named))}
    parts = []
    for heading, names in sections.items():
        found = [section(results[name]) for name in names if name in results]
        parts += [f"## {heading}", *found] if found else []
    return "\n\n".join(parts)


def section(result: Mapping[str, Any]) -> str:
    """The claims of one result."""
    claims = sorted(result["claims"], key=_rank)
    head = f"`{result['command']}`, measured on {place(result)}."
    return "\n".join([head, "", _HEAD, *map(_line, claims)])


def _rank(claim: Mapping[str, Any]) -> tuple[bool, float]:
    """Ratios fall from the best; everything else keeps its order behind them."""
    ratio = claim["unit"] == "×" and claim["measured"] is not None
    return (not ratio, -claim["measured"] if ratio else 0.0)


def place(result: Mapping[str, Any]) -> str:
    """Device, threads, torch, commit and date of a result."""
    environment = result["environment"]
    commit, _, dirty = environment["commit"].partition("+")
    state = f"commit {commit[:12]}{' with changes' if dirty else ''}" if commit else "no commit"
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    torch = f"torch {environment['libraries']['torch']}"
    return ", ".join([environment["device"], threads, torch, state, result["created"][:10]])


def _line(claim: Mapping[str, Any]) -> str:
    measured = "not measured" if claim["measured"] is None else _quantity(claim["measured"], claim["unit"])
    target = "" if claim["target"] is None else f"{claim['bound']} {_quantity(claim['target'], claim['unit'])}"
    cells = [claim["name"], measured, target, _VERDICTS[claim["met"]], claim["reason"]]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _quantity(number: float, unit: str) -> str:
    digits = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return f"{digits} {unit}".strip()


if __name__ == "__main__":
    sys.exit(piped(main))
