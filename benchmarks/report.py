"""Write what the benchmarks measured into README.md.

    python -m benchmarks.report [--results FOLDER] [--readme FILE]

Reads every result in benchmarks/results and puts one line a claim between the markers `<!-- benchmarks -->` and
`<!-- /benchmarks -->`: the figure, its target, whether it is met and where it comes from. Every figure is read from a
result; none is written here.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
OPEN, CLOSE = "<!-- benchmarks -->", "<!-- /benchmarks -->"
_HEAD: Final = "| claim | measured | target | | where it comes from | command |\n|---|---|---|---|---|---|"
_VERDICTS: Final = {True: "met", False: "**missed**", None: ""}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the table; 1 when there is nothing to fill it with."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    options.add_argument("--readme", type=Path, default=ROOT / "README.md")
    chosen = options.parse_args(arguments)
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(chosen.results.glob("*.json"))]
    if not results:
        print(f"results: there is no *.json in {chosen.results}; run a benchmark with --json first.", file=sys.stderr)
        return 1
    text = chosen.readme.read_text(encoding="utf-8")
    try:
        filled = fill(text, table(results))
    except ValueError as error:
        print(f"readme: {chosen.readme}: {error}", file=sys.stderr)
        return 1
    chosen.readme.write_text(filled, encoding="utf-8")
    return 0


def fill(text: str, content: str) -> str:
    """`text` with `content` between the markers.

    Raises:
        ValueError: when the markers are not there once each, in this order.
    """
    before, opened, rest = text.partition(OPEN)
    _, closed, after = rest.partition(CLOSE)
    if not (opened and closed) or OPEN in rest or CLOSE in after:
        raise ValueError(f"it needs the markers {OPEN} and {CLOSE} once each, in this order; put them back")
    return f"{before}{OPEN}\n{content}\n{CLOSE}{after}"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """All claims, and below them where each result was measured."""
    lines = [_line(claim, one["command"]) for one in results for claim in one["claims"]]
    places: dict[str, list[str]] = {}
    for one in results:
        places.setdefault(place(one), []).append(one["command"].split()[2].removeprefix("benchmarks."))
    where = [f"{', '.join(names)}: {text}" for text, names in places.items()]
    return "\n".join([_HEAD, *lines, "", "Measured on: " + "; ".join(where) + "."])


def place(result: Mapping[str, Any]) -> str:
    """Device, threads, torch, commit and date of a result."""
    environment = result["environment"]
    commit, _, dirty = environment["commit"].partition("+")
    state = f"commit {commit[:12]}{' with changes' if dirty else ''}" if commit else "no commit"
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    torch = f"torch {environment['libraries']['torch']}"
    return ", ".join([environment["device"], threads, torch, state, result["created"][:10]])


def _line(claim: Mapping[str, Any], command: str) -> str:
    measured = "not measured" if claim["measured"] is None else _quantity(claim["measured"], claim["unit"])
    target = "" if claim["target"] is None else f"{claim['bound']} {_quantity(claim['target'], claim['unit'])}"
    cells = [claim["name"], measured, target, _VERDICTS[claim["met"]], claim["reason"], f"`{command}`"]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _quantity(number: float, unit: str) -> str:
    return f"{number:.3g} {unit}".strip()


if __name__ == "__main__":
    sys.exit(main())
