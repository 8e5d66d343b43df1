"""A method added by one line of the registry: the page shows it before it has a documentation page."""

import importlib.util
from types import ModuleType

import gradio as gr
import pytest

from benchmarks._toy_runs import MODEL
from draftscope.demo.components import method_docs as methods_panel
from draftscope.demo.components.method_docs import described
from draftscope.demo.components.settings_form import settings_for
from draftscope.demo.jobs.live_run import LiveRuns
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces import check
from draftscope.traces.files import ROOT
from draftscope.visualizers import supported

QUESTION = "Maya has 3 boxes with 4 pens in each box. How many pens does Maya have?"
EXAMPLE = ROOT / "docs" / "examples" / "prompt_lookup.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prompt_lookup", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_runs_live_and_has_figures(example: ModuleType) -> None:
    race = LiveRuns([RunRequest(example.METHOD, MODEL, "", seed=1, settings={"match": 1}).job()])
    assert sum(1 for _ in race.passes()) < 256
    trace = race.runs[0].trace()
    check(trace)
    assert (trace.summary.accepted or 0) > 0
    drawn = [figure.name for figure in supported([trace])]
    assert {"canvas", "acceptance", "churn"} <= set(drawn)


@pytest.mark.slow
def test_the_example_ends_a_text_where_it_ends(example: ModuleType) -> None:
    settings = {"top_k": 1, "length": 64}
    lookup, ordinary = (
        finish(RunRequest(method, "text-target", QUESTION, settings=settings).job())
        for method in (example.METHOD, "ar")
    )
    assert lookup.output.text == ordinary.output.text
    assert lookup.summary.tokens == ordinary.summary.tokens < 64
    assert sum(token is not None for token in lookup.output.tokens) == lookup.summary.tokens


def test_the_registry_describes_a_method_without_prose(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Drafts are copied from the text itself." in described(example.METHOD)
    assert [setting.name for setting in settings_for(example.METHOD)] == ["match", "drafts"]
    monkeypatch.setitem(METHODS, "prompt-lookup", example.METHOD)
    with gr.Blocks(analytics_enabled=False) as page:
        methods_panel.build()
    assert METHODS.keys() - {"prompt-lookup"} == {name for _, names, _ in methods_panel.PAPERS for name in names}
    assert f"Prompt lookup: {example.METHOD.summary}" in [getattr(one, "label", "") for one in page.blocks.values()]
    tables = [one.value for one in page.blocks.values() if isinstance(one, gr.HTML) and isinstance(one.value, list)]
    shown = {title for pairs in tables for title, _ in pairs}
    assert shown == {one.title for name in METHODS for one in methods_panel.measured(name)} | {
        "Each with what was found here"
    }
