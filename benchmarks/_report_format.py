"""Shared by all benchmarks: options, claims with their targets, and the JSON output.

A result file holds `title`, `command`, `created`, `environment`, `claims` (shown in README's table) and `rows` (every
measured figure, flat, with its `method`; the app shows them on the page of the method).
"""

import argparse
import json
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import torch

from draftscope.engines.models.devices import add_option
from draftscope.engines.runtime.environment import environment
from draftscope.traces.files import STANDARD, write_atomic

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One measured figure with its target."""

    name: str
    measured: float | None
    """None if it could not be measured here; `reason` explains why."""
    unit: str = ""
    bound: Literal["at most", "at least"] = "at least"
    target: float | None = None
    """None for a figure that is reported without a target."""
    reason: str = ""
    """Details of the figure: spread, number of runs, dominant cost."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Underlying numbers, by name, for programs."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a figure or a target."""
        if self.measured is None or self.target is None:
            return None
        return self.measured <= self.target if self.bound == "at most" else self.measured >= self.target


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of repeated measurements."""

    median: float
    low: float
    high: float
    count: int

    def row(self, name: str) -> Row:
        """The spread as fields of a row."""
        return {f"{name}_median": self.median, f"{name}_low_quartile": self.low, f"{name}_high_quartile": self.high}

    def __str__(self) -> str:
        """The spread in words."""
        return f"quartiles {self.low:.3g} to {self.high:.3g} of {self.count} measurements"


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return Spread(median, low, high, len(values))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; 0 for a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def paired_z_score(values: Sequence[float], baseline: Sequence[float]) -> float:
    """Mean difference in standard errors, prompt by prompt: prompts differ more than decoders do."""
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    error = standard_error(differences)
    if not any(differences):
        return 0.0
    if error == 0:
        raise ValueError(f"images: {len(values)} are too few to estimate an error from; use more.")
    return statistics.fmean(differences) / error


def upper_limit(name: str, measured: float, target: float, unit: str = "", reason: str = "") -> Claim:
    """The claim that a figure is no larger than its target."""
    return Claim(name=name, measured=measured, unit=unit, bound="at most", target=target, reason=reason)


def lower_limit(name: str, measured: float, target: float, unit: str = "", reason: str = "") -> Claim:
    """The claim that a figure is no smaller than its target."""
    return Claim(name=name, measured=measured, unit=unit, bound="at least", target=target, reason=reason)


def within_noise_claim(name: str, errors: float, reason: str, max_errors: float = 3.0) -> Claim:
    """The claim that a difference is no larger than chance makes it, in standard errors."""
    return upper_limit(name, errors, max_errors, "standard errors", reason)


_HELP: Final = {
    "images": "pictures of every decoder",
    "batch": "sequences in lockstep",
    "sheet": "also draw a few pictures of every decoder into this PNG",
    "guidance": "scales, 1 for none; a sheet has pictures of the last",
    "timed": "clips that are decoded one by one and timed",
    "tiny": "small networks of the same form",
    "length": "tokens of an answer at most",
    "busy": "other processes that compute all the time",
    "runs": "five times as many follow, for the memory they leave",
}
"""Help of options shared by several benchmarks."""


class Options(argparse.ArgumentParser):
    """The command line of a benchmark: its own options, and --json."""

    def __init__(self, name: str, doc: str | None, *, device: bool = False, **options: Any) -> None:
        """Add `--device` if requested, and an option for each default: a count, several values, a flag or a type.

        Integers are counts. A type adds an option without a default.
        """
        super().__init__(
            prog=f"python -m benchmarks.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.add_argument("--json", type=Path, help="write the result to this file; - is standard output")
        for option, default in options.items():
            self.add_argument(f"--{option}", help=_HELP.get(option), **_kind(default))
        if device:
            add_option(self)

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options that are given, and as `command` what repeats the benchmark, without where its result goes."""
        words = sys.argv[1:] if arguments is None else list(arguments)
        chosen = self.parse_args(words)
        words_left = [
            argument
            for before, argument in zip(["", *words], words, strict=False)
            if before != "--json" and not argument.startswith("--json")
        ]
        chosen.command = " ".join([self.prog, *map(shlex.quote, words_left)])
        return chosen


def _kind(default: Any) -> dict[str, Any]:
    """Return the arguments of argparse for an option with this default."""
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, type):
        return {"type": default}
    several = isinstance(default, tuple)
    one = default[0] if several else default
    kind = positive if isinstance(one, int) else type(one)
    return {"type": kind, "default": default, **({"nargs": "+"} if several else {})}


def positive(text: str) -> int:
    """An argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; use a whole number from 1")
    return number


def result(
    title: str, command: str, claims: Sequence[Claim], rows: Sequence[Row], device: torch.device | None = None
) -> dict[str, Any]:
    """The content of a result file."""
    return {
        "title": title,
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": asdict(environment(device or torch.device("cpu"), torch.float32)),
        "claims": [asdict(claim) | {"met": claim.met} for claim in claims],
        "rows": [dict(row) for row in rows],
    }


def finish(
    chosen: argparse.Namespace,
    title: str,
    claims: Sequence[Claim],
    rows: Sequence[Row],
    device: torch.device | None = None,
) -> None:
    """Print the rows and claims of a result, and write it where the options say."""
    content, path = result(title, chosen.command, claims, rows, device), chosen.json
    standard = str(path) == STANDARD
    report = sys.stderr if standard else sys.stdout
    for row in content["rows"]:
        cells = (f"{value:.4g}" if isinstance(value, float) else f"{value}" for value in row.values())
        print("  ".join(map("{}={}".format, row, cells)), file=report)
    for claim in content["claims"]:
        verdict = {True: "met", False: "MISSED", None: "-"}[claim["met"]]
        target = "" if claim["target"] is None else f" (target {claim['bound']} {claim['target']:g})"
        measured = "not measured" if claim["measured"] is None else f"{claim['measured']:.4g} {claim['unit']}".strip()
        print(f"{verdict}: {claim['name']}: {measured}{target}. {claim['reason']}", file=report)
    text = json.dumps(content, indent=1) + "\n"
    if standard:
        sys.stdout.write(text)
    elif path:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
