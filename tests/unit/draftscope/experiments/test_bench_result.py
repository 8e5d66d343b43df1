"""`draftscope bench` recommends the draft length that it measured as fastest, not one that it computed."""

from typing import Any

from draftscope.analysis.results import ResultRow
from draftscope.experiments.bench_result import BenchResult


def row(label: str, seconds: float, method: str = "speculative", **config: Any) -> ResultRow:
    about: dict[str, Any] = {"method": method, "problem": 0, "seed": 0, "tokens": 16, "forwards": 16, "correct": None}
    about |= {"forwards_by_mode": {}, "row_forwards": 16, "query_tokens": 16}
    return ResultRow(label=label, config=config, seconds=seconds, **about)


def result(*seconds: float) -> BenchResult:
    """Return a result, given the seconds of ordinary decoding, lookup (gamma 2, 4) and the drafter (gamma 2, 4)."""
    drafting = [("lookup", "lookup"), ("the drafter", "small")]
    rows = [row("ordinary", seconds[0], "ar")]
    lengths = [(name, drafter, gamma) for name, drafter in drafting for gamma in (2, 4)]
    rows += [
        row(f"speculative, {name}, gamma {gamma}", spent, drafter=drafter, gamma=gamma)
        for (name, drafter, gamma), spent in zip(lengths, seconds[1:], strict=True)
    ]
    return BenchResult(tuple(rows), {}, {}, {}, {})


def test_the_fastest_measured_length_is_recommended() -> None:
    measured = result(1.34, 1.0, 1.34 / 1.16, 2.0, 1.6)
    assert {name: (gamma, round(speed, 2)) for name, (gamma, speed) in measured.suggestions.items()} == {
        "lookup": (2, 1.34),
        "the drafter": (0, 0.84),
    }
    advice = measured.markdown().splitlines()[-1]
    assert "lookup" in advice and "gamma=2" in advice and "1.34" in advice
