"""Whether drafting pays: what a verification and a draft cost, and what has to be accepted for it."""

from dataclasses import replace

import pytest
from support.handmade import make, step

from demo.runs.outcome import why
from traces.breakeven import acceptance_for, account
from traces.schema import Canvas, Milliseconds, Step, Trace

SIX = Canvas(kind="text", shape=(6,))


def taking(milliseconds: float, made: Step) -> Step:
    return replace(made, call=replace(made.call, milliseconds=Milliseconds(forward=milliseconds)))


def ordinary() -> Trace:
    return make("ar", SIX, [taking(10, step(f"{place}:1=sampled")) for place in range(6)])


def drafted(cost: float = 3) -> Trace:
    """Two drafts of 3 ms, checked in 20 ms, twice: of four judged drafts three stay."""
    draft = [taking(cost, step(f"{place}:1=drafted", role="draft")) for place in (0, 1, 3, 4)]
    checks = [
        taking(20, step("0:1=accepted 1:1=accepted 2:1=bonus", query_tokens=3)),
        taking(20, step("3:1=accepted 4:2=resampled 5:1=bonus", query_tokens=3)),
    ]
    return make("speculative", SIX, [*draft[:2], checks[0], *draft[2:], checks[1]])


def test_costs_are_in_ordinary_passes_and_add_up_to_the_speed() -> None:
    costs = account(drafted(), ordinary())
    assert (costs.verifying, costs.draft_cost, costs.draft_passes) == pytest.approx((2.0, 0.3, 2.0))
    assert (costs.yielded, costs.needed) == pytest.approx((3.0, 2.6))
    assert costs.speed == pytest.approx(60 / 52)  # 6 x 10 ms against 4 x 3 + 2 x 20
    assert (costs.drafts, costs.acceptance) == (2.0, 0.75)
    assert costs.with_free_drafts == pytest.approx(1.5)
    assert costs.with_cheap_verification == pytest.approx(3 / 1.6)
    assert 1 + costs.break_even + costs.break_even**2 == pytest.approx(2.6)
    assert acceptance_for(3.01, 2) is None
    assert acceptance_for(3, 2) == pytest.approx(1)
    assert acceptance_for(1, 2) == pytest.approx(0, abs=1e-9)
    costs = account(drafted(cost=8), ordinary())
    assert costs is not None and costs.break_even is None and costs.speed < 1


def test_the_reasons_are_told_in_words() -> None:
    said = why([ordinary(), drafted()])
    assert said["In all"].startswith("1.15 times as fast as ordinary decoding")
    assert said["Verification"] == (
        "a pass of the target looks at 3.0 tokens instead of 1.0 and costs 2.00 ordinary passes: 0.67 for each token."
    )
    assert said["Drafts"].startswith("2.0 passes of the drafter for every target pass, 0.30 of an ordinary pass")
    assert said["Tokens"] == "3.00 for every target pass; 75% of judged drafts were accepted."
    assert "takes an acceptance of about 86%" in said["To break even"]
    assert (
        said["What would help most"]
        == "it would be 1.88 times as fast if verification cost no more than an ordinary pass."
    )
    slow = why([ordinary(), drafted(cost=8)])
    assert "with 2.0 drafts a verification no acceptance is enough" in slow["To break even"]


def test_what_cannot_be_compared_is_said() -> None:
    assert why([]) == {}
    assert "did not run beside it" in why([drafted()])[""]
    part = make("ar", SIX, ordinary().steps[:3])
    assert account(drafted(), part) is None
    untimed = make("ar", SIX, [taking(0, one) for one in ordinary().steps])
    assert "not timed" in why([untimed, drafted()])[""]
