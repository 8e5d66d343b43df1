"""Texts of the page about a run and itself: names, times measured once, whether drafting pays, and prose."""

import asyncio
import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import gradio as gr
import pytest
import torch
from support import handmade
from support.handmade import make, step

from benchmarks._toy_runs import decode_toy_raster
from draftscope.analysis.break_even import acceptance_for, break_even_analysis
from draftscope.analysis.explain import explain_speed, run_metrics
from draftscope.analysis.run_report import times
from draftscope.analysis.shipped_results import measured
from draftscope.cli.main import main
from draftscope.demo.app import build
from draftscope.demo.components.context import Site, Update
from draftscope.demo.components.method_docs import method_text
from draftscope.demo.components.run_buttons import StartStop
from draftscope.demo.jobs.recordings import FOLDER, listed, record, recordings
from draftscope.demo.pages.watch import EXAMPLES
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.runtime.driver import Job, Run
from draftscope.engines.runtime.environment import device_name
from draftscope.engines.settings import make_config
from draftscope.traces import read, write
from draftscope.traces.schema import Canvas, Milliseconds, Step, Trace
from draftscope.traces.version import __version__
from draftscope.visualizers.export_zip.words import command


def facts(*traces: Trace) -> dict[str, tuple[str, str]]:
    return {fact.label: (fact.figure, fact.note) for fact in run_metrics(traces)}


def test_acceptance_without_drafts_and_times_that_were_measured_once_say_so() -> None:
    """Regression: of four example prompts three led to no draft, and the page stated that PSD makes none."""
    undrafted = replace(handmade.ar(), method="psd")
    assert facts(undrafted)["Acceptance"] == ("none judged", "no draft was verified in this run")
    assert facts(decode_toy_raster("ar"))["Acceptance"] == ("none judged", "the baseline makes no drafts")
    base, accelerated = decode_toy_raster("ar"), decode_toy_raster("scd")
    base = replace(base, summary=replace(base.summary, seconds=1.234))
    accelerated = replace(accelerated, summary=replace(accelerated.summary, seconds=12.34))
    assert facts(base)["Decoding time"] == ("1.2 s", "one run on this machine")
    figure, note = facts(base, accelerated)["Decoding time"]
    assert figure == "12 s"
    assert note == "0.10 times as fast per token; ordinary: 1.2 s; one run of each on this machine"


@pytest.mark.slow
@pytest.mark.parametrize("prompt", EXAMPLES[MODELS["text-target"].default_prompt])
def test_every_example_makes_psd_draft_as_the_page_runs_it(prompt: str) -> None:
    method, model = METHODS["psd"], load_model("text-target")
    traces = {}
    for name in ("psd", "blockwise"):
        config = METHODS[name].config(block=method.config().block)
        running = Run(Job(METHODS[name], model, prompt, config))
        for _ in running:
            pass
        traces[name] = running.trace().summary
    assert traces["psd"].judged > 0
    assert traces["psd"].forwards < traces["blockwise"].forwards


def test_a_drafter_is_counted_apart_and_whether_it_pays_is_said() -> None:
    trace = handmade.cspd()
    target = sum(step.call.role == "target" for step in trace.steps)
    drafted = len(trace.steps) - target
    assert drafted
    base = replace(trace, summary=replace(trace.summary, forwards=4 * target, seconds=2 * trace.summary.seconds))
    metrics = run_metrics([base, trace])
    assert [fact.label for fact in metrics][:2] == ["Target passes", "Decoding time"]
    assert metrics[0].figure == str(target)
    tokens = trace.summary.tokens
    ordinary = 4 * target - drafted
    assert metrics[0].note == f"for {tokens} tokens; ordinary: {ordinary}; and {drafted} of the drafter"
    assert metrics[1].note.startswith("2.0 times as fast per token")
    assert metrics[2].note.startswith(f"ordinary: {tokens / ordinary:.2f}; ")
    slow = replace(base, summary=replace(base.summary, seconds=trace.summary.seconds / 2))
    assert run_metrics([slow, trace])[1].note.startswith("0.50 times as fast per token")


def test_stop_is_there_while_something_is_under_way() -> None:
    with gr.Blocks() as page:
        site, box, many = (
            Site(Visitors(), gr.State(CurrentTraces()), gr.Textbox("", visible=False)),
            gr.HTML(),
            gr.Number(),
        )
        buttons = StartStop(site, "go", "halt", "Go")
        buttons.form = [many]
        buttons.connect("run", lambda values, request: iter([{box: values[many]}]), set(), [box], box)
    press, done, _, settle = page.fns.values()
    assert '"interactive": false' in press.js and press.fn is None
    assert "while another run is in progress" in press.js  # a single user is not asked to wait
    assert json.loads(settle.js.removeprefix("() => ")) == [gr.update(interactive=True), gr.update(visible=False)]
    request = gr.Request(session_hash="mine")

    async def run_once(sent: object) -> list[Update]:
        return [update async for update in done.fn({buttons.sent: sent}, request)]

    for _ in range(2):  # what was asked of the first one does not stop the second
        shown = {buttons.stop: gr.update(visible=True)}
        assert asyncio.run(run_once([3])) == [shown, {**shown, box: 3}]
        buttons.site.request_stop(request)
        assert site.visitor(request).stopped()
    for wrong in (None, [], [1, 2], {"0": 1}, "x"):
        assert "values are missing; reload the page" in asyncio.run(run_once(wrong))[-1][box]["text"]


SIX = Canvas(kind="text", shape=(6,))


def taking(milliseconds: float, template: Step) -> Step:
    return replace(template, call=replace(template.call, milliseconds=Milliseconds(forward=milliseconds)))


def ordinary() -> Trace:
    return make("ar", SIX, [taking(10, step(f"{position}:1=sampled")) for position in range(6)])


def drafted(cost: float = 3) -> Trace:
    """Two drafts of 3 ms, verified in 20 ms, twice: of four verified drafts three are accepted."""
    draft = [taking(cost, step(f"{position}:1=drafted", role="draft")) for position in (0, 1, 3, 4)]
    checks = [
        taking(20, step("0:1=accepted 1:1=accepted 2:1=bonus", query_tokens=3)),
        taking(20, step("3:1=accepted 4:2=resampled 5:1=bonus", query_tokens=3)),
    ]
    return make("speculative", SIX, [*draft[:2], checks[0], *draft[2:], checks[1]])


def test_costs_are_in_ordinary_passes_and_add_up_to_the_speed() -> None:
    costs = break_even_analysis(drafted(), ordinary())
    assert (costs.verifying, costs.draft_cost, costs.draft_passes) == pytest.approx((2.0, 0.3, 2.0))
    assert (costs.tokens_per_target_pass, costs.break_even_tokens) == pytest.approx((3.0, 2.6))
    assert costs.speed == pytest.approx(60 / 52)  # 6 x 10 ms against 4 x 3 + 2 x 20
    assert (costs.drafts, costs.acceptance) == (2.0, 0.75)
    assert costs.with_free_drafts == pytest.approx(1.5)
    assert costs.with_cheap_verification == pytest.approx(3 / 1.6)
    assert 1 + costs.break_even + costs.break_even**2 == pytest.approx(2.6)
    assert acceptance_for(3.01, 2) is None
    assert acceptance_for(3, 2) == pytest.approx(1)
    assert acceptance_for(1, 2) == pytest.approx(0, abs=1e-9)
    costs = break_even_analysis(drafted(cost=8), ordinary())
    assert costs is not None and costs.break_even is None and costs.speed < 1


def test_the_reasons_are_told_in_words() -> None:
    reasons = explain_speed([ordinary(), drafted()])
    assert reasons["In all"].startswith("1.2 times as fast as ordinary decoding")
    assert reasons["Verification"] == (
        "a pass of the target looks at 3.0 tokens instead of 1.0 and costs 2.00 ordinary passes: 0.67 for each token."
    )
    assert reasons["Drafts"].startswith("2.0 passes of the drafter for every target pass, 0.30 of an ordinary pass")
    assert reasons["Tokens"] == "3.00 for every target pass; 75% of verified drafts were accepted."
    assert "takes an acceptance of about 86%" in reasons["To break even"]
    assert (
        reasons["What would help most"]
        == "it would be 1.88 times as fast if verification cost no more than an ordinary pass."
    )
    slow = explain_speed([ordinary(), drafted(cost=8)])
    assert "with 2.0 drafts a verification no acceptance is enough" in slow["To break even"]


def test_what_cannot_be_compared_is_said() -> None:
    assert explain_speed([]) == {}
    assert "did not run as well" in explain_speed([drafted()])[""]
    part = make("ar", SIX, ordinary().steps[:3])
    assert break_even_analysis(drafted(), part) is None
    untimed = make("ar", SIX, [taking(0, one) for one in ordinary().steps])
    assert "not timed" in explain_speed([untimed, drafted()])[""]


def test_the_outcome_says_what_the_summaries_say() -> None:
    ordinary, coupled = decode_toy_raster("ar"), decode_toy_raster("scd", window=16)
    passes, time, rate, acceptance, output = run_metrics([ordinary, coupled])
    assert passes.figure == str(coupled.summary.forwards)
    assert passes.note == f"for 256 tokens; ordinary: {ordinary.summary.forwards}"
    assert (output.figure, output.note) == ("Exact", "same distribution, another draw")
    assert time.figure == f"{coupled.summary.seconds:.2g} s"
    ratio = ordinary.summary.seconds / coupled.summary.seconds
    assert time.note.startswith(f"{times(ratio)} times as fast per token")
    assert rate.figure == f"{coupled.summary.tokens_per_forward:.2f}"
    summary = coupled.summary
    assert summary.drafts and summary.drafts > summary.judged
    assert acceptance.note == (
        f"{summary.accepted} of {summary.judged} judged drafts; "
        f"{summary.accepted / summary.drafts:.0%} of {summary.drafts} that "
        "passes evaluated"
    )


def test_the_command_repeats_the_run_and_nothing_in_a_trace_breaks_out_of_it(tmp_path: Path) -> None:
    trace = decode_toy_raster("scd", seed=7, window=16, coupling="gumbel")
    words = shlex.split(command(trace))
    assert words[:2] == ["draftscope", "run"]
    target = tmp_path / "again.json.gz"
    assert main([*words[1:-1], str(target)]) == 0
    assert read(target).output == trace.output
    trace = replace(decode_toy_raster("ar"), prompt="a; rm -rf '~'", method="ar; rm -rf ~")
    words = shlex.split(command(replace(trace, model=replace(trace.model, id="$(reboot)"))), posix=True)
    assert words[2:5] == ["ar; rm -rf ~", "--model", "$(reboot)"] and words[-1] == "ar; rm -rf ~.json.gz"
    assert "a; rm -rf '~'" in words


def test_a_baseline_from_before_there_was_a_setting_is_one_still(tmp_path: Path) -> None:
    ordinary = decode_toy_raster("ar")
    older = {name: value for name, value in ordinary.config.items() if name != "top_p"}
    assert len(older) < len(ordinary.config)
    write(replace(ordinary, config=older), tmp_path / "ar.json.gz")
    write(decode_toy_raster("scd", window=16), tmp_path / "scd.json.gz")
    (entry,) = recordings(tmp_path)
    assert [trace.method for trace in entry.traces] == ["ar", "scd"]
    write(decode_toy_raster("scd", seed=2, window=16), tmp_path / "scd.json.gz")  # of another seed, it stands alone
    assert [len(entry.paths) for entry in recordings(tmp_path)] == [1, 1]


def test_the_list_names_and_orders_recordings(tmp_path: Path) -> None:
    listed: list[dict[str, object]] = [
        {"file": "z.json.gz", "method": "scd", "model": "toy-raster", "title": "First", "about": "Look here.",
         "settings": {"window": 16}},
        {"file": "a.json.gz", "method": "ar", "model": "toy-raster", "seed": 5},
    ]  # fmt: skip
    (tmp_path / "gallery.json").write_text(json.dumps(listed))
    for entry in listed:
        record(entry, tmp_path)
    write(decode_toy_raster("gsd", window=16), tmp_path / "0-unlisted.json.gz")
    first, second, third = recordings(tmp_path)
    assert (first.title, first.about, first.method) == ("First", "Look here.", "scd")
    assert first.traces[0].config["window"] == 16
    assert (second.method, third.method, third.traces[0].seed) == ("gsd", "ar", 5)


def test_a_recording_is_made_anew_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("draftscope.demo.jobs.recordings.FOLDER", tmp_path)
    entries = [{"file": f"{name}.json.gz", "method": "ar", "model": "toy-raster"} for name in ("one", "two")]
    (tmp_path / "gallery.json").write_text(json.dumps(entries))
    assert main(["dev", "record", "two.json.gz"]) == 0
    assert [path.name for path in tmp_path.glob("*.gz")] == ["two.json.gz"]
    assert main(["dev", "record", "none-such.json.gz"]) == 2
    assert "FILE: 'none-such.json.gz' is not in gallery.json; use one.json.gz, " in capsys.readouterr().err


@pytest.mark.slow
def test_what_the_gallery_lists_is_there_and_as_listed() -> None:
    for entry in listed(FOLDER):
        trace = read(FOLDER / entry["file"])
        assert trace.summary.complete
        assert (trace.method, trace.seed) == (entry["method"], entry.get("seed", 0))
        config = METHODS[trace.method].config
        settings = asdict(make_config(config, entry.get("settings", {})))
        assert trace.config.keys() <= settings.keys()
        assert asdict(config()) | dict(trace.config) == settings, entry["file"]  # one that came since has its default
        assert trace.model.weights == load_model(trace.model.id).card.weights, "weights have changed: make traces"


def test_measured_rows_are_those_of_the_method_with_errors_and_quartiles_beside_their_figure(tmp_path: Path) -> None:
    row = {"method": "scd", "window": 32, "seconds": 0.123456, "nfe": 36.417, "nfe_standard_error": 1.305}
    row |= {"as_asked_percent": 66.67, "as_asked_error": 3.411}
    row |= {f"time_{name}": value for name, value in (("median", 0.4), ("low_quartile", 0.3), ("high_quartile", 0.5))}
    rows = [row, {"method": "ar", "seconds": 1.0}]
    written = {"title": "Speed", "environment": {"device": "a|b"}, "rows": rows}
    (tmp_path / "speed.json").write_text(json.dumps(written))
    (result,) = measured("scd", tmp_path)
    assert (result.title, result.device_text) == ("Speed, a|b", "device a|b")
    assert result.heads == ("window", "seconds", "nfe", "as asked percent", "time median")
    (cells,) = ([cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells] for cells in result.rows)
    assert cells == ["32", "0.1235", "36.42 ± 1.3", "66.67 ± 3.4", "0.4 (0.3 to 0.5)"]


@pytest.mark.parametrize("name", METHODS)
def test_a_description_opens_in_plain_sentences_and_closes_its_formulas(name: str) -> None:
    text = method_text(name)
    assert len(re.findall(r"(?<!\$)\$(?!\$)", text)) % 2 == text.count("$$") % 2 == 0
    _, opening, _ = text.split("\n\n", 2)
    assert opening.count(".") >= 3 and len(opening) < 700
    assert not re.search(r"\$|arXiv|(?<!\w)[A-Z]{2,}(?!\w)", opening.replace("PSD", ""))


@pytest.mark.slow
def test_the_page_names_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_DEVICE", "cpu")
    page = build(Visitors(), ())
    (device,) = [block.value for block in page.blocks.values() if getattr(block, "elem_id", "") == "device"]
    assert device == f"Draftscope {__version__}. Models run on {device_name(torch.device('cpu'))}."
