"""Filters over steps."""

from dataclasses import replace

import pytest
from support import handmade

from draftscope.analysis.filters import (
    FILTERS,
    VERDICT_COLUMNS,
    StepFilter,
    columns,
    entries,
    matches,
    pass_numbers,
    settling,
)
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Fate, Milliseconds, Trace

BY_NAME = {question.name: question for question in FILTERS}


def picked(trace: Trace, name: str, value: float | None = None) -> list[tuple[int, int | None]]:
    return matches(trace, BY_NAME[name], value)


def test_a_verdict_has_the_numbers_that_decided_it() -> None:
    judged = [one for one in entries(handmade.scd()) if one.numbers]
    assert [(one.step, one.position) for one in judged] == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    second = judged[3]
    assert second.fate is Fate.RESAMPLED
    assert dict(second.numbers) == {
        "p": 0.25,
        "q": 0.5,
        "accept_prob": 0.5,
        "draw": 0.75,
        "margin": 0.25,
        "age": 1,
        "order": 2,
        "initial": 0,
        "rejected": 1,
    }
    assert judged[2].numbers["margin"] is None  # it needed no draw


def test_age_counts_the_passes_that_a_draft_waited_where_none_is_recorded() -> None:
    trace = handmade.scd()
    bare = replace(trace, steps=tuple(replace(step, numbers={}) for step in trace.steps))
    assert [one.numbers["age"] for one in entries(bare) if one.numbers] == [0, 0, 1, 1, 1, 1]


def test_questions_pick_verdicts_and_passes() -> None:
    trace = handmade.scd()
    assert picked(trace, "sure") == []  # the initial draft has q = 1, but no model was sure of it
    assert picked(trace, "sure", 0.4) == [(1, 3)]
    assert picked(trace, "close", 0.26) == [(0, 0), (1, 3)]
    assert picked(trace, "unlikely", 0.6) == [(0, 0)]
    assert picked(trace, "old", 1) == [(1, 2), (1, 3), (2, 4), (2, 5)]
    assert picked(trace, "long", 2) == [(2, None)]
    assert picked(trace, "none") == []


def test_slow_passes_are_slower_than_others_of_the_same_network() -> None:
    trace = handmade.scd()
    times = (1.0, 1.0, 2.5)
    steps = tuple(
        replace(step, call=replace(step.call, milliseconds=Milliseconds(forward=time)))
        for step, time in zip(trace.steps, times, strict=True)
    )
    assert picked(replace(trace, steps=steps), "slow") == [(2, None)]
    drafts = tuple(replace(step, call=replace(step.call, role="draft")) for step in steps[2:])
    assert picked(replace(trace, steps=(*steps[:2], *drafts)), "slow") == []  # the only pass of its drafter
    untimed = tuple(replace(step, call=replace(step.call, milliseconds=Milliseconds())) for step in steps)
    assert picked(replace(trace, steps=untimed), "slow", 0.0) == []
    assert pass_numbers(replace(trace, steps=untimed))[0]["milliseconds"] is None


def test_a_condition_on_an_unknown_number_does_not_hold() -> None:
    question = StepFilter(name="own", title="", of="verdict", where=(("q", ">", None),), value=-1)
    assert not question.holds({"q": None}) and not question.holds({}) and question.holds({"q": 0})


def test_what_settles_is_agreement_by_age_or_acceptance_by_draft_position() -> None:
    by_age = settling(handmade.scd())
    mean = pytest.approx((0.75 + 0.5 + 0.875 + 0.75) / 4)
    assert by_age and (by_age.column, by_age.points) == ("age", ((1, mean, 4),))
    by_order = settling(handmade.cspd())
    assert by_order and by_order.column == "order" and sum(count for *_, count in by_order.points) == 2
    assert settling(handmade.ar()) is None


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "assets/traces").glob("*.json.gz")), ids=lambda path: path.name)
def test_columns_of_every_recording_agree_with_its_summary_and_are_small(path: object) -> None:
    trace = read(path)  # type: ignore[arg-type]
    found = columns(trace)
    verdicts = found["verdicts"]
    assert len(verdicts["entry"]) == trace.summary.judged == sum(found["passes"]["judged"])
    assert trace.summary.judged - sum(verdicts["rejected"]) == trace.summary.accepted
    assert {len(verdicts[name]) for name in VERDICT_COLUMNS} == {trace.summary.judged}
    assert len(found["step"]) == sum(len(step.position) for step in trace.steps)
    assert all(0 <= value <= 1 for value in verdicts["accept_prob"])
