"""A published conclusion, the effects that it claims, and the verdict that follows from their size."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from analysis.results import ResultRow, read_results
from analysis.seeds import Estimate, estimate
from draftscope.experiments.problems import problems_of
from engines.models.catalog import load_model
from engines.runtime.driver import run_batch
from engines.runtime.run_request import RunRequest
from traces.schema import Trace

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

    @property
    def sign(self) -> int:
        """1 or -1 where it is `ERRORS` standard errors or more from none, else 0; a single value has no error."""
        mean, error = self.size.mean, self.size.error
        return 0 if error is None or abs(mean) < ERRORS * error or not mean else int(math.copysign(1, mean))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Conclusion of a paper, and the findings here."""

    section: str
    """Its figure or table in the paper."""
    says: str
    effects: Sequence[Effect] = ()
    needs: str = ""
    """Requirements for checking the claim."""

    @property
    def verdict(self) -> str:
        """Holds or opposite where all effects are, partly where one is as reported, else fails."""
        signs = [effect.sign for effect in self.effects]
        if self.needs:
            return "needs weights"
        if 1 in signs:
            return "holds" if set(signs) == {1} else "partly"
        return "opposite" if set(signs) == {-1} else "fails"

    def row(self, paper: str) -> dict[str, Any]:
        """Its row in a result file."""
        effects = [f"{each.of}: {each.size.mean:+.2g} ± {each.size.error or 0:.1g}" for each in self.effects]
        about = {"method": paper.lower(), "paper": paper, "place": self.section, "says": self.says}
        return {**about, "found": "; ".join(effects) or f"needs {self.needs}", "verdict": self.verdict}


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


def against(name: str, label: str, other: str, number: str, what: str, margin: float = 0.0) -> Effect:
    """A setting of a sweep over another one in one of `NUMBERS`, problem by problem; see `difference`."""
    mine, theirs, of = sweep(name)[label], sweep(name)[other], NUMBERS[number]
    both = sorted(mine.keys() & theirs.keys())
    return difference(what, [of(mine[each]) for each in both], [of(theirs[each]) for each in both], margin)
