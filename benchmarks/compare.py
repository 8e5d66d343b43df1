"""Results of the shipped sweeps, setting by setting and pair by pair. Runs no model.

Reads benchmarks/results/*.jsonl.gz, written by `draftscope experiment run`. Accuracies of a pair are compared problem
by problem: both solved the same ones, so the standard error is that of the difference.
"""

import statistics
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks._report_format import Claim, Options, Row, finish, standard_error, within_noise_claim
from draftscope.analysis.groups import Group, gathered, records
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.visualizers import read_results

FOLDER: Final = Path(__file__).parent / "results"
MAX_ERRORS: Final = 1.0
"""Standard errors that count as equal accuracy."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two settings of one sweep to compare, by their labels."""

    sweep: str
    label: str
    baseline: str
    target: float | None = None
    """Tokens per forward pass over the baseline's, at least."""

    @property
    def task(self) -> str:
        """Return the task, if it is not the grade-school maths."""
        return "Tally: " if self.sweep == "tally" else ""


_FILE: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAIRS: Final = tuple(Pair(sweep, *pair) for sweep, pairs in _FILE.items() for pair in pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Report."""
    chosen = Options("compare", __doc__, folder=FOLDER).read(arguments)
    sweeps = {
        path.name.partition(".")[0]: gathered(read_results(path.read_bytes()).rows)
        for path in sorted(chosen.folder.glob("*.jsonl.gz"))
    }
    rows = [row for name, groups in sweeps.items() for row in table(name, groups)]
    claims = [claim for pair in PAIRS if pair.sweep in sweeps for claim in compare(pair, sweeps[pair.sweep])]
    finish(chosen, "Sweeps", claims, rows)


def table(sweep: str, groups: Sequence[Group]) -> list[Row]:
    """Accuracy and cost of every setting; cost as passes, and as what a batch of rows is not free of."""
    same_name = ("method", "problems", "accuracy", "accuracy_standard_error")
    speeds = ("tokens-per-forward", "tokens-per-target-forward", "query-tokens-per-token", "milliseconds-per-token")
    return [
        {"setting": record["label"], "sweep": sweep, **{n.replace("-", "_"): record[n] for n in (*same_name, *speeds)}}
        for record in records(groups)
    ]


def compare(pair: Pair, groups: Sequence[Group]) -> list[Claim]:
    """Speed of a setting over its baseline's, and by how many standard errors their accuracies differ."""
    by_label = {group.label: group for group in groups}
    missing = [label for label in (pair.label, pair.baseline) if label not in by_label]
    if missing:
        raise ValueError(f"{pair.sweep}: has no {missing[0]!r}; it has {', '.join(by_label)}")
    group, base = by_label[pair.label], by_label[pair.baseline]
    rate, baseline_rate = (each.total("tokens") / each.total("forwards") for each in (group, base))
    errors, problems = accuracy_difference(group, base)
    seconds, usually = (each.total("seconds") / each.total("tokens") for each in (group, base))
    name = f"{pair.task}{pair.label} against {pair.baseline}"
    numbers = {
        "setting": f"{pair.task}{pair.label}",
        "baseline": pair.baseline,
        "speed": rate / baseline_rate,
        "speed_by_clock": usually / seconds,
        "rows": group.total("row_forwards") / group.total("forwards"),
        "accuracy": group.accuracy,
        "baseline_accuracy": base.accuracy,
        "errors_apart": errors,
        "problems": problems,
    }
    speed = Claim(
        name=f"{name}: tokens per forward pass",
        measured=rate / baseline_rate,
        unit="×",
        target=pair.target,
        reason=f"{rate:.2f} against {baseline_rate:.2f}, {problems} problems",
        numbers=numbers,
    )
    if pair.target is None:
        return [speed]
    reason = f"of the difference, problem by problem, {problems} of them"
    return [speed, within_noise_claim(f"{name}: accuracies apart", errors, reason, MAX_ERRORS)]


def accuracy_difference(one: Group, other: Group) -> tuple[float, int]:
    """Standard errors between the accuracies of two settings on the same problems, and how many these are."""
    solved, baseline_shares = one.shares(), other.shares()
    both = sorted(solved.keys() & baseline_shares.keys())
    differences = [solved[problem] - baseline_shares[problem] for problem in both]
    mean, error = statistics.fmean(differences), standard_error(differences)
    return (abs(mean) / error if error else 0.0 if not mean else float("inf")), len(both)


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
