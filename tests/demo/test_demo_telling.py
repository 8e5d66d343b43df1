"""What the page says of a run: names, times measured once, and drafts that did not arise."""

from dataclasses import replace

import gradio as gr
import pytest
from support import handmade
from support.raster import decoded

from demo.pages.watch import EXAMPLES
from demo.panels.start_stop import StartStop
from demo.runs.outcome import outcome
from demo.server.sessions import Shown, Visitors
from demo.site import Site
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model
from engines.runtime.driver import Job, Run
from traces.schema import Trace


def facts(*traces: Trace) -> dict[str, tuple[str, str]]:
    return {fact.label: (fact.figure, fact.note) for fact in outcome(traces)}


def test_acceptance_without_drafts_and_times_that_were_measured_once_say_so() -> None:
    """Of four example prompts three brought forth no draft, and the page said that PSD makes none."""
    undrafted = replace(handmade.ar(), method="psd")
    assert facts(undrafted)["Acceptance"] == ("none judged", "no draft was put to the test in this run")
    assert facts(decoded("ar"))["Acceptance"] == ("none judged", "ordinary decoding makes no drafts")
    base, made = decoded("ar"), decoded("scd")
    base = replace(base, summary=replace(base.summary, seconds=1.234))
    made = replace(made, summary=replace(made.summary, seconds=12.34))
    assert facts(base)["Decoding time"] == ("1.2 s", "one run on this machine")
    figure, note = facts(base, made)["Decoding time"]
    assert figure == "12 s"
    assert note == "10.0 × slower; ordinary: 1.2 s; one run of each on this machine"


@pytest.mark.slow
@pytest.mark.parametrize("prompt", EXAMPLES[MODELS["text-target"].default_prompt])
def test_every_example_makes_psd_draft_as_the_page_runs_it(prompt: str) -> None:
    method, model = METHODS["psd"], load_model("text-target")
    made = {}
    for name in ("psd", "blockwise"):
        config = METHODS[name].config(block=method.config().block)
        running = Run(Job(METHODS[name], model, prompt, config))
        for _ in running:
            pass
        made[name] = running.trace().summary
    assert made["psd"].judged > 0
    assert made["psd"].forwards < made["blockwise"].forwards


def test_a_drafter_is_counted_apart_and_whether_it_pays_is_said() -> None:
    made = handmade.cspd()
    target = sum(step.call.role == "target" for step in made.steps)
    drafted = len(made.steps) - target
    assert drafted
    base = replace(made, summary=replace(made.summary, forwards=4 * target, seconds=2 * made.summary.seconds))
    said = outcome([base, made])
    assert [fact.label for fact in said][:2] == ["Target passes", "Decoding time"]
    assert said[0].figure == str(target)
    assert said[0].note == f"4.00 × fewer; ordinary: {4 * target}; and {drafted} of the drafter"
    assert said[1].note.endswith("where drafting pays")
    slow = replace(base, summary=replace(base.summary, seconds=made.summary.seconds / 2))
    assert outcome([slow, made])[1].note.endswith("where drafting does not pay")


def test_stop_is_there_while_something_is_under_way() -> None:
    with gr.Blocks():
        site, box = Site(Visitors(), gr.State(Shown()), gr.Textbox("", visible=False)), gr.HTML()
        buttons = StartStop(site, "go", "halt", "Go")
        buttons.connect("run", lambda values, request: iter(()), set(), [box], box)
    request = gr.Request(session_hash="mine")
    visitor = site.visitor(request)
    for _ in range(2):  # what was asked of the first one does not stop the second
        begun = buttons.begin(request)
        assert not begun[buttons.start]["interactive"] and begun[buttons.stop]["visible"] and not visitor.stopped()
        assert "where another run is under way" in begun[box]["text"]  # nobody is told to wait who is alone
        buttons.ask_to_stop(request)
        assert visitor.stopped()
    settled = buttons.settle()
    assert settled[buttons.start]["interactive"] and not settled[buttons.stop]["visible"]
