"""Write what was measured into README.md, docs/measured.md, docs/reproduction.md and docs/training.md.

    python -m benchmarks.report [--root FOLDER]

README's table has a line for each method. docs/measured.md has for each result in benchmarks/results the most important
columns of its rows, and its claims: the figure, its target, whether it is met and where it comes from.
docs/reproduction.md has the verdicts on the papers' conclusions, docs/training.md a line for each model in
assets/models/MANIFEST.json. All stand between markers, and no figure is written here.
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
    "PSD, its baselines, and what haste costs": ("compare",),
    "SimSD": ("verifiers",),
    "CSpD": ("cspd", "continuous", "patches", "masked"),
    "What the engine costs": ("lean",),
    "A published language model": ("smollm2", "smollm2_drafts"),
    "Times computed for this machine": ("calibrated",),
    "The app": ("app",),
}
"""Heading -> benchmarks; those that no heading names come last."""
Column = tuple[str, str, str]
_DECODER: Final = ("decoder", "decoder", "")
_WINDOW: Final = ("L", "window", "")
_FEWER: Final = ("fewer passes", "fewer_passes", ".1f")
_DRAFTING: Final = ("drafter's passes per target pass", "drafting", ".1f")
_SPEEDUP: Final = ("speedup", "faster_median", ".2f")
TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "drafting": (
        ("model", "model", ""),
        ("drafts by", "drafter", ""),
        ("γ", "gamma", ""),
        ("acceptance", "acceptance", ".2f"),
        ("tokens per target pass", "fewer_target_passes", ".1f"),
        _DRAFTING,
        _SPEEDUP,
    ),
    "video": (
        _DECODER,
        _WINDOW,
        ("fewer passes", "nfe_ratio", ".1f"),
        ("speedup", "time_ratio", ".2f"),
        ("Fréchet-like distance of frames", "frames_distance", ".1f"),
        ("of changes", "changes_distance", ".2f"),
    ),
    "speed": (_DECODER, _WINDOW, ("guidance", "guidance", "g"), _FEWER, _SPEEDUP),
    "quality": (_DECODER, ("as asked, %", "as_asked_percent", ".1f"), ("bits per token", "bits_per_token", ".2f")),
    "text": (
        _DECODER,
        ("solved", "accuracy", ".1%"),
        ("±", "accuracy_standard_error", ".1%"),
        _FEWER,
        ("fewer target passes", "fewer_target_passes", ".1f"),
        _DRAFTING,
        _SPEEDUP,
    ),
    "compare": (
        ("setting", "setting", ""),
        ("against", "baseline", ""),
        ("tokens per pass, times", "speed", ".2f"),
        ("speedup", "speed_by_clock", ".2f"),
        ("solved", "accuracy", ".1%"),
        ("against", "baseline_accuracy", ".1%"),
    ),
    **dict.fromkeys(
        ("continuous", "cspd"),
        (
            ("drafter", "drafter", ""),
            ("verdict", "verdict", ""),
            ("γ", "gamma", ""),
            ("batch", "batch", ""),
            ("acceptance", "acceptance", ".2f"),
            ("breaks even at", "acceptance_to_break_even", ".2f"),
            ("tokens per target pass", "tokens_per_verification", ".1f"),
            _DRAFTING,
            _SPEEDUP,
        ),
    ),
    "smollm2": (
        ("tokens of a pass", "tokens", ""),
        ("ms", "milliseconds", ".1f"),
        ("over a pass over one", "of_one_token", ".2f"),
        ("ms, transformers", "milliseconds_transformers", ".1f"),
        ("times faster", "faster", ".2f"),
    ),
    "smollm2_drafts": (
        ("sampling", "sampling", ""),
        ("drafts by", "drafter", ""),
        ("γ", "gamma", ""),
        ("tokens per target pass", "tokens_per_target_pass", ".2f"),
        ("speedup", "faster_overall", ".2f"),
        ("median", "faster_median", ".2f"),
        ("quartiles", "faster_low_quartile", ".2f"),
        ("", "faster_high_quartile", ".2f"),
        *((kind, f"faster_{kind}", ".2f") for kind in ("story", "explanation", "code", "summary", "rewriting")),
    ),
    "calibrated": (
        ("method", "method", ""),
        ("model", "model", ""),
        ("setting", "setting", ""),
        ("passes", "passes", ""),
        ("ms, measured", "milliseconds", ".0f"),
        ("ms, computed", "milliseconds_computed", ".0f"),
        ("off, %", "off_percent", "+.1f"),
    ),
    "patches": (
        _DECODER,
        ("guidance", "guidance", "g"),
        ("as asked, %", "as_asked_percent", ".0f"),
        ("Fréchet-like distance", "frechet_like", ".0f"),
    ),
    "masked": (
        ("tokens per step", "tokens_per_step", ""),
        ("speedup", "faster", ".2f"),
        ("as asked, %", "as_asked_percent", ".0f"),
        ("Fréchet-like distance", "frechet_like", ".0f"),
        ("more than with one", "frechet_like_more", ".0f"),
        ("±", "frechet_like_more_error", ".0f"),
    ),
}
"""Benchmark -> heading, field and format of the columns that are shown of its rows.

Rows without the last column are left out. Of "compare" the numbers of its claims are shown.
"""
_MET: Final = {True: ": met", False: ": **missed**", None: ""}


@dataclass(frozen=True, slots=True)
class Headline:
    """README's row of a method: what it does, and where its figures stand."""

    method: str
    paper: str
    does: str
    result: str
    """Name of the benchmark whose result holds the row."""
    row: Record
    """What the row says of itself; of several that say it, the fastest counts."""
    tokens: str
    """Field with the tokens that one pass of the target gives; ordinary decoding gives one."""
    faster: str = "faster_median"
    """Field with times faster than ordinary decoding, one sequence at a time."""
    exact: str = "yes, proved"


HEADLINES: Final = (
    Headline(
        "Speculative decoding",
        "2211.17192",
        "a small model drafts a few tokens, the large one checks them in one pass",
        "drafting",
        {"method": "speculative", "model": "text-target", "drafter": "text-draft"},
        "fewer_target_passes",
    ),
    Headline(
        "SCD",
        "2510.24211",
        "Jacobi iteration on a window of drafts, each coupled to the one before",
        "speed",
        {"method": "scd", "guidance": 1.0},
        "fewer_passes",
    ),
    Headline(
        "SCD, video",
        "2510.24211",
        "the same where tokens resemble those of the frame before: 7 frames behind 2",
        "video",
        {"method": "scd", "kind": "video"},
        "nfe_ratio",
        "time_ratio",
    ),
    Headline(
        "Confidence",
        "2505.22618",
        "a baseline: reveals all tokens above a threshold, tuned so that no answer is wrong",
        "text",
        {"method": "blockwise", "decoder": "confidence 0.3, block 4"},
        "fewer_passes",
        exact="no",
    ),
    Headline(
        "S2D2",
        "2603.25702",
        "a block-diffusion language model drafts, and checks itself with blocks of one token",
        "text",
        {"method": "s2d2", "decoder": "S2D2, block 16"},
        "fewer_passes",
    ),
    Headline(
        "Confidence",
        "2505.22618",
        "PSD's policy without its drafts",
        "text",
        {"method": "blockwise", "decoder": "confidence 0.9, block 16"},
        "fewer_passes",
        exact="no",
    ),
    Headline(
        "PSD",
        "2605.15609",
        "unmasks in parallel, drafts future steps, and keeps the deepest draft that holds",
        "text",
        {"method": "psd", "decoder": "PSD 0.9, block 16"},
        "fewer_passes",
        exact="no; its strict acceptance gives its policy's text",
    ),
    Headline(
        "SimSD",
        "2606.02544",
        "a small diffusion language model drafts for a large one under a temporal mask",
        "text",
        {"method": "simsd"},
        "fewer_target_passes",
        exact="no; its exact verifier is",
    ),
    Headline(
        "CSpD",
        "2411.11925",
        "a small model drafts continuous tokens; the paper's rule judges their last denoising step",
        "cspd",
        {"method": "cspd", "verdict": "paper"},
        "tokens_per_verification",
        exact="no; the ratio of densities is",
    ),
    Headline(
        "CSpD, whole paths (ours)",
        "2411.11925",
        "the same drafts, judged by all denoising steps as one",
        "continuous",
        {"method": "cspd-block", "batch": 1},
        "tokens_per_verification",
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
    return _table(head, [_headline(line, results[line.result]["rows"]) for line in HEADLINES if line.result in results])


def _headline(line: Headline, rows: Sequence[Record]) -> list[str]:
    rows, ordinary = [row for row in rows if line.row.items() <= row.items()], rows[0]
    row = max(rows, key=lambda row: float(row[line.faster]))
    quality = (
        "same distribution" if line.exact == "yes, proved" else f"{row.get('acceptance', 0):.0%} of drafts accepted"
    )
    if line.result == "text":  # the share of problems solved, with the larger of both standard errors
        error = max(each["accuracy_standard_error"] for each in (row, ordinary))
        quality = f"{row['accuracy']:.1%} solved, ordinary {ordinary['accuracy']:.1%} (± {error:.1%})"
    speeds = sorted(float(row[line.faster]) for row in rows)
    setting = [str(row[field]) for field in ("decoder",) if field in row]
    setting += [f"{symbol} = {row[field]}" for symbol, field in (("L", "window"), ("γ", "gamma")) if row.get(field)]
    return [
        f"**{line.method}** ([{line.paper}](https://arxiv.org/abs/{line.paper}))",
        line.does,
        ", ".join(setting),
        f"{row[line.tokens]:.1f}",
        f"{row['drafting']:.1f}" if row.get("drafting") else "",
        f"{speeds[-1]:.2f}×" + (f" ({speeds[0]:.2f} to {speeds[-1]:.2f})" if len(rows) > 1 else ""),
        quality,
        line.exact,
    ]


def verdicts(result: Record) -> str:
    """What was found of each published conclusion."""
    head = ["place", "conclusion", "found here, positive as reported", "verdict"]
    found = [row for row in result["rows"] if row["verdict"] != "needs weights"]
    rows = ([f"{row['paper']}, {row['place']}", row["says"], row["found"], f"**{row['verdict']}**"] for row in found)
    return f"`{result['command']}`: {place(result)}.\n\n{_table(head, rows)}"


def models_table(manifest: Record) -> str:
    """What the manifest says of every model."""
    rows = []
    for name, entry in manifest.items():
        run = entry["trained"]
        trained = f"{run['steps']:,} steps of {run['batch']} in {run['minutes']:g} minutes, {run['device']}"
        metrics = "; ".join(f"{metric.replace('_', ' ')} {value:g}" for metric, value in entry["metrics"].items())
        rows.append([name, f"{entry['parameters']:,}", f"`{entry['command']}`", trained, metrics])
    return _table(["model", "parameters", "command", "trained", "measured"], rows)


def tables(results: Mapping[str, Record]) -> str:
    """All results by method."""
    named = {name for names in SECTIONS.values() for name in names} | {"claims"}  # those stand in docs/reproduction.md
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
    parts = [f"`{result['command']}`: {place(result)}."]
    if name in TABLES:
        columns = TABLES[name]
        values = ([(row.get(field), form) for _, field, form in columns] for row in rows)
        cells = [["" if value is None else format(value, form) for value, form in row] for row in values]
        parts.append(_table([heading for heading, *_ in columns], [row for row in cells if row[-1]]))
    if claims:
        parts.append(_table(["", "measured", "target", "from"], map(_claim, claims)))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in (head, *rows)]
    return "\n".join([f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {line} |" for line in lines[1:])])


def place(result: Record) -> str:
    """Device, threads, commit and date of a result."""
    environment = result["environment"]
    state = commit_in_words(environment["commit"]) or "no commit"
    threads = f"{environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    return ", ".join([environment["device"], threads, state, result["created"][:10]])


def _claim(claim: Record) -> list[str]:
    """A claim with the first clause of where it comes from; the rest stands in the result."""
    measured = "not measured" if claim["measured"] is None else _quantity(claim["measured"], claim["unit"])
    target = "" if claim["target"] is None else f"{claim['bound']} {_quantity(claim['target'], '')}{_MET[claim['met']]}"
    return [claim["name"], measured, target, claim["reason"].partition(";")[0]]


def _quantity(number: float, unit: str) -> str:
    digits = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return f"{digits} {unit}".strip()


if __name__ == "__main__":
    sys.exit(piped(main))
