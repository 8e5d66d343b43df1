"""Acceptance rates: from counts of verdicts or of lengths, with intervals that hold, overall and by kind of prompt."""

from random import Random

import pytest
from scipy.stats import t

from draftscope.analysis.acceptance_rate import DraftCounts, _quantile, evidence, rate_of


def decoded(random: Random, rate: float, passes: int, drafts: int, kind: str = "") -> tuple[DraftCounts, DraftCounts]:
    """A prompt by its verdicts, and by its lengths alone."""
    accepted = judged = 0
    for _ in range(passes):
        for _ in range(drafts):
            judged += 1
            if random.random() >= rate:
                break
            accepted += 1
    lengths = DraftCounts(accepted=accepted, judged=None, passes=passes, drafts=passes * drafts, kind=kind)
    return DraftCounts(accepted=accepted, judged=judged, kind=kind), lengths


def test_the_rate_comes_from_verdicts_or_from_lengths_and_is_the_same() -> None:
    random = Random(1)
    prompts = [decoded(random, 0.7, 400, 4) for _ in range(20)]
    for counts in zip(*prompts, strict=True):
        found = rate_of(counts)
        assert found is not None and found.rate == pytest.approx(0.7, abs=0.01)
        assert found.low < 0.7 < found.high and found.high - found.low < 0.03 and found.prompts == 20


@pytest.mark.parametrize("prompts", [1, 4, 25])
def test_the_interval_holds_the_rate_in_95_of_100_cases_whether_prompts_differ_or_not(prompts: int) -> None:
    random = Random(prompts)
    for spread in (0.0, 0.15) if prompts > 1 else (0.0,):
        possible = [0.6 + spread * (step - 50) / 50 for step in range(101)]
        accepted, judged = (sum(rate**first * (1 + rate + rate**2) for rate in possible) for first in (1, 0))
        truth, inside = accepted / judged, 0
        for _ in range(300):
            rates = [0.6 + random.uniform(-spread, spread) for _ in range(prompts)]
            found = rate_of([decoded(random, rate, 30, 3)[0] for rate in rates])
            assert found is not None
            inside += found.low <= truth <= found.high
        assert inside >= 0.92 * 300, (spread, inside)


def test_kinds_stand_beside_all_prompts_where_there_are_two() -> None:
    random = Random(3)
    code = [decoded(random, 0.9, 100, 4, "code")[0] for _ in range(5)]
    story = [decoded(random, 0.5, 100, 4, "story")[0] for _ in range(5)]
    found = evidence("a bench", [*code, *story])
    assert found is not None and [rate.kind for rate in found.rates] == ["", "code", "story"]
    overall, first, second = (rate.rate for rate in found.rates)
    assert second < overall < first and str(found.rates[1]).startswith("9")
    alone = evidence("a bench", code)
    assert alone is not None and [rate.kind for rate in alone.rates] == [""]
    assert evidence("nothing", [DraftCounts(accepted=0, judged=0)]) is None


def test_all_or_none_accepted_still_has_an_interval() -> None:
    for accepted in (0, 20):
        found = rate_of([DraftCounts(accepted=accepted, judged=20)] * 3)
        assert found is not None and found.rate == accepted / 20
        assert 0 <= found.low < found.high <= 1 and found.high - found.low > 0.04


def test_the_quantile_is_that_of_student() -> None:
    for freedom in (1, 2, 3, 4, 7, 12, 29):
        assert _quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=0.012)
