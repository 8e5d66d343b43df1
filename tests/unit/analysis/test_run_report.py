"""Sentences about a run and about a pair: all of one screen name the same numbers and the same verdict."""

import re
from dataclasses import replace
from itertools import product

import pytest

from benchmarks._toy_runs import decode_toy_raster
from draftscope.analysis.explain import explain_speed, run_metrics
from draftscope.analysis.run_report import EVEN, RunReport, report_messages, run_reports, times
from draftscope.demo.components.gallery import badge
from draftscope.demo.jobs.beside import comparison_table
from draftscope.demo.jobs.recordings import Recording
from draftscope.traces.schema import Summary, Trace

ORDINARY, COUPLED, GROUPED = decode_toy_raster("ar"), decode_toy_raster("scd"), decode_toy_raster("gsd")


def taking(trace: Trace, *, tokens: int, passes: int, seconds: float, complete: bool = True) -> Trace:
    """A run that took so much; its steps stay."""
    summary = replace(trace.summary, tokens=tokens, forwards=passes, seconds=seconds, complete=complete)
    return replace(trace, summary=summary)


BASE = taking(ORDINARY, tokens=100, passes=100, seconds=2.0)
KINDS = {
    f"{length}, {cost}, {time}": taking(COUPLED, tokens=tokens, passes=passes, seconds=seconds * tokens / 100)
    for (length, tokens), (cost, passes), (time, seconds) in product(
        {"shorter": 80, "as long": 100, "longer": 120, "end token at once": 1}.items(),
        {"fewer passes": 50, "as many passes": 100, "more passes": 130, "one pass": 1}.items(),
        {"faster": 1.0, "as fast": 2.01, "slower": 3.0, "no times": 0.0}.items(),
    )
}


@pytest.mark.parametrize("run", KINDS.values(), ids=KINDS)
def test_no_two_sentences_of_a_screen_disagree(run: Trace) -> None:
    (_, report), facts = run_reports([BASE, run]), {fact.label: fact for fact in run_metrics([BASE, run])}
    (_, message), card = report_messages([BASE, run]), dict(report.card())
    time, passes = facts["Decoding time"].note, facts["Forward passes (NFE)"]
    recording = Recording("scd", "", "", "", (), (BASE, run))
    table = comparison_table([BASE, run])
    cells = dict(zip(table["heads"], table["rows"][1], strict=True))
    seconds, summary = run.summary.seconds, run.summary
    ratio = (2.0 / 100) / (seconds / summary.tokens) if seconds else None
    headline = message["headline"]
    assert message["lead"].replace(" as ordinary decoding", "").replace("; compared with ordinary decoding", "") == (
        headline.replace(" as ordinary decoding", "")
    )
    # Time: one ratio per token in all sentences.
    if ratio is None:
        assert not re.search("as fast|as slow", headline + badge(recording))
        assert time.startswith("not comparable") and not any("fast" in about for about in card.values())
        assert not cells.get("Times as fast")
    else:
        assert time.startswith(f"{times(ratio)} times as fast")
        assert card[f"{times(ratio)}×"] == "as fast, measured"
        assert badge(recording).startswith(f"{times(ratio)} × as fast")
        assert float(cells["Times as fast"]) == pytest.approx(ratio, rel=6e-3)
        even = headline.startswith("About as fast as ordinary decoding")
        assert even == (1 / EVEN <= ratio <= EVEN)
        assert f"({times(ratio)} times)" in headline if even else f"{times(ratio)} times as fast" in headline
        assert headline.startswith("Only") == (ratio < 1 / EVEN)
    # Passes: of runs that differ in length, for every token.
    each = summary.tokens / summary.forwards
    assert passes.figure == str(summary.forwards)
    assert float(cells["Times the tokens per target pass"]) == pytest.approx(each, rel=6e-3)
    if summary.tokens != 100:
        assert headline.endswith(f"{each:.2f} tokens per pass.")
        assert f"for {summary.tokens} tokens" in card[str(summary.forwards)]
        assert f"for {summary.tokens} token" in passes.note and "ordinary: 100 for 100" in passes.note
    elif summary.forwards == 100:
        assert headline.endswith("100 passes each.")
    else:
        assert re.search(rf"\b{summary.forwards} pass(es)? instead of 100\.$", headline)
    query_tokens = BASE.summary.query_tokens / summary.query_tokens
    assert report.query_token_ratio == pytest.approx(query_tokens * summary.tokens / 100)
    # Exactness.
    assert facts["Output"].figure == "Exact" and message["truth"] == facts["Output"].note
    assert message["truth"].startswith(card["Exact"]) and badge(recording).endswith("exact")


def test_a_run_that_was_stopped_or_that_nothing_stands_beside_is_not_compared() -> None:
    stopped = taking(COUPLED, tokens=40, passes=20, seconds=1.0, complete=False)
    none = taking(COUPLED, tokens=0, passes=1, seconds=0.1)
    for other in (stopped, none):
        report = RunReport(other, BASE)
        assert not report.headline() and report.time_ratio is None
        assert not any("fast" in about for _, about in report.card())
        assert "not comparable" in run_metrics([BASE, other])[1].note
    alone = RunReport(COUPLED)
    assert not alone.headline() and alone.truth == "the model's own distribution"
    assert dict(alone.card())["Exact"] == alone.truth
    assert report_messages([]) == []


def test_times_of_other_hardware_are_not_compared() -> None:
    other = replace(KINDS["as long, fewer passes, faster"], environment=replace(BASE.environment, device="another"))
    report = RunReport(other, BASE)
    assert report.time_ratio is None and report.headline() == "50 passes instead of 100."
    assert report.headline(computed=(4.0, 1.0)) == "4.0 times as fast, computed: 50 passes instead of 100."
    assert report.headline("MC-SJD", (4.0, 1.0)).startswith("4.0 times as fast as MC-SJD, computed: ")


def test_what_is_known_of_the_distribution_is_said_and_nothing_else() -> None:
    lossy = RunReport(GROUPED, ORDINARY)
    assert (lossy.fidelity, lossy.truth, lossy.reason) == ("lossy", "not the model's own distribution", GROUPED.note)
    same = RunReport(replace(COUPLED, output=ORDINARY.output), ORDINARY)
    assert same.truth == "the same tokens" and "same random numbers" in same.reason
    drawn = RunReport(COUPLED, ORDINARY)
    assert drawn.truth == "same distribution, another draw" and "residual" in drawn.reason
    assert RunReport(COUPLED, GROUPED).truth == "the model's own distribution"
    assert RunReport(ORDINARY, COUPLED).truth == ""  # it is what others are compared with
    for unknown in (replace(COUPLED, method="mine"), replace(COUPLED, environment=type(COUPLED.environment)())):
        report = RunReport(unknown, ORDINARY)
        assert (report.fidelity, report.truth, report.reason) == ("unknown", "", "")
        assert not {"Exact", "Lossy"} & dict(report.card()).keys()


def test_the_reasons_name_the_same_speed() -> None:
    report = RunReport(COUPLED, ORDINARY)
    assert explain_speed([ORDINARY, COUPLED])["In all"].startswith(f"{times(report.time_ratio or 0)} times as fast")


def test_a_summary_has_all_that_is_compared() -> None:
    assert {"tokens", "forwards", "seconds", "complete"} <= set(Summary.__dataclass_fields__)
