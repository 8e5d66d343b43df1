"""Figures of text decoded in blocks show what the statistics count."""

from collections import Counter
from dataclasses import replace
from functools import cache
from statistics import fmean

import pytest
from support.blocks import Blocks, diffusion, s2d2, simsd
from support.psd_runs import Plan, speculated

from draftscope.analysis.block_stats import (
    by_draft_step,
    decode_order,
    estimator_errors,
    global_ar_ness,
    local_ar_ness,
    router_decisions,
)
from draftscope.analysis.prediction import contributions, foresight
from draftscope.traces import Trace
from draftscope.traces.schema import Fate, Mask
from draftscope.visualizers import FIGURES
from draftscope.visualizers.figures.graph import HORIZONS, SIZES, pass_with_graph
from draftscope.visualizers.figures.mask import boundaries, cells, numbered, pass_with_mask
from draftscope.visualizers.figures.order import along, binned
from draftscope.visualizers.figures.routing import estimator
from draftscope.visualizers.figures.throughput import Rates, rates


@cache
def run(seed: int = 0) -> Trace:
    return s2d2(Blocks(seed=seed))


def named(figure, start: str) -> list:
    return [mark for mark in figure.data if mark.name is not None and mark.name.startswith(start)]


class TestMask:
    def test_cells_are_the_runs_and_lines_part_the_kinds(self) -> None:
        mask = Mask(queries=("D0", "M0"), keys=("cache", "D0", "D1", "M0"), runs=((0, 2, 2), (1, 1, 1, 1)))
        assert cells(mask) == [[1, 1, 0, 0], [0, 1, 0, 1]]
        assert boundaries(mask.keys) == [0.5, 2.5]
        assert boundaries(mask.queries) == [0.5]

    def test_the_pass_is_the_last_one_with_a_mask(self) -> None:
        masked = [number for number, step in enumerate(run().steps, start=1) if step.mask]
        assert pass_with_mask(run(), masked[1]) == pass_with_mask(run(), masked[2] - 1) == masked[1]
        assert pass_with_mask(run(), 0) == masked[0]
        drawn = FIGURES["mask"].draw([run()], step=masked[2] + 1)
        assert drawn.layout.title.text == f"Attention mask of forward pass {masked[2]} of {len(run().steps)} (verify)"
        mask = run().steps[masked[2] - 1].mask
        queries, keys = numbered(mask.queries), numbered(mask.keys)
        assert numbered(["P9", "<T0"]) == ["P10", "&lt;T1"]
        assert [list(row) for row in drawn.data[0].z] == cells(mask)
        sees = "sees" if cells(mask)[9][3] else "does not see"
        assert drawn.data[0].text[9][3] == f"query {queries[9]} {sees} key {keys[3]}"


class TestRouting:
    def test_marks_are_the_decisions(self) -> None:
        drawn = FIGURES["routing"].draw([run()])
        decisions = router_decisions(run().steps)
        (expected,), (accepted,) = named(drawn, "drafts expected"), named(drawn, "drafts accepted")
        assert list(zip(expected.x, expected.y, strict=True)) == [(one.step + 1, one.expected) for one in decisions]
        assert list(accepted.y) == [one.accepted for one in decisions if one.accepted is not None]
        verified, left = named(drawn, "decision: verify")[0], named(drawn, "decision: do not")[0]
        assert len(verified.x) == sum(one.verify is True for one in decisions) == len(accepted.y)
        assert len(left.x) == len(decisions) - len(verified.x) > 0

    def test_errors_are_the_table(self) -> None:
        (cloud,) = FIGURES["estimators"].draw([run(), run(1)]).data
        rows = estimator_errors([run().steps, run(1).steps])
        assert list(cloud.x) == [row.mean for row in rows]
        assert list(cloud.error_x.array) == [row.deviation for row in rows]
        assert cloud.text[0] == f"MAE {rows[0].mean_absolute:.2f}"
        names = ["Random", "Entropy", "Confidence", "Renyi", "Hard entropy", "Margin"]
        assert [estimator(row.name) for row in rows] == names


class TestOrder:
    def test_every_token_is_a_mark_in_the_pass_that_made_it_final(self) -> None:
        drawn = FIGURES["order"].draw([run()])
        points = {(x, y) for mark in drawn.data for x, y in zip(mark.x, mark.y, strict=True)}
        for number, step in enumerate(run().steps, start=1):
            for position, fate in zip(step.position, step.fate, strict=True):
                assert ((number, position + 1) in points) is fate.final
        assert len(points) == len(decode_order(run().steps))

    def test_ar_ness_is_the_mean_over_runs(self) -> None:
        runs = [diffusion(Blocks(seed=seed)) for seed in range(3)]
        local, wide = FIGURES["ar-ness"].draw(runs).data
        orders = [decode_order(run.steps) for run in runs]
        assert list(local.x) == [1, 2, 3, 4]
        assert local.y[1] == pytest.approx(fmean(local_ar_ness(order, 2) for order in orders))
        assert wide.y[1] == pytest.approx(fmean(global_ar_ness(order, 2) for order in orders))

    def test_confidence_is_averaged_by_stage(self) -> None:
        stages = binned([[(0.0, 1.0), (0.01, 0.0)], [(1.0, 0.4)], [(1.0, 0.6)]])
        assert {at: (one.mean, one.runs) for at, one in stages.items()} == {0.025: (0.5, 2), 0.975: (0.5, 2)}
        assert stages[0.975].error == pytest.approx(0.1)
        sure, tokens = along(run())
        assert (sure[0][0], tokens[0][0], tokens[-1][0]) == (0, 0, 1)
        assert sum(count for _, count in tokens) == run().summary.tokens
        curve, counts = FIGURES["confidence"].draw([run()]).data
        assert tuple(curve.y) == tuple(one.mean for one in binned([sure]).values())
        assert tuple(counts.y) == tuple(one.mean for one in binned([tokens]).values())


def test_bars_and_draft_steps_are_the_statistics() -> None:
    (bars,) = FIGURES["accepted-drafts"].draw([run(), run(1)]).data
    judging = [step for step in (*run().steps, *run(1).steps) if any(fate.judged for fate in step.fate)]
    counts = Counter(step.fate.count(Fate.ACCEPTED) for step in judging)
    assert {x: count for x, count in zip(bars.x, bars.customdata, strict=True) if count} == dict(counts)
    assert sum(bars.y) == pytest.approx(100)
    runs = [simsd(Blocks(block=4, seed=seed)) for seed in range(2)]
    divergence, _, agreement = FIGURES["draft-steps"].draw(runs).data
    rows = by_draft_step([run.steps for run in runs])
    assert list(divergence.y) == [row.means["kl"] for row in rows]
    assert list(agreement.y) == [pytest.approx(100 * row.means["agrees"]) for row in rows]
    assert list(divergence.error_y.array) == [row.errors["kl"] for row in rows]


class TestSpeculation:
    def test_a_graph_shows_every_draft_and_under_which(self) -> None:
        trace = speculated()
        assert pass_with_graph(trace, None) == 2
        assert pass_with_graph(trace, 1) == 2  # nothing is drafted before
        drawn = FIGURES["graph"].draw([trace])
        graph = trace.steps[1].graph or ()
        marks = {mark.name: mark for mark in drawn.data}
        assert [len(marks[name].x) for name in ("kept", "accepted", "rejected")] == [1, 2, 1]
        accepted = marks["kept"]
        assert accepted.x[0] == trace.steps[1].signals["winner"] == 2
        assert accepted.customdata == ("w2, w3",)
        assert accepted.text == ("w1<b>w2</b><b>w3</b>▢▢▢",)  # what is there, what is drafted, what is open
        assert len(marks["accepted under"].x) == 3 * sum(len(node.vouched_by) for node in graph)

    def test_foresight_and_contributions_are_the_statistics(self) -> None:
        runs = [speculated(), speculated(Plan(num_final=(0, 1)), seed=1, config=speculated().config)]
        drawn = FIGURES["foresight"].draw(runs).data
        five = [one for one in foresight([run.steps for run in runs], SIZES, HORIZONS) if one.size == 5]
        assert list(drawn[0].y) == [100 * one.coverage for one in five]
        assert list(drawn[1].y) == [100 * one.coverage_best for one in five]
        assert list(drawn[2].y) == [100 * one.precision for one in five]
        assert all(best >= y for y, best in zip(drawn[0].y, drawn[1].y, strict=True))
        other = speculated(config={"depth": 9})
        assert FIGURES["foresight"].supports([*runs, other]) == "draws up to 1 group of runs, 2 given"
        parallel = named(FIGURES["contributions"].draw([speculated()]), "parallel")[0]
        rows = [one for one in contributions([speculated().steps]) if one.mechanism == "parallel"]
        assert list(parallel.y) == [one.percent for one in rows if one.stage == "early"]

    def test_depth_shows_what_it_costs_beside_what_it_gains(self) -> None:
        runs = [speculated(Plan(depth=depth)) for depth in (1, 2, 3)]
        gain, price = FIGURES["depth"].draw(runs).data
        assert list(gain.x) == [1, 2, 3]
        assert list(gain.y) == [run.summary.tokens_per_forward for run in runs]
        assert list(price.y) == [run.summary.query_tokens / run.summary.tokens for run in runs]
        assert "depth" in str(FIGURES["depth"].supports(runs[:1]))


def test_the_line_is_a_geometric_sum_and_the_mark_is_measured() -> None:
    trace = simsd()
    pair = rates([trace])
    assert pair is not None and rates([s2d2()]) is None
    drafting = [step.call.milliseconds.total for step in trace.steps if step.call.role == "draft"]
    assert pair.draft_seconds == pytest.approx(fmean(drafting) / 1000)
    judged = [fate for step in trace.steps for fate in step.fate if fate.judged]
    assert pair.acceptance == judged.count(Fate.ACCEPTED) / len(judged)
    line, mark = FIGURES["throughput"].draw([trace]).data
    assert list(line.y) == pytest.approx([pair.per_second(count) for count in line.x])
    assert (mark.x[0], mark.y[0]) == (pair.drafts, pair.measured)
    rate = Rates(draft_seconds=0.01, verify_seconds=0.05, acceptance=0.5, drafts=3, measured=10)
    rising = [1 / 0.06, 1.5 / 0.07, 1.75 / 0.08]
    assert [rate.per_second(count) for count in (1, 2, 3)] == pytest.approx(rising)
    assert replace(rate, acceptance=1.0).per_second(5) == pytest.approx(5 / 0.1)
