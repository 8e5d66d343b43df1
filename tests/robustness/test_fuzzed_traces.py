"""Traces of strangers never crash or stall what reads, replays, measures and draws them, and none runs as script."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robustness.strategies import MARK, TEXTS, as_json, changed, documents, examples, one_line, texts, within
from support.hostile import hostile

from draftscope.analysis import acceptance as places
from draftscope.analysis import block_stats as text_stats
from draftscope.analysis import prediction as foresight
from draftscope.analysis import stats as run_stats
from draftscope.analysis.run_report import report_messages
from draftscope.analysis.summary_text import summary_text
from draftscope.demo.pages.api import validate
from draftscope.trace import displayable
from draftscope.traces import Trace, TraceError, dumps, loads, read, replay, stats, summarise
from draftscope.traces.files import ROOT
from draftscope.traces.limits import CALL_COUNT, MAX_INT, MEASURE, MILLISECONDS
from draftscope.visualizers import supported
from draftscope.visualizers.figure_page import section
from draftscope.visualizers.player_page import standalone

pytestmark = pytest.mark.filterwarnings("ignore::traces.TraceWarning", "ignore::hypothesis.errors.HypothesisWarning")
FILES = sorted((ROOT / "assets" / "traces").glob("*.json.gz"))
COLUMNS = ("p", "q", "accept_prob", "coin", "top", "likely", "paths", "graph", "mask", "signals")
"""Without `row`, which says apart what two sequences have at one position: such a trace is refused."""
PAGE_SECONDS = 30.0
"""Processor seconds for a page with every figure."""
_DATA: Final = "application/json"
"""Scripts of this type are data, which no browser runs."""
_RUNS: Final = ("href", "xlink:href", "src", "action", "formaction", "data", "style")


class ScriptFound(AssertionError):
    """Text of a trace that a browser would run."""


class _Reader(HTMLParser):
    """Reads a page as a browser does, and raises if the mark is in executable content."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._runs = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._runs = tag == "style" or (tag == "script" and attributes.get("type") != _DATA)
        for name, value in attributes.items():
            if name == "srcdoc":
                check_page(value)
            elif MARK in name or (MARK in value and (name.startswith("on") or name in _RUNS)):
                raise ScriptFound(f"<{tag} {name}={value[:80]!r}>")
        if MARK in tag:
            raise ScriptFound(f"<{tag[:80]}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._runs = False

    def handle_endtag(self, tag: str) -> None:
        self._runs = False

    def handle_data(self, data: str) -> None:
        if self._runs and MARK in data:
            raise ScriptFound(f"script: {data[max(0, data.index(MARK) - 80) :][:160]!r}")


def check_page(page: str) -> None:
    """Raise `ScriptFound` unless the mark is in text and data alone."""
    reader = _Reader()
    reader.feed(page)
    reader.close()


def cut(trace: Trace, steps: int) -> Trace:
    """The run as far as its first passes went."""
    steps_left = trace.steps[:steps]
    end = replay.replay_steps(steps_left, replay.canvas_size(trace.canvas))
    tokens = tuple(token if final else None for token, final in zip(end.tokens, end.final, strict=True))
    return replace(
        trace,
        steps=steps_left,
        output=replace(trace.output, tokens=tokens, image=None, video=(), given=None),
        legend=replace(trace.legend, frames=(), patches=None),
        summary=summarise(steps_left, len(tokens), all(end.final), trace.legend.ends),
    )


@cache
def short(path: Path) -> Trace:
    """A recorded run cut to a size that can be changed thousands of times."""
    trace = read(path)
    return next((one for steps in (6, 3) if len(dumps(one := cut(trace, steps))) <= 60_000), cut(trace, 1))


@cache
def document(path: Path) -> Any:
    return json.loads(dumps(short(path)))


@pytest.fixture(scope="module", autouse=True)
def _documents() -> None:
    """Read all before anything is drawn: Hypothesis wants its draws to be the same every time."""
    for path in FILES:
        document(path)


runs = st.sampled_from(FILES)
files = runs.flatmap(lambda path: documents(document(path)))


@st.composite
def changed_traces(draw: st.DrawFn) -> Trace | None:
    """Return a changed trace that is accepted nevertheless; None if it is not."""
    try:
        return loads(as_json(draw(changed(document(draw(runs))))))
    except TraceError:
        return None


@st.composite
def twisted(draw: st.DrawFn) -> Trace:
    """A run that stays sound, as far as one can know: a stranger's words, or numbers at the edge of what may be."""
    document = json.loads(dumps(hostile(short(draw(runs)), draw(texts))))
    del document["summary"]  # it follows from the steps
    for twist in draw(
        st.lists(st.sampled_from(("costs", "fewer", "idle", "shape", "empty", "words", "rules")), unique=True)
    ):
        if twist == "costs":
            size = draw(st.sampled_from((1e-300, 1e-9, 1e6, float(MILLISECONDS))))
            times = dict.fromkeys(("prepare", "forward", "logits", "decide"), size)
            for step in document["steps"]:
                step["call"] |= {"query_tokens": CALL_COUNT, "batch": CALL_COUNT, "milliseconds": times}
                step["signals"] = step.get("signals", {}) | {"x_a": -MEASURE}
        elif twist == "fewer":
            removed = draw(st.lists(st.sampled_from(COLUMNS), min_size=1))
            document["steps"] = [
                {name: step[name] for name in step if name not in removed} for step in document["steps"]
            ]
        elif twist == "idle":
            idle = {"call": {"role": "self", "mode": "idle", "query_tokens": 0}}
            document["steps"] += [idle] * draw(st.sampled_from((1, 40, 400)))
        elif twist == "shape":
            size = replay.canvas_size(loads(as_json(document)).canvas)
            shapes = (("text", [size]), ("image", [1, size]), ("image", [size, 1]), ("video", [size, 1, 1]))
            kind, extents = draw(st.sampled_from(shapes))
            order = {"order": draw(st.permutations(range(size)))} if draw(st.booleans()) else {}
            document["canvas"] = {"kind": kind, "shape": extents, **order}
            document.get("legend", {}).pop("tiles", None)
            document["output"].pop("text", None)
        elif twist == "empty":  # stopped before it began
            document |= {"steps": [], "output": {"tokens": [None] * len(document["output"].get("tokens", ()))}}
        elif twist == "words":
            document["seed"] = draw(st.sampled_from((None, 0, -1, MAX_INT, -MAX_INT - 1)))
            document |= {"version": "1.999999999", draw(st.sampled_from(TEXTS)): [draw(texts)]}
        else:
            formula = draw(st.sampled_from(("{p} {p ? q} {q}", "{coin} is drawn")))
            document["rules"] = [{"fates": ["accepted", "resampled"], "formula": formula, "says": draw(texts)}]
    return loads(as_json(document))


def everything(trace: Trace) -> None:
    """Replay a trace, compute and draw all there is, and check page and notebook output."""
    steps, size = trace.steps, replay.canvas_size(trace.canvas)
    assert len(list(replay.canvas_states(trace))) == len(steps) + 1
    assert len(replay.state_after(trace, len(steps)).tokens) == size
    repr(trace)
    summary_text(trace)
    stats.summarise(steps, size, trace.summary.complete, trace.legend.ends)
    uses: tuple[Callable[[Any], object], ...] = (
        *(
            stats.cost_by_role,
            stats.cost_by_mode,
            run_stats.latency_breakdown,
            run_stats.progress_curve,
            run_stats.token_difference,
        ),
        *(run_stats.agreement_by_age, foresight.forecasts, text_stats.router_decisions, text_stats.decoded_by_step),
    )
    for compute in uses:
        compute(steps)
    run_stats.acceptance_by_position(steps, size)
    report_messages([trace, trace])
    for gather in (
        places.acceptance_by_draft_position,
        text_stats.by_draft_step,
        text_stats.estimator_errors,
        foresight.contributions,
    ):
        gather([steps])
    check_page(standalone([trace], trace.prompt, after=section(supported([trace]), [trace])))
    notebook = displayable(trace)
    check_page(notebook._repr_html_())
    notebook.to_columns()


@pytest.mark.slow
@examples(60, 10_000)
@given(files)
def test_a_changed_trace_is_read_or_refused_in_a_line(data: bytes) -> None:
    with within(5.0):
        try:
            loads(data, name="file")
        except TraceError as error:
            one_line(error)


@pytest.mark.slow
@examples(10, 1000)
@given(st.none() | files)
def test_the_check_of_traces_answers_whatever_it_is_sent(data: bytes | None) -> None:
    with within(5.0):
        json.dumps(validate(data))


@pytest.mark.slow
@examples(6, 200)
@given(twisted() | changed_traces())
def test_all_that_is_drawn_of_an_accepted_trace_is_no_script(trace: Trace | None) -> None:
    with within(PAGE_SECONDS):
        if trace:
            everything(trace)


@pytest.mark.parametrize(
    "page",
    [
        f"<script>x = '{MARK}'</script>",
        f"<p onclick='{MARK}'>",
        f"<a href='javascript:{MARK}'>",
        f"<{MARK}>",
        f'<iframe srcdoc="&lt;script&gt;{MARK}&lt;/script&gt;"></iframe>',
    ],
)
def test_script_is_found_and_text_and_data_are_none(page: str) -> None:
    with pytest.raises(ScriptFound):
        check_page(page)
    check_page(f'<p title="{MARK}">{MARK}</p><script type="application/json">["{MARK}"]</script><p>{MARK}</p>')
