"""The oracle: the best choices that a run allowed."""

from pathlib import Path

import pytest
from support.handmade import make, step
from support.psd_runs import Plan, speculated

from draftscope.analysis.oracle import OracleChoice, oracle_savings
from draftscope.analysis.prediction import contributions, foresight
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Canvas, Fate, Step
from draftscope.visualizers import FIGURES

ONE_BLOCK = Plan(blocks=1, num_final=(0,))


def test_perfect_foresight_is_the_best_in_hindsight() -> None:
    for one in foresight([speculated(ONE_BLOCK).steps], (2, 5), (1, 2, 3)):
        assert (one.precision, one.coverage) == (one.precision_best, one.coverage_best)
        assert one.precision == pytest.approx(min(one.size, one.horizon) / one.size)
        assert one.coverage == pytest.approx(min(one.size, one.horizon) / one.horizon)
    assert foresight([speculated(ONE_BLOCK).steps], (5,), (9,)) == ()
    assert foresight([speculated(ONE_BLOCK).steps], (8,), (1,)) == ()


def test_mechanisms_add_up_to_the_block() -> None:
    shares = contributions([speculated().steps, speculated(Plan(num_final=(0, 1))).steps])
    assert {one.stage for one in shares} == {"early", "middle"}
    for stage in ("early", "middle"):
        here = [one for one in shares if one.stage == stage]
        assert sum(one.percent for one in here) == pytest.approx(100)
        assert {one.blocks for one in here} == {2}
        parallel = sum(one.percent for one in here if one.mechanism == "parallel")
        steps = speculated().steps, speculated(Plan(num_final=(0, 1))).steps
        share = [sum(step.fate.count(Fate.UNMASKED) for step in run) / 24 for run in steps]
        assert parallel == pytest.approx(100 * sum(share) / 2)


TEXT = Canvas(kind="text", shape=(6,))
RECORDED = ROOT / "assets" / "traces"


def choices(*steps: Step, **config: object) -> tuple[str, str, tuple[OracleChoice, ...]]:
    best = oracle_savings(make("method", TEXT, steps, config=config))
    assert best
    return best.setting, best.unit, best.choices


def test_rejected_and_dropped_drafts_need_not_have_been_made() -> None:
    steps = (
        step("0:1=drafted 1:2=drafted 2:3=drafted", role="draft"),
        step("0:1=accepted 1:9=resampled 2:3=discarded", draft=(1, 2, 3)),
        step("2:4=accepted 3:5=accepted 4:6=bonus", draft=(4, 5, None)),
        step("5:7=sampled"),
    )
    assert choices(*steps) == ("draft length", "drafts", (OracleChoice(1, 3, 1), OracleChoice(2, 2, 2)))


def test_a_window_reaches_as_far_as_the_last_draft_that_stays() -> None:
    steps = (
        step("0:1=resampled 1:2=kept 2:3=changed 3:4=kept 4:5=changed 5:6=drafted", draft=(9, 2, 8, 4, 8, None)),
        step("1:2=accepted 2:3=accepted 3:7=resampled 4:5=kept 5:6=kept", draft=(2, 3, 4, 5, 6)),
        step("4:5=accepted 5:8=resampled", draft=(5, 6)),
    )
    # 3:4 stays for a pass, but is rejected then; 4:5 is new after the first pass and stays from there on.
    assert choices(*steps) == (
        "window",
        "drafts",
        (OracleChoice(0, 5, 2), OracleChoice(1, 5, 4), OracleChoice(2, 2, 1)),
    )


def test_the_lowest_threshold_that_is_right_makes_later_passes_needless() -> None:
    def confident(words: str, *sure: float) -> Step:
        return step(words, mode="draft", numbers={"confidence": sure})

    first = confident("0:1=unmasked 1:2=drafted 2:3=drafted 3:4=drafted", 0.9, 0.8, 0.5, 0.7)
    steps = (first, confident("1:2=unmasked 2:3=drafted 3:4=unmasked", 0.9, 0.6, 0.9), step("2:3=unmasked"))
    assert choices(*steps) == (
        "confidence threshold",
        "passes",
        (OracleChoice(0, 1, 1), OracleChoice(1, 1, 0), OracleChoice(2, 1, 0)),
    )
    wrong = confident("0:1=unmasked 1:2=drafted 2:3=drafted 3:8=drafted", 0.9, 0.8, 0.5, 0.7)
    # Below 0.7 the wrong draft would have been taken, too: position 2 has to wait for the second pass.
    assert choices(wrong, *steps[1:])[2] == (OracleChoice(0, 1, 1), OracleChoice(1, 1, 1), OracleChoice(2, 1, 0))


@pytest.mark.parametrize(
    ("threshold", "verified", "best"),
    [
        (0.8, "0:1=accepted 1:2=accepted", 0),
        (0.95, "0:1=accepted 1:2=accepted", 1),  # confidence alone would have taken one of them
        (0.8, "0:1=accepted 1:7=resampled", 1),  # and here a wrong one
        (0.5, "0:1=accepted 1:2=accepted", 1),  # and here one that comes out another way later
    ],
)
def test_a_verification_is_needless_where_confidence_does_the_same(threshold: float, verified: str, best: int) -> None:
    drafts = "0:1=drafted 1:2=drafted 2:3=drafted"
    steps = (
        step(drafts, mode="draft", numbers={"confidence": (0.99, 0.9, 0.6)}, signals={"score": 1.0, "verify": 1.0}),
        step(verified, mode="verify"),
        step("2:4=unmasked", mode="draft"),
    )
    expected = (OracleChoice(0, 1, 1), OracleChoice(1, 1, best), OracleChoice(2, 1, 1))
    assert choices(*steps, threshold=threshold) == ("whether to verify", "passes", expected)


def test_a_threshold_that_is_no_number_counts_as_none_and_no_drafts_are_no_choice() -> None:
    drafts = step("0:1=drafted", mode="draft", numbers={"confidence": (0.9,)}, signals={"verify": 1.0})
    steps = (drafts, step("0:1=accepted", mode="verify"))
    assert choices(*steps, threshold="high")[2] == (OracleChoice(0, 1, 1), OracleChoice(1, 1, 1))
    assert oracle_savings(make("speculative", TEXT, (step("0:1=sampled", draft=(None,)),))) is None


def test_of_a_draft_graph_the_accepted_path_is_needed() -> None:
    best = oracle_savings(speculated(Plan(blocks=1, num_final=(0, 2))))
    assert best
    assert (best.setting, best.unit) == ("rows of the draft graph", "rows")
    assert [(one.spent, one.best) for one in best.choices] == [(4, 3), (4, 1), (4, 3)]
    assert (best.spent, best.best, best.saved) == (12, 7, pytest.approx(5 / 12))


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_no_best_choice_takes_more_than_the_run_did(path: Path) -> None:
    trace = read(path)
    best = oracle_savings(trace)
    assert (best is None) == ("ordinary" in path.name or trace.method in ("ar", "continuous"))
    for one in best.choices if best else ():
        assert 0 <= one.best <= one.spent


def test_the_figure_ends_at_the_totals() -> None:
    trace = read(RECORDED / "speculative-smollm2.json.gz")
    figure = FIGURES["hindsight"].draw([trace])
    assert [curve.y[-1] for curve in figure.data] == [trace.summary.drafts, trace.summary.accepted]
