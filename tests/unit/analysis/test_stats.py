"""Statistics of runs, counted by hand on small ones; and what a choice among settings makes of speed and quality."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import handmade
from support.blocks import Blocks, diffusion, s2d2, simsd
from support.handmade import ALL, step
from support.results import row

import draftscope as ds
from draftscope.analysis import block_stats as text_stats
from draftscope.analysis import stats as run_stats
from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.analysis.results import SweepError, read_rows
from draftscope.analysis.summary_text import summary_text
from draftscope.traces import Step, Trace, read, stats
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Call, Fate, Milliseconds, Node
from draftscope.traces.stats import evaluated_drafts
from draftscope.visualizers import FIGURES


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
    times = [Milliseconds(prepare=first, forward=then) for first, then in ((1.0, 10.0), (1.0, 2.0), (4.0, 6.0))]
    steps = [Step(call=Call(role="self", mode="x", query_tokens=1, milliseconds=spent)) for spent in times]
    stages = {stage.name: stage for stage in run_stats.latency_breakdown(steps)}
    assert list(stages) == ["prepare", "forward", "logits", "decide"]
    one = stages["prepare"]
    assert (one.mean_milliseconds, one.median_milliseconds, one.share) == (2.0, 1.0, 0.25)
    assert stages["forward"].share == 0.75
    assert run_stats.latency_breakdown([]) == ()


def test_acceptance_by_position() -> None:
    tallies = run_stats.acceptance_by_position(handmade.simsd().steps, 4)
    nothing = stats.Tally(judged=0, accepted=0)
    assert tallies == (stats.Tally(judged=1, accepted=0), nothing, stats.Tally(judged=1, accepted=1), nothing)
    assert [tally.acceptance for tally in tallies] == [0.0, None, 1.0, None]


def test_race_is_cumulative_and_starts_at_zero() -> None:
    line = run_stats.progress_curve(handmade.s2d2().steps)
    assert line.tokens == (0, 0, 2, 4, 4)
    assert line.milliseconds == (0, 5, 10, 15, 20)


def test_differences_between_successive_windows_leave_out_initial_guesses() -> None:
    steps = handmade.jacobi().steps
    assert run_stats.token_difference(steps) == ((1, 2, 1), (2, 2, 1))
    assert run_stats.token_difference(steps, 2) == (run_stats.Difference(step=2, compared=1, changed=0),)
    assert run_stats.token_difference(steps, 3) == run_stats.token_difference(steps, 9) == ()
    steps = [
        handmade.step("0:1=drafted 1:2=drafted"),
        handmade.step("0:1=drafted 1:3=changed", draft=(1, 2), numbers={"initial": (0, 1)}),
        handmade.step("0:1=kept 1:4=changed", draft=(1, 3), numbers={"initial": (0, 0)}),
    ]
    assert run_stats.token_difference(steps) == ((1, 1, 0), (2, 2, 1))
    assert run_stats.token_difference(steps, 2) == (run_stats.Difference(step=2, compared=1, changed=0),)
    differences = [
        run_stats.Difference(step=1, compared=4, changed=1),
        run_stats.Difference(step=2, compared=1, changed=1),
    ]
    assert run_stats.mean_difference(differences) == 0.625
    assert run_stats.mean_difference([]) is None


def test_agreement_excludes_initial_guesses() -> None:
    steps = handmade.jacobi().steps
    assert run_stats.agreement_by_position(steps) == {
        1: ((1, 0.5),),
        2: ((1, 0.75), (2, 0.5)),
        3: ((1, 0.25), (2, 0.75), (3, 1.0)),
        4: ((1, 0.75), (2, 0.875)),
    }
    ages = run_stats.agreement_by_age(steps)
    assert [age.age for age in ages] == [1, 2, 3]
    betas = [0.5, 0.75, 0.25, 0.75]
    assert ages[0] == run_stats.AgeStatistics(age=1, count=4, mean=np.mean(betas), variance=np.var(betas))
    assert ages[2] == run_stats.AgeStatistics(age=3, count=1, mean=1.0, variance=0.0)
    assert run_stats.agreement_by_position(handmade.ar().steps) == {}
    assert run_stats.agreement_by_age(handmade.ar().steps) == ()


def test_tokens_behind_the_end_do_not_count() -> None:
    call = Call(role="self", mode="draft", query_tokens=4)
    steps = [Step(call=call, position=(0, 1, 2, 3), token=(5, 9, 9, 5), fate=(Fate.UNMASKED,) * 4)]
    assert stats.summarise(steps, 6, complete=True).tokens == 4
    assert stats.summarise(steps, 6, complete=True, ends=(9,)).tokens == 2
    assert stats.summarise(steps, 6, complete=True, ends=(8,)).tokens == 4


class TestArNess:
    @pytest.mark.parametrize(
        ("order", "k", "local", "wide"),
        [
            *((tuple(range(20)), k, 1, 1) for k in (1, 2, 5)),
            (tuple(range(9, -1, -1)), 1, 0, 0.1),
            (tuple(range(9, -1, -1)), 2, 0, 0.2),
            ((0, 1, 4, 2, 3), 1, 2 / 4, 4 / 5),  # in pairs 0 1 and 2 3, globally all but 4
            ((0, 1, 4, 2, 3), 3, 0, 1),
            ((10, 20, 30), 1, 0, 1),  # what was not decoded does not count
            ((3,), 1, 0, 1),
            ((), 1, 0, 0),
        ],
    )
    def test_orders_counted_by_hand(self, order: tuple[int, ...], k: int, local: float, wide: float) -> None:
        assert (text_stats.local_ar_ness(order, k), text_stats.global_ar_ness(order, k)) == (local, wide)

    def test_it_is_a_share_that_falls_with_k_locally_and_rises_globally(self) -> None:
        for order in itertools.permutations(range(5)):
            local = [text_stats.local_ar_ness(order, k) for k in (1, 2, 3, 4)]
            wide = [text_stats.global_ar_ness(order, k) for k in (1, 2, 3, 5)]
            assert all(0 <= value <= 1 for value in local + wide)
            assert wide == sorted(wide)
            assert wide[-1] == 1


class TestDecodeOrder:
    def test_tokens_come_by_confidence_or_as_they_were_judged_and_edits_decode_nothing_anew(self) -> None:
        one = step("0:1=unmasked 1:1=unmasked 2:1=unmasked 3:1=unmasked", numbers={"confidence": (0.5, 0.9, 0.9, 0.7)})
        assert text_stats.decode_order([one]) == (1, 2, 3, 0)
        span = step("1:1=accepted 0:1=accepted 2:2=resampled", numbers={"confidence": (0.9, 0.1, 0.5)})
        assert text_stats.decode_order([span]) == (0, 1, 2)
        ordered = step("2:1=accepted 0:1=accepted 1:2=resampled", numbers={"order": (0, 1, 2)})
        assert text_stats.decode_order([ordered]) == (2, 0, 1)
        steps = [step("1:4=unmasked"), step("1:5=edited"), step("0:6=fallback")]
        assert text_stats.decode_order(steps) == (1, 0)

    def test_every_decoded_position_once(self) -> None:
        for trace in (s2d2(), diffusion(), simsd()):
            order = text_stats.decode_order(trace.steps)
            assert sorted(order) == [at for at, token in enumerate(trace.output.tokens) if token is not None]
            assert sum(one.tokens for one in text_stats.decoded_by_step(trace.steps)) == len(order)


class TestRouting:
    def test_a_decision_meets_the_verdict_of_the_next_pass_that_judges(self) -> None:
        routed = text_stats.router_decisions(ALL["s2d2"]().steps)
        assert [(one.step, one.expected, one.score, one.verify, one.accepted) for one in routed] == [
            (0, 2.2, 1.2, True, 1),
            (2, None, None, False, None),
        ]
        (one,) = text_stats.router_decisions([step("0:1=accepted 1:2=resampled", signals={"expected_accepted": 1.5})])
        assert (one.expected, one.accepted, one.verify) == (1.5, 1, None)
        steps = [step("0:1=unmasked", signals={"verify": 0, "score": -1.0}), step("1:2=accepted")]
        assert text_stats.router_decisions(steps)[0].accepted is None
        assert text_stats.router_decisions(simsd().steps) == ()
        assert text_stats.estimator_errors([diffusion().steps]) == ()

    def test_errors_are_expected_less_accepted_estimator_by_estimator(self) -> None:
        signals = {"verify": 1.0, "expected_accepted": 9.0}
        steps = []
        for expected, words in ((2.0, "0:1=accepted 1:1=resampled"), (1.0, "0:1=accepted 1:1=accepted 2:1=accepted")):
            steps += [step(signals=signals | {"expected_accepted_margin": expected}), step(words)]
        (error,) = text_stats.estimator_errors([steps])
        assert (error.name, error.count, error.mean, error.mean_absolute) == ("margin", 2, -0.5, 1.5)
        assert error.deviation == pytest.approx(4.5**0.5)
        (error,) = text_stats.estimator_errors([ALL["s2d2"]().steps])
        assert (error.name, error.count, error.deviation) == ("router", 1, 0)
        assert error.mean == pytest.approx(1.2)
        errors = text_stats.estimator_errors([s2d2(Blocks(seed=seed)).steps for seed in range(3)])
        names = ["random", "entropy", "power", "renyi", "hard_entropy", "margin"]
        assert [error.name for error in errors] == names


def test_confidence_is_the_measure_or_the_drafts_own() -> None:
    steps = [
        step("0:1=drafted 1:2=drafted 2:3=drafted", numbers={"confidence": (0.9, 0.5, 0.3)}),
        step("0:1=accepted 1:4=resampled 2:3=discarded"),
        step("2:5=unmasked 3:5=unmasked", numbers={"confidence": (0.6, 0.8)}),
        step("3:6=edited", numbers={"confidence": (1.0,)}),
        step("4:1=accepted", q=(0.25,), draft=(1,), p=(0.5,)),
    ]
    by_step = text_stats.decoded_by_step(steps)
    assert [(one.step, one.tokens) for one in by_step] == [(1, 2), (2, 2), (4, 1)]
    assert [one.confidence for one in by_step] == [0.9, pytest.approx(0.7), 0.25]


class TestJudged:
    def test_a_pass_that_judges_evaluates_all_of_its_drafts(self) -> None:
        steps = [step("0:1=drafted"), step("0:1=accepted 1:2=resampled 2:1=discarded")]
        assert [evaluated_drafts(one) for one in steps] == [0, 3]
        accepted = [one.fate.count(Fate.ACCEPTED) for one in simsd().steps if evaluated_drafts(one)]
        assert sum(accepted) == simsd().summary.accepted

    def test_draft_steps_are_means_with_standard_errors(self) -> None:
        steps = [
            step("2:1=accepted 0:1=rejected", numbers={"order": (0, 1), "kl": (0.1, 0.4), "agrees": (1, 0)}),
            step("5:1=accepted 4:1=accepted", numbers={"order": (1, 0), "kl": (0.2, 0.3), "agrees": (1, None)}),
        ]
        first, second = text_stats.by_draft_step([steps])
        assert (first.order, first.count) == (0, 2)
        assert first.means == {"kl": pytest.approx(0.2), "agrees": 1}
        assert second.means == {"kl": pytest.approx(0.3), "agrees": 0.5}
        assert second.errors["agrees"] == pytest.approx(0.5)


RECORDINGS = sorted((ROOT / "assets" / "traces").glob("*.json.gz"))


def judged(*passes: tuple[int, int]) -> Trace:
    """Passes with given numbers of drafts and of accepted drafts."""
    builder, at = ds.TraceBuilder("mine", "a/b"), 0
    for drafts, accepted in passes:
        fates = ["accepted"] * accepted + ["resampled"] * (accepted < drafts)
        fates += ["discarded"] * (drafts - len(fates)) + ["bonus"] * (accepted == drafts)
        tokens = list(range(len(fates)))
        draft = [token + (fate == "resampled") for token, fate in zip(tokens, fates, strict=True)][:drafts]
        builder.step(range(at, at + len(fates)), fates, tokens, draft=draft + [None] * (len(fates) - drafts))
        at += accepted + 1
    return builder.trace()


def test_both_rates_counted_by_hand() -> None:
    rates = acceptance_by_draft_position([judged((4, 2), (4, 0), (2, 2), (4, 4)).steps, judged((4, 1)).steps])
    assert rates.passes == 5
    assert [(tally.judged, tally.accepted) for tally in rates.positions] == [(5, 4), (4, 3), (2, 1), (1, 1)]
    assert [tally.marginal for tally in rates.positions] == [4 / 5, 3 / 5, 1 / 5, 1 / 5]
    assert rates.mean_accepted_length == pytest.approx(9 / 5)
    assert acceptance_by_draft_position([handmade.ar().steps]) is None


@pytest.mark.parametrize("window", [True, False])
def test_a_coarse_trace_gives_what_it_can(window: bool) -> None:
    builder = ds.TraceBuilder("served", "a/b")
    for accepted in (3, 0, 4, 1):
        builder.count(accepted, 4 if window else None, accepted + 1)
    trace = builder.trace()
    rates = acceptance_by_draft_position([trace.steps])
    assert [tally.marginal for tally in rates.positions] == [3 / 4, 2 / 4, 2 / 4, 1 / 4]
    assert rates.mean_accepted_length == 2
    assert [tally.judged for tally in rates.positions] == ([4, 3, 2, 2] if window else [None] * 4)
    figure = FIGURES["by-place"].draw([trace])
    assert len(figure.data) == (2 if window else 1)
    assert list(figure.data[-1].y) == [75, 50, 50, 25]


def test_the_order_of_drafts_and_the_levels_of_a_graph() -> None:
    builder = ds.TraceBuilder("mine", "a/b")
    numbers = {"order": (1.0, 0.0)}
    builder.step([0, 1], ["resampled", "accepted"], [4, 5], draft=[3, 5], numbers=numbers)
    rates = acceptance_by_draft_position([builder.trace().steps])
    assert rates is not None and [(tally.judged, tally.accepted) for tally in rates.positions] == [(1, 1), (1, 0)]
    nodes = [((), True), ((0,), False), ((0,), True), ((2,), False), ((3,), False)]
    graph = tuple(
        Node(row=i, parents=parents, positions=(), accepted=accepted) for i, (parents, accepted) in enumerate(nodes)
    )
    builder = ds.TraceBuilder("mine", "a/b")
    builder.step([0, 1], ["accepted", "resampled"], [4, 5], draft=[4, 6])
    (step,) = builder.trace().steps
    rates = acceptance_by_draft_position([[replace(step, graph=graph)]])
    assert rates is not None and [(tally.judged, tally.accepted) for tally in rates.positions] == [(1, 1), (1, 0)]


@pytest.mark.one_quick
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_recording_adds_up(path: Path) -> None:
    trace = read(path)
    rates = acceptance_by_draft_position([trace.steps])
    assert (rates is None) == (trace.summary.judged == 0)
    if rates is None:
        assert "accepted length" not in summary_text(trace)
        return
    assert sum(tally.accepted for tally in rates.positions) == trace.summary.accepted
    assert sum(tally.marginal for tally in rates.positions) == pytest.approx(rates.mean_accepted_length)
    assert rates.positions[0].judged == rates.passes
    assert f"accepted length     {rates.mean_accepted_length:.3f} in {rates.passes} passes" in summary_text(trace)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"judged_by_place": [1], "accepted_by_place": []}, "has 1 places where accepted_by_place has 0"),
        ({"judged_by_place": [1], "accepted_by_place": [2]}, r"judged_by_place\[0\]: counts 2 accepted of 1 judged"),
        ({"judged_by_place": [9], "accepted_by_place": [2]}, "of 9 judged in 4 verifications"),
    ],
)
def test_rows_that_contradict_themselves(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepError, match=words):
        read_rows([row("m", "L", {}, verifications=4, **changed)])
