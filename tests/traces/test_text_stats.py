"""Statistics of text decoded in blocks, on runs small enough to count by hand."""

import itertools

import pytest
from support.blocks import Blocks, diffusion, s2d2, simsd
from support.handmade import ALL, step

from traces import text_stats
from traces.schema import Fate
from traces.stats import evaluated_drafts


class TestArNess:
    @pytest.mark.parametrize(
        ("order", "k", "local", "wide"),
        [
            *((tuple(range(20)), k, 1, 1) for k in (1, 2, 5)),
            (tuple(range(9, -1, -1)), 1, 0, 0.1),
            (tuple(range(9, -1, -1)), 2, 0, 0.2),
            ((0, 1, 4, 2, 3), 1, 2 / 4, 4 / 5),  # locally 0 1 and 2 3, globally all but 4
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
        routed = text_stats.decisions(ALL["s2d2"]().steps)
        assert [(one.step, one.expected, one.score, one.verify, one.accepted) for one in routed] == [
            (0, 2.2, 1.2, True, 1),
            (2, None, None, False, None),
        ]
        (one,) = text_stats.decisions([step("0:1=accepted 1:2=resampled", signals={"expected_accepted": 1.5})])
        assert (one.expected, one.accepted, one.verify) == (1.5, 1, None)
        steps = [step("0:1=unmasked", signals={"verify": 0, "score": -1.0}), step("1:2=accepted")]
        assert text_stats.decisions(steps)[0].accepted is None
        assert text_stats.decisions(simsd().steps) == ()
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
        names = [
            error.name for error in text_stats.estimator_errors([s2d2(Blocks(seed=seed)).steps for seed in range(3)])
        ]
        assert names == ["random", "entropy", "power", "renyi", "hard_entropy", "margin"]


class TestDecoded:
    def test_confidence_is_the_measure_or_the_drafts_own(self) -> None:
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
