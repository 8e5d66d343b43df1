"""How far a method's output distribution is from ordinary decoding's, and how much of the method a proof has tested.

Short texts of discrete tokens are enumerated, with all branches, and equal means up to 1e-12. Prompts that repeat
themselves, ids that end a text and nearly certain distributions are among them, and every integer setting is also
tested at its smallest value. Long texts of many ids are sampled and put to chi-square tests. Likeliest tokens leave no
branches: their texts are compared on several models. Tokens that are vectors are sampled and put to tests of means and
covariances, and of the share that follows the drafter.

Equal distributions prove nothing about drafts that were never made. What happens to drafts is counted
(`draft_events`), and a proof holds only where each event that the method can reach reached a minimum.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from draftscope.engines.methods import settings_for
from draftscope.engines.methods.method import DRAFT_ORDER
from draftscope.engines.settings import ConfigError
from draftscope.engines.testing.case import ConformanceCase, claims
from draftscope.engines.testing.case import subject as subject_of
from draftscope.engines.testing.comparisons import (
    Comparison,
    compare_texts,
    enumerate_texts,
    is_baseline,
    sample_drafter_share,
    sample_texts,
    sample_vectors,
)
from draftscope.engines.testing.draft_events import ALL_ACCEPTED, BONUS, OVERALL, report


@dataclass(frozen=True, slots=True)
class ExactnessResult:
    """Result of a comparison with a reference."""

    holds: bool
    """Whether no difference was found."""
    message: str
    untested: str = ""
    """Events that the proof needs and that did not occur often enough; empty if none."""
    tested: str = ""
    """Occurrences of the events, in words."""
    power: str = ""
    """The smallest bias that each test would have found."""
    never: str = ""
    """Draft positions, events and settings that no test has exercised."""
    counts: tuple[tuple[str, str], ...] = ()
    """For every table, prompt and setting its name and the occurrences of the events."""


def proof(subject: ConformanceCase, *, sampled: bool = True, counted: bool = True, seed: int = 0) -> ExactnessResult:
    """Compare a method with its reference as its family allows.

    Args:
        subject: Method, settings and models.
        sampled: Whether every integer setting is also tested at its smallest, and longer texts are sampled.
        counted: Whether texts are added until every event that the proof needs has reached its minimum.
        seed: Number of the models and samples; every number has others.
    """
    compare, parts = _comparison_of(subject), list[tuple[str, Comparison]]()
    for name, comparison in _comparisons(subject, compare, sampled, counted, seed):
        if not comparison.holds:
            return ExactnessResult(False, f"with {name}: {comparison.message}" if name else comparison.message)
        parts.append((name, comparison))
    main, others = [each for name, each in parts if not name], [name for name, _ in parts if name]
    return ExactnessResult(
        True,
        "; ".join(each.message for each in main) + (f"; the same with {', '.join(others)}" if others else ""),
        untested=main[0].untested,
        tested=_lines(f"{each.name}, {line}" for each in main if each.events.reach for line in report(each.events)),
        power=_lines(each.power for each in main),
        never="" if is_baseline(subject) else _never(subject, main, others),
        counts=tuple(
            (f"{each.name}, {text}" + (f", {name}" if name else ""), "; ".join(report(events)))
            for name, each in parts
            for text, events in each.texts
        ),
    )


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"\n  {text}" for text in texts if text)


def _comparison_of(subject: ConformanceCase) -> "_Compare":
    """The comparison that the family allows."""
    if subject.method.family == "continuous-ar":
        return sample_vectors
    return (
        compare_texts
        if subject.method.family == "diffusion-lm" and subject.config.mode == "greedy"
        else enumerate_texts
    )


def _comparisons(
    subject: ConformanceCase, compare: "_Compare", sampled: bool, counted: bool, seed: int
) -> Iterator[tuple[str, Comparison]]:
    """The comparisons of the case, with an empty name, and of the smallest settings, by name."""
    first = compare(subject, counted=counted, seed=seed)
    yield "", first
    if not sampled or first.untested:
        return
    from_left = subject.method.reference(subject.config) != DRAFT_ORDER or claims(subject.method, subject.options)
    if compare is enumerate_texts and from_left:
        yield "", sample_texts(subject, seed)
    if compare is sample_vectors and not is_baseline(subject):
        yield "", sample_drafter_share(subject, seed)
    for name, case in _smallest(subject):
        yield name, compare(case, counted=False, seed=seed)


class _Compare(Protocol):
    """A comparison; texts are added until the events reach their minimums if they are `counted`."""

    def __call__(self, subject: ConformanceCase, *, counted: bool, seed: int) -> Comparison: ...


def _smallest(case: ConformanceCase) -> Iterator[tuple[str, ConformanceCase]]:
    """Yield cases with one integer setting at its smallest value, for each setting that the user did not set."""
    for setting in settings_for(case.method):
        if setting.kind != "int" or setting.name in case.options or setting.knob.low is None:
            continue
        value = int(setting.knob.low)
        values = {**case.options, setting.name: value}
        with suppress(ConfigError, ValueError):  # a value that the other settings do not allow
            other = subject_of(case.method, values)
            same = claims(case.method, values) == claims(case.method, case.options)
            if same and getattr(case.config, setting.name) != value:
                yield f"{setting.name}={value}", other


def _never(subject: ConformanceCase, parts: Sequence[Comparison], others: Sequence[str]) -> str:
    """Return the draft positions, events and settings that no test has exercised, in words."""
    reach = [f"{part.events.reach} ({part.name})" for part in parts]
    lines = [f"draft positions after {' and '.join(reach)}"]
    met = {event.kind for part in parts for event in part.events.count}
    kinds = (ALL_ACCEPTED, BONUS) if subject.method.family == "continuous-ar" else OVERALL
    lines += [kind for kind in kinds if kind not in met]
    varied = {name.split("=")[0] for name in others}
    fixed = [setting.name for setting in settings_for(subject.method) if setting.name not in varied]
    lines += [f"other values of {', '.join(fixed)}"] if fixed else []
    return "; ".join(lines)
