from dataclasses import replace

import numpy as np
import pytest
from support import handmade

from traces import Fate, Step, stats
from traces.schema import Call, Milliseconds


def test_summaries_count_tokens_passes_and_judged_drafts() -> None:
    summary = stats.summarise(handmade.scd().steps, 6, complete=True)
    assert (summary.tokens, summary.forwards, summary.tokens_per_forward) == (6, 3, 2.0)
    assert (summary.judged, summary.accepted, summary.acceptance) == (6, 4, 4 / 6)
    assert (summary.query_tokens, summary.row_forwards) == (22, 6)
    assert (summary.seconds, summary.forward_seconds) == (0.015, 0.012)
    assert summary.complete
    assert stats.summarise(handmade.ar().steps, 4, complete=True).acceptance is None
    summary = stats.summarise([], 4, complete=False)
    assert (summary.tokens, summary.forwards, summary.tokens_per_forward, summary.seconds) == (0, 0, 0.0, 0.0)
    summary = handmade.s2d2().summary
    assert (summary.judged, summary.accepted, summary.tokens) == (2, 1, 4)


def test_costs_by_role_and_mode_add_up_to_the_whole() -> None:
    steps = handmade.simsd().steps
    roles = stats.cost_by_role(steps)
    assert list(roles) == ["draft", "target"]
    assert (roles["draft"].forwards, roles["draft"].query_tokens, roles["target"].query_tokens) == (2, 8, 8)
    assert roles["draft"].milliseconds == Milliseconds(prepare=0.5, forward=8.0, logits=1.0, decide=0.5)
    assert list(stats.cost_by_mode(handmade.s2d2().steps)) == ["diffusion", "verify", "edit"]
    assert stats.cost_by_mode(handmade.s2d2().steps)["diffusion"].forwards == 2
    assert sum(part.query_tokens for part in roles.values()) == stats.cost(steps).query_tokens
    assert stats.cost(handmade.psd().steps).row_forwards == 6


def test_latency_per_stage() -> None:
    times = [(1.0, 10.0), (1.0, 2.0), (4.0, 6.0)]
    steps = [
        Step(
            call=Call(
                role="self", mode="x", query_tokens=1, milliseconds=Milliseconds(prepare=prepare, forward=forward)
            )
        )
        for prepare, forward in times
    ]
    stages = {stage.name: stage for stage in stats.latency_breakdown(steps)}
    assert list(stages) == ["prepare", "forward", "logits", "decide"]
    one = stages["prepare"]
    assert (one.mean_milliseconds, one.median_milliseconds, one.share) == (2.0, 1.0, 0.25)
    assert stages["forward"].share == 0.75
    assert stats.latency_breakdown([]) == ()


def test_acceptance_by_position() -> None:
    tallies = stats.acceptance_by_position(handmade.simsd().steps, 4)
    nothing = stats.Tally(judged=0, accepted=0)
    assert tallies == (stats.Tally(judged=1, accepted=0), nothing, stats.Tally(judged=1, accepted=1), nothing)
    assert [tally.acceptance for tally in tallies] == [0.0, None, 1.0, None]


def test_race_is_cumulative_and_starts_at_zero() -> None:
    line = stats.race(handmade.s2d2().steps)
    assert line.tokens == (0, 0, 2, 4, 4)
    assert line.milliseconds == (0, 5, 10, 15, 20)


def test_differences_between_successive_windows_leave_out_initial_guesses() -> None:
    steps = handmade.jacobi().steps
    assert stats.token_difference(steps) == ((1, 2, 1), (2, 2, 1))
    assert stats.token_difference(steps, 2) == (stats.Difference(step=2, compared=1, changed=0),)
    assert stats.token_difference(steps, 3) == stats.token_difference(steps, 9) == ()
    steps = [
        handmade.step("0:1=drafted 1:2=drafted"),
        handmade.step("0:1=drafted 1:3=changed", draft=(1, 2), numbers={"initial": (0, 1)}),
        handmade.step("0:1=kept 1:4=changed", draft=(1, 3), numbers={"initial": (0, 0)}),
    ]
    assert stats.token_difference(steps) == ((1, 1, 0), (2, 2, 1))
    assert stats.token_difference(steps, 2) == (stats.Difference(step=2, compared=1, changed=0),)
    mean = stats.mean_difference(
        [stats.Difference(step=1, compared=4, changed=1), stats.Difference(step=2, compared=1, changed=1)]
    )
    assert mean == 0.625
    assert stats.mean_difference([]) is None


def test_agreement_excludes_initial_guesses() -> None:
    steps = handmade.jacobi().steps
    assert stats.agreement_by_position(steps) == {
        1: ((1, 0.5),),
        2: ((1, 0.75), (2, 0.5)),
        3: ((1, 0.25), (2, 0.75), (3, 1.0)),
        4: ((1, 0.75), (2, 0.875)),
    }
    ages = stats.agreement_by_age(steps)
    assert [age.age for age in ages] == [1, 2, 3]
    betas = [0.5, 0.75, 0.25, 0.75]
    assert ages[0] == stats.AgeStatistics(age=1, count=4, mean=np.mean(betas), variance=np.var(betas))
    assert ages[2] == stats.AgeStatistics(age=3, count=1, mean=1.0, variance=0.0)
    assert stats.agreement_by_position(handmade.ar().steps) == {}
    assert stats.agreement_by_age(handmade.ar().steps) == ()


def test_comparison_with_a_baseline() -> None:
    fast, slow = handmade.scd(), handmade.simsd()
    first, second = stats.compare([fast, slow])
    assert first.trace is fast
    assert first.forwards_ratio == first.time_ratio == first.query_tokens_ratio == 1.0
    assert second.forwards_ratio == pytest.approx((1 / 3) / (6 / 3))
    assert second.query_tokens_ratio == pytest.approx((1 / 16) / (6 / 22))
    (against,) = stats.compare([fast], baseline=slow)
    assert against.forwards_ratio == pytest.approx(6.0)
    assert stats.compare([replace(fast, summary=replace(fast.summary, seconds=0.0)), slow])[1].time_ratio is None
    assert stats.compare([]) == ()


def test_tokens_behind_the_end_do_not_count() -> None:
    call = Call(role="self", mode="draft", query_tokens=4)
    steps = [Step(call=call, position=(0, 1, 2, 3), token=(5, 9, 9, 5), fate=(Fate.UNMASKED,) * 4)]
    assert stats.summarise(steps, 6, complete=True).tokens == 4
    assert stats.summarise(steps, 6, complete=True, ends=(9,)).tokens == 2
    assert stats.summarise(steps, 6, complete=True, ends=(8,)).tokens == 4
