"""Links to runs and recordings: their content, and the messages for those that cannot be opened."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.page_handlers import Parts

from benchmarks._toy_runs import MODEL
from draftscope.demo.components.context import Update
from draftscope.demo.jobs.links import (
    FILE,
    PageLink,
    comparison_link,
    fragment_of_grid,
    parse_link,
    request_from_trace,
    run_link,
)
from draftscope.demo.jobs.run_selection import RunSelection
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import is_available
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, make_config
from draftscope.visualizers.export_zip.words import command


def request_of(method: str, model: str, prompt: str = "", seed: int = 0, **settings: Any) -> RunRequest:
    return RunRequest(method, model, prompt, make_config(METHODS[method].config, settings), seed)


@pytest.mark.parametrize(
    "run",
    [
        request_of("scd", MODEL, window=8, coupling="gumbel", seed=7),
        request_of("scd", "studio-image", 'a red boot & #100% "wool" = <b>ü</b>'),
        request_of("s2d2", "text-target", "How many?\nThree.", seed=2**31 - 1),
    ],
)
def test_an_address_says_all_of_a_run(run: RunRequest) -> None:
    fragment = run_link(run, compared=False)
    address = parse_link(f"#{fragment}&step=12&clock=passes&token=3")
    assert address == PageLink(request=run, compared=False, at={"clock": "passes", "now": 12.0})
    elsewhere = parse_link(f"#{fragment}&ms=12&clock=computed&on=H100,eager,Cosmos_4B,,1")
    assert elsewhere and elsewhere.at == {"clock": "computed", "now": 12.0, "on": "H100,eager,Cosmos_4B,,1"}
    assert parse_link(run_link(run, compared=True)) == PageLink(request=run)
    both = parse_link(f"tab=compare&{run_link(run, compared=True)}")
    assert both and both.request is None and len(both.compare) == 2 and both.compare[1] == run
    assert (
        run_link(request_of("scd", MODEL), compared=True) == f"method=scd&model={MODEL}&seed=0"
    )  # defaults are left out


@pytest.mark.parametrize("fragment", ["", "#", "#step=4&clock=passes", "#token=3"])
def test_an_address_that_names_no_run_asks_for_nothing(fragment: str) -> None:
    assert parse_link(fragment) is None


@pytest.mark.parametrize(
    ("fragment", "problem"),
    [
        ("method=nothing", "method: 'nothing' is not available; choose one of speculative"),
        ("method=scd&model=toy-field", "model: 'toy-field' is not available for scd; choose one of"),
        ("method=scd&seed=-1", "seed: '-1' is not allowed; use a whole number from 0"),
        ("method=scd&set.window=0", "window: "),
        ("method=scd&more=1", "link: unknown field 'more'; remove it"),
        ("method=scd&system=Be+brief", "system: studio-image is not a published language model; leave it out"),
        ("method=scd&template.a=1", "template: studio-image is not a published language model; leave it out"),
        ("method=scd&chat=yes", "chat: 'yes' is not allowed; use no, or leave it out"),
        ("method=scd&system=" + "x" * 1001, "system: has 1001 characters; the maximum is 1000"),
        ("method=scd&prompt=" + "x" * 1001, "prompt: has 1001 characters; the maximum is 1000"),
        ("tab=learn&lesson=magic", "lesson: 'magic' is not here; choose one of exact, passes"),
        ("compare=a&clock=computed&on=H10,eager,Cosmos_4B,,1", "on: device: there is no 'H10'; did you mean"),
        ("compare=a&clock=computed&on=H100,eager,Cosmos_4B,,0", "on: a batch of '0' is not allowed; use a whole"),
        ("method=" + "x" * 9000, "address: has 9007 characters"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(fragment: str, problem: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_link(fragment)
    assert str(wrong.value).startswith(problem)


@pytest.mark.parametrize("model", ["", "&model=smollm2-block", "&model=smollm2"])
def test_a_model_that_is_not_downloaded_is_named_with_the_command_that_does_it(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    method = "speculative" if model.endswith("smollm2") else "self-spec"
    with pytest.raises(ConfigError, match=r"model: smollm2.*draftscope model download smollm2$"):
        parse_link(f"method={method}{model}")


@pytest.mark.parametrize("step", ["-1", "x", "1e9", "nan", "9" * 20, ""])
def test_a_place_that_cannot_be_is_no_place(step: str) -> None:
    assert parse_link(f"gallery=a&step={step}") == PageLink(gallery="a")


def opened(parts: Parts, fragment: str) -> Update:
    return parts.opening.open({parts.opening.fragment: fragment})


@pytest.mark.slow
def test_an_address_brings_a_tray_of_runs_back(parts: Parts) -> None:
    opening, compare = parts.opening, parts.compare
    scd_request = request_of("scd", MODEL, window=8)
    fragment = comparison_link(["scd", run_link(scd_request, compared=True), FILE])
    assert parse_link(fragment) == PageLink(compare=("scd", scd_request, FILE))
    update = opened(parts, f"#{fragment}")
    assert update[opening.go] == "tray-fetch" and "1 run of this address" in update[compare.fetch]["value"]
    values = parts.values(wanted=update[compare.wanted], tray=RunSelection())
    request = gr.Request(session_hash="mine")
    for last in compare.decode(values, request):
        if last[compare.problem]["share"] is not None:
            compare.site.request_stop(request)  # what is there stays, and the button goes on with the rest
    assert [entry.address for entry in last[compare.tray].chosen] == ["scd"]
    assert (
        last[compare.wanted] == (scd_request, FILE) and last[compare.fetch]["value"] == "Decode 1 run of this address"
    )
    assert "1 of the 1 runs were not decoded" in last[compare.problem]["text"]
    values |= {compare.wanted: last[compare.wanted], compare.tray: last[compare.tray]}
    compare.site.visitor(request).start()
    first, *_ = compare.decode(values, request)
    assert first[compare.problem]["text"].startswith("1 run will take about ")
    *_, last = compare.decode(values, request)
    chosen = last[compare.tray].chosen
    assert [(entry.source, entry.address) for entry in chosen] == [
        ("recorded", "scd"),
        ("yours", run_link(scd_request, compared=True)),
    ]
    assert chosen[1].path.exists() and "1 of the runs of this link came as a file" in last[compare.problem]["text"]
    assert last[compare.box]["address"] == comparison_link([entry.address for entry in chosen])
    prompts = ("a red boot & more", "x=1")
    fragment = f"{comparison_link(['scd'])}&{fragment_of_grid(prompts, 2)}"
    assert parse_link(fragment) == PageLink(compare=("scd",), grid=prompts, seeds=2)
    update = opened(parts, f"#{fragment}")
    assert (update[compare.grid.prompts], update[compare.grid.seeds]) == ("\n".join(prompts), 2)
    offered = {compare.grid.prompts: "\n".join(prompts), compare.grid.seeds: 2, compare.grid.model: ""}
    update = compare.grid.offer(offered | {compare.grid.tray: last[compare.tray]})
    assert update[compare.grid.prompts]["value"] == "\n".join(prompts)  # not the model's examples
    for wrong in ("seeds=7", "seeds=x", "grid=a&" * 7):
        with pytest.raises(ConfigError, match=r"grid: .* use up to 6"):
            parse_link(f"compare=scd&{wrong}")
    assert comparison_link(["x" * 9000]) == ""  # too long to be opened


def test_an_address_of_too_many_runs_opens_the_first_six_and_names_the_others(parts: Parts) -> None:
    compare, request = parts.compare, gr.Request(session_hash="mine")
    names = ["scd"] * 6 + ["scd-picture", run_link(request_of("s2d2", "text-target", "1"), compared=True)]
    update = opened(parts, f"#{comparison_link(names)}")
    assert update[compare.wanted] == ("scd",) * 6
    values = parts.values(wanted=update[compare.wanted], left_out=update[compare.left_out], tray=RunSelection())
    *_, last = compare.decode(values, request)
    assert [entry.address for entry in last[compare.tray].chosen] == ["scd"]
    text = last[compare.problem]["text"]
    assert text == "This address names 8 runs, and 6 are compared at once. Left out: 'scd-picture', 's2d2'."
    assert last[compare.left_out] == ()
    many = values | {compare.left_out: ("scd",) * 9}
    *_, last = compare.decode(many, request)
    assert last[compare.problem]["text"].endswith("'scd', 3 more.")


def test_opening_the_tab_takes_nothing_from_runs_that_an_address_selects(parts: Parts) -> None:
    compare = parts.compare
    request = gr.Request(session_hash="mine")
    waiting = parts.values(wanted=("scd",), tray=RunSelection())  # the values when both events begin
    *_, selected = compare.decode(waiting, request)
    assert [entry.address for entry in selected[compare.tray].chosen] == ["scd"]
    assert set(compare.show(waiting, request)) == {compare.problem}  # its answer may be the last to arrive


@pytest.mark.slow
def test_an_address_shows_the_settings_of_its_method_and_no_others(parts: Parts) -> None:
    groups = parts.watch.groups
    update = opened(parts, "#method=s2d2&prompt=1")
    assert [name for name, group in groups.items() if update[group]["visible"]] == ["s2d2"]
    families = parts.watch.samplings
    assert [family for family, group in families.items() if update[group]["visible"]] == [METHODS["s2d2"].family]


@pytest.mark.parametrize(
    "fragment", ["#gallery=gone", "#gallery=../../etc/passwd", "#gallery=<img src=x>", "#method=x", "#compare=gone"]
)
def test_an_address_of_what_is_not_there_says_so_and_changes_nothing_else(parts: Parts, fragment: str) -> None:
    update = opened(parts, fragment)
    assert set(update) == {parts.watch.problem}
    message = update[parts.watch.problem]
    assert message["kind"] == "error" and "is not available" in message["text"]


@pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
@pytest.mark.slow
@pytest.mark.nightly
def test_a_trace_asks_again_for_the_chat_options_that_it_had() -> None:
    chat_options = {"system": "Be brief.", "template": {"enable_thinking": False}}
    config = make_config(METHODS["ar"].config, {"length": 8})
    run = Run(RunRequest("ar", "smollm2", "Hi", config, 3, **chat_options).job())
    run.finish()
    trace = run.trace()
    assert trace.extensions == {"draftscope": chat_options} and "Be brief." in trace.rendered
    again = request_from_trace(trace)
    assert (
        again == RunRequest("ar", "smollm2", "Hi", config, 3, **chat_options)
        and again.template == chat_options["template"]
    )
    assert "--system 'Be brief.' --template enable_thinking=false --seed 3" in command(trace)
    for recorded in ({"messages": 2}, {"system": 5}, {"template": {"chat_template": ""}}, "odd"):
        assert request_from_trace(replace(trace, extensions={"draftscope": recorded})) is None
    command(replace(trace, extensions={"draftscope": {"template": 3, "system": ["a"], "chat": "x"}}))
