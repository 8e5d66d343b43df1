"""Traces of strangers never crash or stall what reads, replays, measures and draws them, and none runs as script."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robustness.strategies import TEXTS, as_json, changed, documents, examples, texts, within
from support.browser import chromium
from support.hostile import hostile
from support.script import MARK, ScriptFound, check_page, check_svg

from demo.pages.api import validate
from draftscope.trace import displayable
from traces import Trace, TraceError, dumps, foresight, loads, places, read, replay, stats, summarise, text_stats
from traces.describe import at_a_glance
from traces.limits import CALL_COUNT, MEASURE, MILLISECONDS, WHOLE
from visualizers import FIGURES, supported
from visualizers.export import Print, printed
from visualizers.page import standalone
from visualizers.sheet import section

pytestmark = pytest.mark.filterwarnings("ignore::traces.TraceWarning", "ignore::hypothesis.errors.HypothesisWarning")
FILES = sorted((Path(__file__).parents[2] / "assets" / "traces").glob("*.json.gz"))
COLUMNS = ("p", "q", "accept_prob", "coin", "top", "likely", "row", "paths", "graph", "mask", "signals")
PAGE_SECONDS = 30.0
"""Of the processor, for a page with every figure."""


def cut(trace: Trace, steps: int) -> Trace:
    """The run as far as its first passes went."""
    kept = trace.steps[:steps]
    end = replay.replayed(kept, replay.canvas_size(trace.canvas))
    tokens = tuple(token if final else None for token, final in zip(end.tokens, end.final, strict=True))
    return replace(
        trace,
        steps=kept,
        output=replace(trace.output, tokens=tokens, image=None, video=(), given=None),
        legend=replace(trace.legend, frames=(), patches=None),
        summary=summarise(kept, len(tokens), all(end.final), trace.legend.ends),
    )


@cache
def short(path: Path) -> Trace:
    """A recorded run cut to a size that can be changed thousands of times."""
    whole = read(path)
    return next((one for steps in (6, 3) if len(dumps(one := cut(whole, steps))) <= 60_000), cut(whole, 1))


@cache
def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dumps(short(path)))
    return found


@pytest.fixture(scope="module", autouse=True)
def _documents() -> None:
    """Read all before anything is drawn: Hypothesis wants its draws to be the same every time."""
    for path in FILES:
        document(path)


runs = st.sampled_from(FILES)
files = runs.flatmap(lambda path: documents(document(path)))


@st.composite
def changed_traces(draw: st.DrawFn) -> Trace | None:
    """A changed trace that is accepted all the same; None where it is not."""
    try:
        return loads(as_json(draw(changed(document(draw(runs))))))
    except TraceError:
        return None


@st.composite
def twisted(draw: st.DrawFn) -> Trace:
    """A run that stays sound, as far as one can know: a stranger's words, or a number at the edge of what may be."""
    made = json.loads(dumps(hostile(short(draw(runs)), draw(texts))))
    del made["summary"]  # it follows from the steps
    for twist in draw(st.lists(st.sampled_from((costs, fewer, idle, shape, empty, words, rules)), max_size=3)):
        twist(made, draw)
    return loads(as_json(made))


def costs(made: dict[str, Any], draw: st.DrawFn) -> None:
    """Times and counts at the edge."""
    for step in made["steps"]:
        size = draw(st.sampled_from((1e-300, 1e-9, 1e6, float(MILLISECONDS))))
        step["call"]["milliseconds"] = dict.fromkeys(("prepare", "forward", "logits", "decide"), size)
        step["call"] |= {"query_tokens": draw(st.sampled_from((0, 1, CALL_COUNT))), "batch": CALL_COUNT}
        step["signals"] = step.get("signals", {}) | {"x_a": draw(st.sampled_from((-MEASURE, 1e-300)))}


def fewer(made: dict[str, Any], draw: st.DrawFn) -> None:
    """Without some columns."""
    for name in draw(st.sets(st.sampled_from(COLUMNS), min_size=1)):
        for step in made["steps"]:
            step.pop(name, None)


def idle(made: dict[str, Any], draw: st.DrawFn) -> None:
    """Passes that did nothing."""
    count = draw(st.sampled_from((1, 40, 400)))
    made["steps"] += [{"call": {"role": "self", "mode": "idle", "query_tokens": 0}}] * count


def shape(made: dict[str, Any], draw: st.DrawFn) -> None:
    """Another canvas of as many positions."""
    size = replay.canvas_size(loads(as_json(made)).canvas)
    kinds = (
        ("text", [size]),
        ("image", [1, size]),
        ("image", [size, 1]),
        ("video", [1, 1, size]),
        ("video", [size, 1, 1]),
    )
    kind, extents = draw(st.sampled_from(kinds))
    made["canvas"] = {"kind": kind, "shape": extents}
    if draw(st.booleans()):
        made["canvas"]["order"] = draw(st.permutations(range(size)))
    made.get("legend", {}).pop("tiles", None)
    made["output"].pop("text", None)


def empty(made: dict[str, Any], draw: st.DrawFn) -> None:
    """A run that was stopped before it began."""
    made |= {"steps": [], "output": {"tokens": [None] * len(made["output"].get("tokens", ()))}}


def words(made: dict[str, Any], draw: st.DrawFn) -> None:
    """Seeds, dates, versions, and fields of later versions."""
    made["seed"] = draw(st.sampled_from((None, 0, -1, WHOLE, -WHOLE - 1)))
    made["created"] = draw(st.sampled_from(("0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00")))
    made["version"] = "1.999999999"
    made[draw(st.sampled_from(TEXTS))] = [draw(texts)]


def rules(made: dict[str, Any], draw: st.DrawFn) -> None:
    """How verdicts come about, in a stranger's words."""
    formula = draw(st.sampled_from(("{p} {p ? q} {q}", "{coin} is drawn")))
    made["rules"] = [{"fates": ["accepted", "resampled"], "formula": formula, "says": draw(texts)}]


def everything(trace: Trace) -> str:
    """Replay a trace, compute and draw all there is, and check page and notebook output; the page comes back."""
    steps, size = trace.steps, replay.canvas_size(trace.canvas)
    assert len(list(replay.states(trace))) == len(steps) + 1
    assert len(replay.state_after(trace, len(steps)).tokens) == size
    repr(trace)
    at_a_glance(trace)
    stats.summarise(steps, size, trace.summary.complete, trace.legend.ends)
    every: tuple[Callable[[Any], object], ...] = (
        *(stats.cost_by_role, stats.cost_by_mode, stats.latency_breakdown, stats.race, stats.token_difference),
        *(stats.agreement_by_age, foresight.forecasts, text_stats.decisions, text_stats.decoded_by_step),
        text_stats.verifications,
    )
    for compute in every:
        compute(steps)
    stats.acceptance_by_position(steps, size)
    stats.compare([trace, trace])
    for gather in (places.by_place, text_stats.by_draft_step, text_stats.estimator_errors, foresight.contributions):
        gather([steps])
    page = standalone([trace], trace.prompt, after=section(supported([trace]), [trace]))
    check_page(page)
    notebook = displayable(trace)
    check_page(notebook._repr_html_())
    notebook.columns()
    return page


@examples(60, 10_000)
@given(files)
def test_a_changed_trace_is_read_or_refused_in_a_line(data: bytes) -> None:
    with within(1.0):
        try:
            loads(data, name="file")
        except TraceError as error:
            assert str(error).strip() and "\n" not in str(error)


@examples(10, 1000)
@given(st.none() | files)
def test_the_check_of_traces_answers_whatever_it_is_sent(data: bytes | None) -> None:
    with within(1.0):
        json.dumps(validate(data))


@pytest.mark.slow
@examples(6, 200)
@given(twisted() | changed_traces())
def test_all_that_is_drawn_of_an_accepted_trace_is_no_script(trace: Trace | None) -> None:
    with within(PAGE_SECONDS):
        if trace:
            everything(trace)


@pytest.mark.slow
@pytest.mark.browser
@examples(2, 12)
@given(trace=twisted(), chance=st.randoms(use_true_random=False))
def test_a_browser_runs_no_text_of_a_trace(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, chance: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("opened")
    (folder / "page.html").write_text(everything(trace), encoding="utf-8")
    drawable = [figure for figure in FIGURES.values() if figure.supports([trace]) is None]
    if drawable:
        figure = chance.choice(drawable)
        (svg,) = printed([Print(figure.draw([trace]), "svg", figure.width([trace]))])
        check_svg(svg)
        (folder / "figure.svg").write_bytes(svg)
    with chromium() as browser:
        for file in folder.iterdir():
            page = browser.new_page()
            page.goto(file.as_uri(), wait_until="load", timeout=120_000)
            page.wait_for_timeout(300)
            assert page.evaluate(f"typeof globalThis.{MARK}") == "undefined", file.name
            assert page.locator("[src=x]").count() == 0, file.name


@pytest.mark.slow
def test_a_video_of_many_frames_is_drawn_without_a_panel_for_each() -> None:
    made = document(next(path for path in FILES if short(path).method == "scd" and short(path).canvas.kind == "image"))
    size = made["canvas"]["shape"][0] * made["canvas"]["shape"][1]
    everything(loads(as_json(made | {"canvas": {"kind": "video", "shape": [size, 1, 1]}, "legend": {}})))


@pytest.mark.parametrize(
    "page",
    [
        f"<script>x = '{MARK}'</script>",
        f"<p onclick='{MARK}'>",
        f"<a href='javascript:{MARK}'>",
        f"<p {MARK}=1>",
        f"<{MARK}>",
        f"<style>a {{ background: url({MARK}) }}</style>",
        f'<iframe srcdoc="&lt;script&gt;{MARK}&lt;/script&gt;"></iframe>',
    ],
)
def test_script_in_a_page_is_found(page: str) -> None:
    with pytest.raises(ScriptFound):
        check_page(page)


def test_text_and_data_are_no_script() -> None:
    check_page(f'<p title="{MARK}">{MARK}</p><script type="application/json">["{MARK}"]</script><p>{MARK}</p>')
    check_svg(f"<svg><text>{MARK}</text></svg>".encode())
    for svg in (f"<svg onload='{MARK}'/>", f"<svg><a href='{MARK}'/></svg>", "<svg><script/></svg>"):
        with pytest.raises(ScriptFound):
            check_svg(svg.encode())
