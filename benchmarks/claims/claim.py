"""A published conclusion, the effects that it claims, and the verdict that follows from their size."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from draftscope.analysis.results import ResultRow, read_results
from draftscope.analysis.seeds import Estimate, estimate
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import run_batch
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.problems import problems_of
from draftscope.traces.schema import Trace

RESULTS: Final = Path(__file__).parents[1] / "results"
NUMBERS: Final[Mapping[str, Callable[[ResultRow], float]]] = {
    "solved": lambda row: float(bool(row.correct)),
    "per_pass": lambda row: row.tokens / row.forwards,
    "per_second": lambda row: row.tokens / row.seconds,
}
"""Measures of a sweep's runs: a correct answer, tokens per pass of either model, and per second."""
ERRORS: Final = 3
"""Standard errors that an effect must be from zero."""


class Effect(NamedTuple):
    """A difference that a conclusion claims, positive in the direction that the paper reports."""

    of: str
    """Description of the difference, with its unit."""
    size: Estimate
    reported: float = 0.0
    """Size in the paper, where that is comparable; an effect that is surely smaller fails."""

    @property
    def sign(self) -> int:
        """1 or -1 where it is `ERRORS` standard errors or more from none, else 0; a single value has no error."""
        mean, error = self.size.mean, self.size.error
        return 0 if error is None or abs(mean) < ERRORS * error or not mean else int(math.copysign(1, mean))

    @property
    def undecided(self) -> bool:
        """Whether more runs could still show the effect."""
        error = self.size.error
        surely_smaller = error is not None and self.size.mean + ERRORS * error < self.reported
        return not self.sign and not surely_smaller and self.size.mean != 0

    def __str__(self) -> str:
        """The effect with its standard error, and how many runs would decide where these do not."""
        mean, error = self.size.mean, self.size.error or 0.0
        text = f"{self.of}: {mean:+.2g} ± {error:.1g}"
        if self.undecided and error:
            return f"{text} (undecided; {math.ceil(self.size.runs * (ERRORS * error / mean) ** 2):,} runs would decide)"
        return f"{text} (reported: {self.reported:+.2g})" if self.reported and self.sign < 1 else text


class Timing(NamedTuple):
    """Times faster than ordinary decoding of two decoders on one machine, as quartiles of a few problems."""

    ours: tuple[float, float, float]
    """Low quartile, median, high quartile."""
    other: tuple[float, float, float]

    @property
    def verdict(self) -> str:
        """Verdict by the quartiles: holds or opposite where they do not overlap."""
        if self.ours[0] > self.other[2]:
            return "holds"
        return "opposite" if self.ours[2] < self.other[0] else "undecided"

    def __str__(self) -> str:
        """Both with their quartiles; a decoder that is ordinary decoding is 1."""
        texts = [f"{median:.2f} ({low:.2f} to {high:.2f})" for low, median, high in self]
        return f"{texts[0]} times, against {texts[1] if self.other != ORDINARY else '1'}"


ORDINARY: Final = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Conclusion of a paper, and the findings here."""

    section: str
    """Its figure or table in the paper."""
    says: str
    effects: Sequence[Effect] = ()
    needs: str = ""
    """Requirements for checking the claim."""
    cpu: Timing | None = None
    """Times on the CPU of the other benchmarks, for a claim about time alone."""
    h100: Timing | None = None
    """Times on an H100."""

    @property
    def verdict(self) -> str:
        """Holds or opposite where all effects are, partly where one is as reported, undecided with too few runs."""
        signs = [effect.sign for effect in self.effects]
        if self.needs:
            return "needs weights"
        if self.cpu:
            return self.cpu.verdict
        if 1 in signs:
            return "holds" if set(signs) == {1} else "partly"
        if -1 in signs:
            return "opposite" if set(signs) == {-1} else "fails"
        return "undecided" if signs and all(effect.undecided for effect in self.effects) else "fails"

    def row(self, paper: str) -> dict[str, Any]:
        """Its row in a result file."""
        about = {"method": paper.lower(), "paper": paper, "place": self.section, "says": self.says}
        found = "; ".join(map(str, self.effects)) or (str(self.cpu) if self.cpu else f"needs {self.needs}")
        on_h100 = {"found_h100": str(self.h100), "verdict_h100": self.h100.verdict} if self.h100 else {}
        return {**about, "found": found, "verdict": self.verdict, **on_h100}


def difference(of: str, more: Iterable[float], less: Iterable[float], margin: float = 0.0) -> Effect:
    """Return the mean of pairwise differences, the first expected to be greater.

    `margin` is the tolerated shortfall.
    """
    return Effect(of, estimate([a - b + margin for a, b in zip(more, less, strict=True)]))


@cache
def sweep(name: str) -> Mapping[str, Mapping[int, ResultRow]]:
    """The rows of a sweep that ships: label -> problem -> row."""
    found: dict[str, dict[int, ResultRow]] = {}
    for row in read_results((RESULTS / f"{name}.jsonl.gz").read_bytes()).rows:
        found.setdefault(row.label, {})[row.problem] = row
    return found


def runs(method: str, model_id: str, prompts: Iterable[str | None], **settings: object) -> list[Trace]:
    """Prompts decoded by a bundled model, each with another seed; None is the model's example."""
    model = load_model(model_id)
    numbered = enumerate(prompts)
    return run_batch(
        [RunRequest(method, model, prompt, seed=seed, settings=settings).job() for seed, prompt in numbered]
    )


def texts(method: str, count: int, model_id: str = "text-target", **settings: object) -> list[Trace]:
    """Answers of a bundled language model to `count` held-out problems, maths or tallies."""
    return runs(method, model_id, [problem.question for problem in problems_of(model_id)[:count]], **settings)


def against(
    name: str, labels: tuple[str, str], number: str, what: str, *, margin: float = 0.0, reported: float = 0.0
) -> Effect:
    """A setting of a sweep over another one in one of `NUMBERS`, problem by problem; see `difference`."""
    mine, theirs = (sweep(name)[label] for label in labels)
    of, both = NUMBERS[number], sorted(mine.keys() & theirs.keys())
    effect = difference(what, [of(mine[each]) for each in both], [of(theirs[each]) for each in both], margin)
    return effect._replace(reported=reported)


def timing(name: str, ours: Mapping[str, object], other: Mapping[str, object] | None = None) -> Timing:
    """Return the speeds of two rows of a result that ships, by their columns; by default, over ordinary decoding."""
    rows = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]

    def quartiles(columns: Mapping[str, object]) -> tuple[float, float, float]:
        (row,) = (row for row in rows if columns.items() <= row.items())
        return row["faster_low_quartile"], row["faster_median"], row["faster_high_quartile"]

    return Timing(quartiles(ours), ORDINARY if other is None else quartiles(other))
