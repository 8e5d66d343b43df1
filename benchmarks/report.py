"""Write what was measured into README.md, docs/measured.md, docs/reproduction.md and docs/training.md.

    python -m benchmarks.report [--root FOLDER]

README's table has a line for each method. docs/measured.md has for each result in benchmarks/results the most important
columns of its rows, and its claims: the figure, its target, whether it is met and where it comes from.
docs/reproduction.md has the verdicts on the papers' conclusions, docs/training.md a line for each model in
assets/models/MANIFEST.json. All are written between markers; this file has no figure of its own.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from traces.results import commit_in_words
from traces.streams import piped

Record = Mapping[str, Any]
ROOT: Final = Path(__file__).parents[1]
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Speculative decoding": ("drafting",),
    "SCD": ("video", "speed", "quality", "toy"),
    "S2D2 and decoding in blocks": ("text",),
    "PSD and its baselines": ("compare",),
    "SimSD": ("verifiers",),
    "CSpD": ("cspd", "continuous", "patches", "masked"),
    "Overhead of the engine": ("lean",),
    "A published language model": ("smollm2", "smollm2_drafts"),
    "Times computed for this machine": ("calibrated",),
    "The app": ("app",),
}
"""Heading -> benchmarks; those that no heading names come last."""
COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "acceptance": ("acceptance", ".2f"),
    "acceptance_by_place": ("accepted, by place", ".2f"),
    "acceptance_to_break_even": ("break-even acceptance", ".2f"),
    "accuracy": ("solved", ".1%"),
    "accuracy_standard_error": ("±", ".1%"),
    "as_asked_percent": ("prompt agreement, %", ".1f"),
    "baseline": ("against", ""),
    "baseline_accuracy": ("against", ".1%"),
    "bits_per_token": ("bits per token", ".2f"),
    "changes_distance": ("of changes", ".2f"),
    "drafting": ("drafter's passes per target pass", ".1f"),
    "faster": ("times faster", ".2f"),
    **{f"faster_{kind}": (kind, ".2f") for kind in ("story", "explanation", "code", "summary", "rewriting")},
    "faster_high_quartile": ("upper quartile", ".2f"),
    "faster_low_quartile": ("lower quartile", ".2f"),
    "faster_median": ("speedup", ".2f"),
    "faster_overall": ("overall", ".2f"),
    "fewer_passes": ("fewer passes", ".1f"),
    "fewer_target_passes": ("tokens per target pass", ".1f"),
    "frames_distance": ("Fréchet-like distance of frames", ".1f"),
    "frechet_like": ("Fréchet-like distance", ".0f"),
    "frechet_like_more": ("more than with one", ".0f"),
    "frechet_like_more_error": ("±", ".0f"),
    "gamma": ("γ", ""),
    "guidance": ("guidance", "g"),
    "milliseconds": ("ms", ".1f"),
    "milliseconds_computed": ("ms, computed", ".1f"),
    "milliseconds_transformers": ("ms, transformers", ".1f"),
    "nfe_ratio": ("fewer passes", ".1f"),
    "of_one_token": ("over a pass over one", ".2f"),
    "off_percent": ("error, %", "+.1f"),
    "speed": ("tokens per pass, times", ".2f"),
    "speed_by_clock": ("speedup", ".2f"),
    "time_ratio": ("speedup", ".2f"),
    "tokens": ("tokens of a pass", ""),
    "tokens_per_step": ("tokens per step", ""),
    "tokens_per_target_pass": ("tokens per target pass", ".2f"),
    "tokens_per_verification": ("tokens per target pass", ".1f"),
    "window": ("L", ""),
}
"""Field of a row -> heading and format of its column; other fields are headed by their names."""
_CSPD: Final = (
    *("drafter", "verdict", "gamma", "batch", "acceptance", "acceptance_to_break_even"),
    *("tokens_per_verification", "drafting", "faster_median"),
)
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "drafting": ("model", "drafter", "gamma", "acceptance", "fewer_target_passes", "drafting", "faster_median"),
    "video": ("decoder", "window", "nfe_ratio", "time_ratio", "frames_distance", "changes_distance"),
    "speed": ("decoder", "window", "guidance", "fewer_passes", "faster_median"),
    "quality": ("decoder", "as_asked_percent", "bits_per_token"),
    "text": ("decoder", "accuracy", "accuracy_standard_error", "fewer_target_passes", "drafting", "faster_median"),
    "compare": ("setting", "baseline", "speed", "speed_by_clock", "accuracy", "baseline_accuracy"),
    "continuous": _CSPD,
    "cspd": _CSPD,
    "smollm2": ("tokens", "milliseconds", "of_one_token", "milliseconds_transformers", "faster"),
    "smollm2_drafts": (
        *("sampling", "drafter", "gamma", "acceptance_by_place", "tokens_per_target_pass", "faster_overall"),
        *("faster_low_quartile", "faster_median", "faster_high_quartile"),
        *("faster_story", "faster_explanation", "faster_code", "faster_summary", "faster_rewriting"),
    ),
    "calibrated": ("method", "model", "setting", "passes", "milliseconds", "milliseconds_computed", "off_percent"),
    "patches": ("decoder", "guidance", "as_asked_percent", "frechet_like"),
    "masked": (
        *("tokens_per_step", "faster", "as_asked_percent"),
        *("frechet_like", "frechet_like_more", "frechet_like_more_error"),
    ),
}
"""Benchmark -> fields that are shown of its rows.

Rows without the last column are left out. Of "compare" the numbers of its claims are shown.
"""
_TOKENS: Final = ("tokens_per_verification", "fewer_target_passes", "nfe_ratio", "fewer_passes")
"""Fields with the tokens that one pass of the target gives, the first that a row has; ordinary decoding gives one."""
_MET: Final = {True: ": met", False: ": **missed**", None: ""}


@dataclass(frozen=True, slots=True)
class Headline:
    """README's row of a method: what it does, and which result has its figures."""

    method: str
    paper: str
    does: str
    result: str
    """Name of the benchmark whose result holds the row."""
    row: Record
    """What the row says of itself; of several that say it, the fastest counts."""
    exact: str = "yes, proved"


HEADLINES: Final = (
    Headline(
        "Speculative decoding",
        "2211.17192",
        "a small model drafts a few tokens, the large one checks them in one pass",
        "drafting",
        {"method": "speculative", "model": "text-target", "drafter": "text-draft"},
    ),
    Headline(
        "SCD",
        "2510.24211",
        "Jacobi iteration on a window of drafts, each coupled to the one before",
        "speed",
        {"method": "scd", "guidance": 1.0},
    ),
    Headline(
        "SCD, video",
        "2510.24211",
        "the same where tokens resemble those of the frame before: 7 frames behind 2",
        "video",
        {"method": "scd", "kind": "video"},
    ),
    Headline(
        "Confidence",
        "2505.22618",
        "a baseline: reveals all tokens above a threshold, tuned so that no answer is wrong",
        "text",
        {"method": "blockwise", "decoder": "confidence 0.3, block 4"},
        exact="no",
    ),
    Headline(
        "S2D2",
        "2603.25702",
        "a block-diffusion language model drafts, and checks itself with blocks of one token",
        "text",
        {"method": "s2d2", "decoder": "S2D2, block 16"},
    ),
    Headline(
        "Confidence",
        "2505.22618",
        "PSD's policy without its drafts",
        "text",
        {"method": "blockwise", "decoder": "confidence 0.9, block 16"},
        exact="no",
    ),
    Headline(
        "PSD",
        "2605.15609",
        "unmasks in parallel, drafts future steps, and keeps the deepest draft that holds",
        "text",
        {"method": "psd", "decoder": "PSD 0.9, block 16"},
        exact="no; its strict acceptance gives its policy's text",
    ),
    Headline(
        "SimSD",
        "2606.02544",
        "a small diffusion language model drafts for a large one under a temporal mask",
        "text",
        {"method": "simsd"},
        exact="no; its exact verifier is",
    ),
    Headline(
        "CSpD",
        "2411.11925",
        "a small model drafts continuous tokens; the paper's rule judges their last denoising step",
        "cspd",
        {"method": "cspd", "verdict": "paper"},
        exact="no; the ratio of densities is",
    ),
    Headline(
        "CSpD, whole paths (ours)",
        "2411.11925",
        "the same drafts, judged by all denoising steps as one",
        "continuous",
        {"method": "cspd-block", "batch": 1},
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill all tables; 1 when that cannot be done."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=Path, default=ROOT, help="the checkout to write into")
    root: Path = options.parse_args(arguments).root
    manifest = json.loads((root / "assets" / "models" / "MANIFEST.json").read_text(encoding="utf-8"))
    paths = sorted((root / "benchmarks" / "results").glob("*.json"))
    results = {path.stem: read(path) for path in paths}
    try:
        rewrite(root / "docs" / "training.md", "models", models_table(manifest))
        if not results:
            raise ValueError("benchmarks/results: there is no *.json in it; run a benchmark with --json first")
        if "claims" in results:
            rewrite(root / "docs" / "reproduction.md", "claims", verdicts(results["claims"]))
        rewrite(root / "docs" / "measured.md", "benchmarks", tables(results))
        rewrite(root / "README.md", "methods", headlines(results))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> Record:
    """A result; where a row counts passes of both models, it says how many of the drafter's one of the target takes."""
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


def headlines(results: Mapping[str, Record]) -> str:
    """README's table: a row for every method whose result there is; ordinary decoding is 1 in both speeds."""
    passes = "tokens per target pass", "drafter's passes per target pass"
    head = ("method", "what it does", "setting", *passes, "speedup (all settings)", "quality here", "exact")
    return table(head, [_headline(line, results[line.result]["rows"]) for line in HEADLINES if line.result in results])


def _headline(line: Headline, rows: Sequence[Record]) -> list[str]:
    rows, ordinary = [row for row in rows if line.row.items() <= row.items()], rows[0]
    speeds = {_first(row, ("faster_median", "time_ratio")): row for row in rows}
    slowest, fastest = min(speeds), max(speeds)
    row = speeds[fastest]
    quality = (
        "same distribution" if line.exact == "yes, proved" else f"{row.get('acceptance', 0):.0%} of drafts accepted"
    )
    if line.result == "text":  # the share of problems solved, with the larger of both standard errors
        error = max(each["accuracy_standard_error"] for each in (row, ordinary))
        quality = f"{row['accuracy']:.1%} solved, ordinary {ordinary['accuracy']:.1%} (± {error:.1%})"
    setting = [str(row[field]) for field in ("decoder",) if field in row]
    setting += [f"{symbol} = {row[field]}" for symbol, field in (("L", "window"), ("γ", "gamma")) if row.get(field)]
    return [
        f"**{line.method}** ([{line.paper}](https://arxiv.org/abs/{line.paper}))",
        line.does,
        ", ".join(setting),
        f"{_first(row, _TOKENS):.1f}",
        f"{row['drafting']:.1f}" if row.get("drafting") else "",
        f"{fastest:.2f}×" + (f" ({slowest:.2f} to {fastest:.2f})" if len(rows) > 1 else ""),
        quality,
        line.exact,
    ]


def _first(row: Record, fields: Sequence[str]) -> float:
    """The first of the fields that a row has."""
    return next(float(row[field]) for field in fields if field in row)


def verdicts(result: Record) -> str:
    """What was found of each published conclusion."""
    head = ["where", "conclusion", "effects here, positive as reported", "verdict"]
    found = [row for row in result["rows"] if row["verdict"] != "needs weights"]
    rows = ([f"{row['paper']}, {row['place']}", row["says"], row["found"], f"**{row['verdict']}**"] for row in found)
    return f"`{result['command']}`: {origin(result)}.\n\n{table(head, rows)}"


def models_table(manifest: Record) -> str:
    """What the manifest says of every model."""
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
        cells = [[_cell(row.get(field), field) for field in TABLES[name]] for row in rows]
        heads = [COLUMNS.get(field, (field, ""))[0] for field in TABLES[name]]
        parts.append(table(heads, [row for row in cells if row[-1]]))
    if claims:
        parts.append(table(["figure", "measured", "target", "details"], map(_claim, claims)))
    return "\n\n".join(parts)


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
    sys.exit(piped(main))
