"""Certificates of engines as `draftscope certify` writes them. They may be from strangers, so files are checked."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from draftscope.analysis.results import Count, SweepError, read_titled
from draftscope.traces import limits
from draftscope.traces.errors import Problem
from draftscope.traces.schema import Name, Probability
from draftscope.traces.validation import ErrorTexts, adapter, record

TITLE: Final = "draftscope certificate"
Verdict: TypeAlias = Literal["certified", "biased", "undecided", "refused"]
Number: TypeAlias = Annotated[float, Field(ge=-limits.EXACT, le=limits.EXACT)]
Frequencies: TypeAlias = Annotated[tuple[tuple[Probability, ...], ...], Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How well a defect explains the tokens of an engine."""

    name: Name
    log_wealth: Number
    """Natural logarithm of what a bet on it made of 1; below 0 where it explains less than the exact distribution."""
    share: Probability
    """Share of tokens with the defect that fits best."""
    found_share: Number
    """The smallest share that would have been found with a probability of 1 - `missed`; above 1 for none."""
    found_variation: Number
    """That share as a total variation per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Result of certifying an engine."""

    engine: Name
    verdict: Verdict
    reason: Name
    """The verdict in a sentence."""
    total_variation: Probability | None
    """Smallest bias of a token, over the test's equally likely cells, that is found with a probability of 1 - `missed`;
    None for a biased engine."""
    defect: Name
    """The known defect that fits best; empty if none fits."""
    found_after: Count | None
    """Tokens after which the sequential test found the bias."""
    texts: Count
    tokens: Count
    drafted: Count | None
    """Drafts; None where the engine does not count them."""
    accepted: Count | None
    sampling: Mapping[Name, Number]
    score: Number | None
    """Largest z-score of the chi-square tests; None where the sequential test ended the run."""
    forbidden: Count
    """Tokens that the filters exclude, those at a rounding edge left out."""
    fits: Annotated[tuple[Fit, ...], Field(max_length=100)]
    """Known defects, the one that fits best first."""
    curve: Annotated[tuple[tuple[Count, Number], ...], Field(max_length=100_000)]
    """Tokens, and the natural logarithm of the sequential test's wealth."""
    expected: Frequencies
    """Mean probability of each letter at each position of the texts."""
    observed: Frequencies
    """Frequency of each letter at each position."""
    spread: Frequencies
    """Standard error of each frequency if the engine is lossless."""
    false_alarm: Probability
    """Probability that a lossless engine is called biased."""
    missed: Probability
    about: Mapping[str, Any] = field(default_factory=dict)
    """Date, machine and software."""

    def dumps(self) -> bytes:
        """The certificate as JSON."""
        return f"{json.dumps({'title': TITLE, 'version': 1, **asdict(self)}, indent=1)}\n".encode()

    def __str__(self) -> str:
        """Verdict, events and what would have been found, as text."""
        events = "drafts are not counted"
        if self.drafted is not None:
            events = f"{self.accepted} of {self.drafted} drafts accepted"
        lines = [
            f"{self.verdict}: {self.reason}",
            f"{self.engine}; {self.tokens} tokens in {self.texts} texts; {events}",
        ]
        if self.verdict != "biased":
            lines += [
                f"  would have been found: {fit.name}, at {fit.found_share:.1%} of the tokens"
                for fit in sorted(self.fits, key=lambda fit: fit.found_share)
                if fit.found_share <= 1
            ]
        return "\n".join(lines)


_TYPE: Final = adapter(Certificate, "Certificate", "ignore")
_WORDS: Final = ErrorTexts(
    document="certificate",
    add="give a file that draftscope certify wrote",
    correct="give a file that draftscope certify wrote",
    shrink="give a file that draftscope certify wrote",
)


def read_certificate(data: bytes) -> Certificate:
    """Read a certificate; raises SweepError for another file."""
    document = read_titled(data, "certificate", TITLE, "draftscope certify")
    problems: list[Problem] = []
    found = record(_TYPE, document, "", problems, _WORDS)
    if found is None:
        raise SweepError(problems[0])
    shapes = {tuple(map(len, rows)) for rows in (found.expected, found.observed, found.spread)}
    if len(shapes) != 1 or len(set(shapes.pop())) != 1:
        raise SweepError("observed: has other positions or letters than expected; certify the engine again")
    return found
