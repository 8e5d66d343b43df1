"""Every figure shows the numbers of the statistics, explains why it cannot be drawn, and reads in both themes."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import correlation, fmean, stdev

import numpy as np
import plotly.graph_objects as go
import pytest
from support.blocks import Blocks, diffusion, s2d2, simsd
from support.handmade import ALL, coarse
from support.psd_runs import Plan, speculated
from support.toy_videos import film

from benchmarks._toy_runs import decode_toy_raster, jacobi, ordinary
from draftscope.analysis import stats as run_stats
from draftscope.analysis.seeds import over_runs
from draftscope.traces import loads
from draftscope.traces.measures import MEASURES
from draftscope.traces.replay import state_after
from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES, FigureError, supported
from draftscope.visualizers.export_zip.widths import narrowed
from draftscope.visualizers.figure import labels
from draftscope.visualizers.figures.canvas import halfway
from draftscope.visualizers.figures.collisions import LOOKS, MIN_AT_AN_AGE, shares
from draftscope.visualizers.figures.token_churn import FATE_ORDER, churn
from draftscope.visualizers.picture import cells, picture_of, render_canvas
from draftscope.visualizers.wrapping import panels


def run(coupling: str = "maximal", window: int = 12, alpha: float = 1.0, seed: int = 0) -> Trace:
    return jacobi(6, 6, window, seed, coupling=coupling, alpha=alpha)


def plain_run(seed: int = 0) -> Trace:
    return ordinary(6, 6, seed)


@cache
def block_run(method: str, seed: int = 0) -> Trace:
    return {"s2d2": s2d2, "diffusion": diffusion, "simsd": simsd}[method](Blocks(seed=seed))


EXAMPLES: dict[str, Callable[[], list[Trace]]] = {
    "comparison": lambda: [plain_run(), run("none"), run()],
    "redundancy": lambda: [film(3, 6), film(3, 6, seed=1), replace(film(3, 6), config={"window": 4})],
    "difference": lambda: [run(coupling, seed=seed) for coupling in ("none", "gumbel") for seed in range(4)],
    **dict.fromkeys(("seeds", "paired"), lambda: [each(seed=seed) for each in (plain_run, run) for seed in range(3)]),
    **dict.fromkeys(("strength", "by-setting"), lambda: [run(alpha=k / 2, seed=i) for k in range(3) for i in range(2)]),
    "window": lambda: [plain_run(), *(run(window=window, seed=seed) for window in (4, 8) for seed in range(2))],
    "order": lambda: [block_run("diffusion"), block_run("s2d2"), block_run("simsd")],
    "routing": lambda: [block_run("s2d2"), block_run("s2d2", seed=1)],
    "estimators": lambda: [block_run("s2d2", seed=seed) for seed in range(3)],
    "accepted-drafts": lambda: [block_run("s2d2"), block_run("simsd")],
    "denoising": lambda: [block_run("s2d2"), block_run("simsd"), block_run("simsd", seed=1)],
    "draft-steps": lambda: [block_run("s2d2"), block_run("simsd"), block_run("simsd", seed=1)],
    "throughput": lambda: [block_run("simsd"), block_run("simsd", seed=1)],
    "ar-ness": lambda: [block_run(method, seed=seed) for method in ("s2d2", "diffusion", "simsd") for seed in range(2)],
    "confidence": lambda: [block_run(method) for method in ("s2d2", "diffusion", "simsd")],
    "mask": lambda: [block_run("s2d2"), block_run("simsd")],
    **dict.fromkeys(("ratios", "distances", "divergence", "ratio-means"), lambda: [ALL["cspd"]()]),
    "trajectories": lambda: [ALL["cspd"](), ALL["cspd"]()],
    "along": lambda: [run(seed=seed) for seed in range(2)],
    "graph": lambda: [speculated(), speculated(Plan(depth=5))],
    **dict.fromkeys(("foresight", "contributions"), lambda: [speculated(), speculated(seed=1)]),
    "depth": lambda: [speculated(Plan(depth=depth), seed=seed) for depth in (1, 2, 3) for seed in range(2)],
}


@cache
def example(name: str) -> tuple[Trace, ...]:
    """Traces that the figure can be drawn from."""
    return tuple(EXAMPLES.get(name, lambda: [run()])())


def named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [mark for mark in figure.data if mark.name is not None and mark.name.startswith(name)]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_words_axes_and_valid_json(name: str) -> None:
    figure = FIGURES[name]
    drawn = figure.draw(example(name))
    assert figure.name == name and len(figure.caption) > 60
    assert drawn.layout.title.text and drawn.layout.title.subtitle.text
    axes = [axis for axis in drawn.select_xaxes() if not axis.matches or axis.title.text]
    assert all(axis.title.text for axis in axes) or name in ("pictures", "seeds")  # which name columns
    assert any(axis.title.text for axis in drawn.select_yaxes()) or name in ("latency", "comparison", "pictures")
    assert json.loads(drawn.to_json())["layout"]["height"] > 100


@pytest.mark.parametrize("maker", [*ALL.values(), lambda: loads(coarse([{"accepted": 3, "committed": 4}] * 3, 12))])
@pytest.mark.parametrize("name", FIGURES)
def test_any_method_is_drawn_or_refused_with_a_reason(name: str, maker: Callable[[], Trace]) -> None:
    figure, trace = FIGURES[name], maker()
    reason = figure.supports([trace])
    if reason is None:
        assert isinstance(figure.draw([trace]), go.Figure)
    else:
        with pytest.raises(FigureError, match="figure " + name):
            figure.draw([trace])


@pytest.mark.parametrize(
    ("name", "traces", "reason"),
    [
        ("acceptance", lambda: [plain_run()], "needs verdicts on drafts, which this trace does not have"),
        ("beta", lambda: [plain_run()] * 2, "needs the measures `age` and `tv`, which these 2 traces do not have"),
        ("churn", lambda: [run()] * 7, "draws up to 6 traces side by side, 7 given"),
        ("race", lambda: [run()] * 13, "draws up to 12 runs, 13 given"),
        ("difference", lambda: [run(), run(seed=1)], "needs at least 3 runs"),
        ("strength", lambda: [run(), run(seed=1)], "needs complete runs that differ in the setting `alpha`"),
        ("ar-ness", lambda: [s2d2(Blocks(cost=cost)) for cost in range(7)], "draws up to 6 groups of runs, 7 given"),
    ],
)
def test_refusals_say_what_is_missing(name: str, traces: Callable[[], list[Trace]], reason: str) -> None:
    assert FIGURES[name].supports(traces()) == reason


def test_names_of_runs_are_escaped() -> None:
    assert labels([run(), replace(run(), method="a<b")]) == ("MC-SJD", "a&lt;b")


class TestCanvas:
    def test_final_tokens_are_solid_drafts_faded_and_open_positions_faint(self) -> None:
        trace = run()
        state, tiles = state_after(trace, halfway(trace)), trace.legend.tiles
        assert tiles is not None and {True, False} == set(state.final)
        picture, atlas = np.asarray(render_canvas(tiles, trace.canvas, state)), np.asarray(picture_of(tiles.png))
        size = picture.shape[0] // 6
        for position, (row, column) in enumerate(cells(trace.canvas)):
            pixel = picture[row * size + size // 2, column * size + size // 2]
            token = state.tokens[position]
            if token is None:
                assert pixel[3] < 60
                continue
            assert tuple(pixel[:3]) == tuple(atlas[0, token * tiles.size])
            assert pixel[3] == 255 if state.final[position] else 60 < pixel[3] < 200

    def test_marks_are_the_fates_of_the_last_step(self) -> None:
        trace, at = run(), halfway(run())
        drawn = FIGURES["canvas"].draw([trace])
        assert drawn.layout.title.text == f"The canvas after forward pass {at} of {len(trace.steps)}"
        fates = trace.steps[at - 1].fate
        for fate in set(fates):
            (mark,) = [mark for mark in named(drawn, f"{fate.value}:") if mark.showlegend is not False]
            assert len(mark.x) == fates.count(fate)


def test_codes_are_the_fates() -> None:
    trace = run()
    codes = churn(trace)
    assert codes.shape == (len(trace.steps), 36)
    for row, step in zip(codes, trace.steps, strict=True):
        fates = dict(zip(step.position, step.fate, strict=True))
        assert {position: FATE_ORDER[code - 1] for position, code in enumerate(row) if code} == fates
    drawn = FIGURES["churn"].draw([trace, run("none")])
    assert np.array_equal(drawn.data[0].z, codes)
    assert drawn.layout.yaxis.range == drawn.layout.yaxis2.range  # what takes fewer passes is less tall


def test_beta_is_the_mean_by_age_with_a_band_of_one_standard_error() -> None:
    trace = run("none")
    drawn = FIGURES["beta"].draw([trace])
    ages = [row for row in run_stats.agreement_by_age(trace.steps) if row.count >= MIN_AT_AN_AGE]
    (curve,) = named(drawn, "SJD")
    assert list(curve.x) == [row.age for row in ages] and len(ages) > 1
    assert curve.y == pytest.approx([row.mean for row in ages])
    band = next(mark for mark in drawn.data if mark.fill == "toself")
    error = [(row.variance / (row.count - 1)) ** 0.5 for row in ages]
    high = [min(1, row.mean + half) for row, half in zip(ages, error, strict=True)]
    low = [max(0, row.mean - half) for row, half in zip(ages, error, strict=True)]
    assert list(band.y) == pytest.approx(high + low[::-1])


def test_beta_of_several_runs_has_their_standard_error() -> None:
    runs = [run("none", seed=seed) for seed in range(3)]
    (curve,) = named(FIGURES["beta"].draw(runs), "SJD, 3 runs")
    first = [run_stats.agreements_of_ages(trace.steps)[1] for trace in runs]
    estimate = over_runs(first)
    assert estimate.runs == 3 and curve.y[0] == pytest.approx(estimate.mean)
    assert list(curve.customdata[0]) == pytest.approx([estimate.error, sum(map(len, first))])


def test_drift_is_the_mean_difference_over_runs() -> None:
    runs = [run("none", seed=seed) for seed in range(3)]
    (curve,) = FIGURES["hamming"].draw(runs).data
    for distance, value, spread in zip(curve.x, curve.y, curve.error_y.array, strict=True):
        each = [run_stats.mean_difference(run_stats.token_difference(trace.steps, distance)) for trace in runs]
        values = [100 * mean for mean in each if mean is not None]
        assert (value, spread) == pytest.approx((fmean(values), stdev(values) / len(values) ** 0.5))
    assert list(curve.x) == [1, 2, 3]


def test_drift_of_runs_of_several_strengths_stands_over_the_strength() -> None:
    runs = example("strength")
    panels = FIGURES["hamming"].draw(runs).data
    assert [list(panel.x) for panel in panels] == [[0, 0.5, 1]] * 3
    full = [run for run in runs if run.config["alpha"] == 1]
    for distance, panel in enumerate(panels, start=1):
        shares = [run_stats.mean_difference(run_stats.token_difference(trace.steps, distance)) for trace in full]
        assert panel.y[-1] == pytest.approx(fmean(100 * share for share in shares if share is not None))


def test_agreement_is_the_recorded_pairs_within_the_bounds() -> None:
    trace = run()
    drawn = FIGURES["collision"].draw([trace])
    for name in LOOKS:
        (cloud,) = named(drawn, MEASURES[name].label)
        assert list(zip(cloud.x, cloud.y, strict=True)) == list(run_stats.measured(trace.steps, "tv", name))
    (gumbel,) = named(drawn, MEASURES["collision_gumbel"].label)
    assert all((1 - x) / (1 + x) - 1e-9 <= y <= 1 - x + 1e-9 for x, y in zip(gumbel.x, gumbel.y, strict=True))
    upper, lower = named(drawn, "1 –")[0], named(drawn, "(1 –")[0]
    assert (upper.y[10], lower.y[10]) == pytest.approx((0.8, 0.8 / 1.2))
    assert shares([0.0, 0.26, 1.0, 0.99], bins=4) == (25.0, 25.0, 0.0, 50.0)
    for bars in FIGURES["collision-histogram"].draw([trace]).data:
        assert sum(bars.y) == pytest.approx(100)


def test_curves_of_steps_are_solid_with_marks() -> None:
    drawn = FIGURES["race"].draw([plain_run(), run("none"), run()])
    steps = [mark for mark in drawn.data if mark.line.shape == "hv"]
    assert len(steps) == 6 and all(mark.line.dash == "solid" and "markers" in mark.mode for mark in steps)
    assert len({(mark.line.color, mark.marker.symbol) for mark in steps}) == 3


def test_race_and_latency_are_the_statistics() -> None:
    trace = run()
    expected = run_stats.progress_curve(trace.steps)
    by_forwards, _, by_time, _ = FIGURES["race"].draw([trace]).data
    assert (by_forwards.x, by_time.x) == (tuple(range(len(trace.steps) + 1)), expected.milliseconds)
    assert by_forwards.y == by_time.y == expected.tokens
    means = [stage.mean_milliseconds for stage in run_stats.latency_breakdown(trace.steps)]
    bars = FIGURES["latency"].draw([trace]).data
    assert [bar.x[0] for bar in bars] == means
    assert " + ".join(f"{mean:.2f}" for mean in means) in bars[0].y[0]


def test_comparison_says_totals_and_gains() -> None:
    first, second = plain_run(), run()
    forwards, time, _, accepted = FIGURES["comparison"].draw([first, second]).data
    assert list(forwards.x) == [36, second.summary.forwards]
    assert forwards.text[1] == f"{second.summary.forwards} ({36 / second.summary.forwards:.2f}×)"
    assert time.x[0] == pytest.approx(1000 * first.summary.seconds)
    assert accepted.text[0] == "no drafts" and second.summary.acceptance is not None
    assert accepted.x[1] == pytest.approx(100 * second.summary.acceptance)


def test_sweeps_are_means_over_seeds() -> None:
    runs = example("difference")
    clouds = FIGURES["difference"].draw(runs).data
    mean = run_stats.mean_difference(run_stats.token_difference(runs[0].steps))
    assert [len(cloud.x) for cloud in clouds] == [4, 4] and mean is not None
    assert (clouds[0].x[0], clouds[0].y[0]) == pytest.approx((100 * mean, runs[0].summary.forwards))
    assert f"correlation {correlation(clouds[0].x, clouds[0].y):.2f}" in clouds[0].name
    by_strength, by_drift = FIGURES["strength"].draw(example("strength")).data
    halves = [run(alpha=0.5, seed=seed).summary.forwards for seed in range(2)]
    assert list(by_strength.x) == [0, 0.5, 1] and by_drift.x[0] > by_drift.x[-1]
    assert (by_strength.y[1], by_strength.error_y.array[1]) == (fmean(halves), stdev(halves) / len(halves) ** 0.5)
    assert tuple(by_drift.y) == tuple(by_strength.y)
    curve, level = FIGURES["window"].draw(example("window")).data
    assert (list(curve.x), list(level.y)) == ([4, 8], [36, 36])
    assert curve.y[0] == fmean(run(window=4, seed=seed).summary.forwards for seed in range(2))


RUNS = [jacobi(4, 4, 4 + seed, seed) for seed in range(6)]
TRACES = [decode_toy_raster("ar"), decode_toy_raster("scd", window=16)]
ACROSS = 46
"""Letters that a phone shows on one line."""


@pytest.mark.parametrize("count", [3, 4, 6])
def test_more_than_three_panels_stand_in_rows_below_their_titles(count: int) -> None:
    figure = FIGURES["churn"].draw(RUNS[:count])
    axes = panels(figure)
    corners = [(x.domain[0], y.domain[0]) for x, y in axes]
    across = 2 if count == 4 else 3  # rows are as long as each other
    assert len(set(corners)) == count
    assert [left for left, _ in corners[across:]] == [left for left, _ in corners[: count - across]]
    assert len({bottom for _, bottom in corners}) == (1 if count == 3 else 2)
    assert min(bottom for _, bottom in corners) == pytest.approx(0, abs=1e-9)
    for (x, y), title in zip(axes, figure.layout.annotations[:count], strict=True):
        assert (title.x, title.y) == pytest.approx((sum(x.domain) / 2, y.domain[1]))


@pytest.mark.parametrize("name", [figure.name for figure in supported(TRACES)])
def test_on_a_phone_panels_stand_below_one_another_and_words_fit(name: str) -> None:
    drawn = FIGURES[name].draw(TRACES)
    before = drawn.to_json()
    slim = narrowed(drawn)
    assert drawn.to_json() == before  # what is exported stays as it was
    assert len({tuple(x.domain) for x, _ in panels(slim)}) <= 1
    assert slim.layout.width is None and slim.layout.title.text is None
    words = [axis.title.text or "" for axis in (*slim.select_xaxes(), *slim.select_yaxes())]
    words += [note.text or "" for note in slim.layout.annotations if note.yref == "paper"]
    assert all(len(line) <= ACROSS for text in words for line in text.split("<br>"))
    assert not any("+text" in (getattr(trace, "mode", None) or "") for trace in slim.data)
