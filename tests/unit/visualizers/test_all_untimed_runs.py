"""A run without times is drawn by every figure that needs none, and refused in a sentence by the others."""

from dataclasses import replace
from pathlib import Path

import pytest

import draftscope as ds
from draftscope.traces import Fate, Trace, read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Milliseconds
from draftscope.visualizers import FIGURES
from draftscope.visualizers.figure import FigureError

RECORDED = {path.name.removesuffix(".json.gz"): path for path in (ROOT / "assets" / "traces").glob("*.json.gz")}
REPEATS = (
    *("-juice", "-lighthouse", "capital-", "tally-", "scd-picture-", "video-gumbel", "video-sjd"),
    *("cspd-field-", "cspd-patch-", "picture-same", "-lookup", "-spiffy", "-lopa", "-style", "-localleap", "-editing"),
    *("-routed", "-exact", "-one"),
)
"""Parts of the names of recordings whose kinds of passes and of output another recording has, too."""
TIMED = {"latency", "throughput"}
"""Figures that show nothing but times."""


def built() -> Trace:
    """The first example of a builder in docs/python.md."""
    builder = ds.TraceBuilder("my engine", "OWNER/LARGE", draft_model="OWNER/SMALL", prompt="Once upon a time")
    builder.step([0, 1], ["drafted", "drafted"], [11, 12], call={"role": "draft", "mode": "draft", "query_tokens": 2})
    builder.step([0, 1], ["accepted", "resampled"], [11, 7], draft=[11, 12], p=[0.9, 0.1], q=[0.8, 0.6])
    return builder.trace()


def without_times(trace: Trace) -> Trace:
    steps = tuple(replace(step, call=replace(step.call, milliseconds=Milliseconds())) for step in trace.steps)
    return replace(trace, steps=steps, summary=replace(trace.summary, seconds=0.0, forward_seconds=0.0))


def drawn(traces: list[Trace], name: str) -> bool:
    """Whether a figure draws the traces; if not, it gives a sentence."""
    try:
        figure = FIGURES[name].draw(traces)
    except FigureError as error:
        assert str(error).startswith(f"figure {name}: ")
        assert len(str(error).splitlines()) == 1
        return False
    assert figure.data
    return True


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_built_without_times(name: str) -> None:
    trace = built()
    assert Fate.ACCEPTED in trace.steps[1].fate
    assert drawn([trace], name) <= (name not in TIMED)
    assert drawn([trace, trace], name) <= (name not in TIMED)


@pytest.mark.one_quick
@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(name, marks=[pytest.mark.nightly] if any(part in name for part in REPEATS) else [])
        for name in sorted(RECORDED)
    ],
)
def test_a_recorded_run_loses_only_the_figures_of_times(recording: str) -> None:
    timed = read(RECORDED[recording])
    untimed = without_times(timed)
    for name in FIGURES:
        if name in TIMED:
            assert not drawn([untimed], name)
        elif FIGURES[name].supports([timed]) is None:
            assert drawn([untimed], name), name


def test_the_page_of_a_run_without_times(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    ds.view(built(), page)
    assert "my engine" in page.read_text(encoding="utf-8")


def test_totals_of_runs_without_times_leave_them_out() -> None:
    def heads(traces: list[Trace]) -> set[str]:
        return {axis.title.text for axis in FIGURES["comparison"].draw(traces).select_xaxes()}

    timed = read(RECORDED["ar-juice"])
    assert heads([timed, timed]) - heads([timed, without_times(timed)]) == {"Time (ms)"}
