"""Acceptance by place in the draft, counted by hand, and over every recording against its summary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import handmade
from support.results import row

import draftscope as ds
from traces import Trace, read
from traces.describe import at_a_glance
from traces.places import by_place
from traces.results import SweepError, read_rows
from traces.schema import Node
from visualizers import FIGURES

RECORDINGS = sorted((Path(__file__).parents[2] / "assets" / "traces").glob("*.json.gz"))


def judged(*passes: tuple[int, int]) -> Trace:
    """Passes of so many drafts, of which so many were accepted."""
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
    rates = by_place([judged((4, 2), (4, 0), (2, 2), (4, 4)).steps, judged((4, 1)).steps])
    assert rates.passes == 5
    assert [(place.judged, place.accepted) for place in rates.places] == [(5, 4), (4, 3), (2, 1), (1, 1)]
    assert [place.marginal for place in rates.places] == [4 / 5, 3 / 5, 1 / 5, 1 / 5]
    assert rates.mean_accepted_length == pytest.approx(9 / 5)
    assert by_place([handmade.ar().steps]) is None


@pytest.mark.parametrize("window", [True, False])
def test_a_coarse_trace_gives_what_it_can(window: bool) -> None:
    builder = ds.TraceBuilder("served", "a/b")
    for accepted in (3, 0, 4, 1):
        builder.count(accepted, 4 if window else None, accepted + 1)
    trace = builder.trace()
    rates = by_place([trace.steps])
    assert [place.marginal for place in rates.places] == [3 / 4, 2 / 4, 2 / 4, 1 / 4]
    assert rates.mean_accepted_length == 2
    assert [place.judged for place in rates.places] == ([4, 3, 2, 2] if window else [None] * 4)
    figure = FIGURES["by-place"].draw([trace])
    assert len(figure.data) == (2 if window else 1)
    assert list(figure.data[-1].y) == [75, 50, 50, 25]


def test_the_order_of_drafts_and_the_levels_of_a_graph() -> None:
    builder = ds.TraceBuilder("mine", "a/b")
    numbers = {"order": (1.0, 0.0)}
    builder.step([0, 1], ["resampled", "accepted"], [4, 5], draft=[3, 5], numbers=numbers)
    rates = by_place([builder.trace().steps])
    assert rates is not None and [(place.judged, place.accepted) for place in rates.places] == [(1, 1), (1, 0)]
    nodes = [((), True), ((0,), False), ((0,), True), ((2,), False), ((3,), False)]
    graph = tuple(
        Node(row=i, parents=parents, positions=(), accepted=accepted) for i, (parents, accepted) in enumerate(nodes)
    )
    builder = ds.TraceBuilder("mine", "a/b")
    builder.step([0, 1], ["accepted", "resampled"], [4, 5], draft=[4, 6])
    (step,) = builder.trace().steps
    rates = by_place([[replace(step, graph=graph)]])
    assert rates is not None and [(place.judged, place.accepted) for place in rates.places] == [(1, 1), (1, 0)]


@pytest.mark.one_quick
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_recording_adds_up(path: Path) -> None:
    trace = read(path)
    rates = by_place([trace.steps])
    assert (rates is None) == (trace.summary.judged == 0)
    if rates is None:
        assert "accepted length" not in at_a_glance(trace)
        return
    assert sum(place.accepted for place in rates.places) == trace.summary.accepted
    assert sum(place.marginal for place in rates.places) == pytest.approx(rates.mean_accepted_length)
    assert rates.places[0].judged == rates.passes
    assert f"accepted length     {rates.mean_accepted_length:.3f} in {rates.passes} passes" in at_a_glance(trace)


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
