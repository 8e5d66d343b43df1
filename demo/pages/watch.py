"""Watch: a recorded race, or a prompt decoded the ordinary way and an accelerated way side by side, and its record."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import gradio as gr

from draftscope.analysis.explain import explain_speed, run_metrics
from draftscope.demo.components import settings_form as controls
from draftscope.demo.components.add_checkpoint import FolderPanel, local
from draftscope.demo.components.chat_form import ChatForm
from draftscope.demo.components.clip import ClipPanel
from draftscope.demo.components.context import QUIET, Site, Update, by_script, scroll_to
from draftscope.demo.components.counterfactual import CounterfactualPanel
from draftscope.demo.components.download_model import DownloadModelPanel
from draftscope.demo.components.experiment import VariationButtons
from draftscope.demo.components.export import AnimationExport
from draftscope.demo.components.form_choices import FormChoices
from draftscope.demo.components.gallery import GalleryPanel
from draftscope.demo.components.prompt_help import DRAWS, EXAMPLES, vocabulary
from draftscope.demo.components.run_buttons import StartStop
from draftscope.demo.components.tour import tour
from draftscope.demo.components.trace_file import TracePanel
from draftscope.demo.components.viewer import (
    race_finished_message,
    race_started_message,
    recorded_pairs_message,
    replayed,
    send,
    trace_viewer,
    traces_message,
)
from draftscope.demo.components.widgets import (
    WAITS,
    choice_row,
    chosen_index,
    folded_list,
    metric_row,
    notice,
    notice_box,
    pressed_card,
    values_of,
)
from draftscope.demo.jobs.links import PageLink, request_from_trace, run_link, with_baseline
from draftscope.demo.jobs.live_run import RaceEnded, RaceStarted, decoded
from draftscope.demo.jobs.recordings import Pair, Recording
from draftscope.demo.jobs.tour import Scene
from draftscope.demo.server.event_stream import EventStream
from draftscope.demo.server.limits import PROMPT_CHARACTERS
from draftscope.demo.server.sessions import CurrentTraces
from draftscope.engines.methods import METHODS, SHARED, settings_for
from draftscope.engines.methods.method import Method
from draftscope.engines.models.catalog import (
    MODELS,
    default_model,
    default_sampling,
    download_hint,
    is_available,
    is_bundled,
)
from draftscope.engines.models.model_info import ModelInfo
from draftscope.engines.protocol import Family
from draftscope.engines.runtime.run_request import RunRequest, read_method
from draftscope.engines.sampling.random_source import MAX_SEED, parse_seed
from draftscope.engines.settings import ConfigError, config_values, settings
from draftscope.traces.schema import Trace

DEFAULT: Final = METHODS["scd"]
_USUAL: Final = MODELS[default_model(DEFAULT.family)]
_OPENED: Final = {
    family: {name.rpartition(".")[2] for m in MODELS.values() if family in m.families for name, _ in m.form_defaults}
    | {"guidance"}
    for family in SHARED
}
"""Settings that some model of a family has a say in: without prompts there is nothing to guide."""
_INVITE: Final = "Take the tour"
_RECORDED: Final = "a recorded run"
_PAIR: Final = "() => draftscopePlayers.viewer.race.chosen"
_CARD: Final = f"""() => {{
  draftscopePlayers.viewer.race.chosen = -1;  // of a pair that is still on its way
  return ({pressed_card("gallery")})();
}}"""
_DICE: Final = f"() => String(Math.floor(Math.random() * {MAX_SEED}))"
_CUT: Final = f"At most {PROMPT_CHARACTERS:,} characters fit; the rest is left out."
_WATCH_LENGTH: Final = f"""(prompt, told) => prompt.length >= {PROMPT_CHARACTERS}
  ? {{ kind: "warning", title: "The prompt is cut off.", text: "{_CUT}", role: "status", share: null }}
  : told?.text === "{_CUT}" ? {{}} : told"""


class WatchPage:
    """The page and its handlers."""

    def __init__(
        self,
        site: Site,
        raced: Sequence[Pair] = (),
        toured: Sequence[Scene] = (),
        recordings: Sequence[Recording] = (),
        missing: Sequence[str] = (),
    ) -> None:
        """Lay out the page.

        Args:
            site: Shared state.
            raced: Recorded pairs to show before anything is run, the first one first.
            toured: Scenes of the tour.
            recordings: Recordings of the gallery.
            missing: Listed recordings that are missing.
        """
        self.site = site
        self.pairs = tuple(raced)
        self.opening = gr.State(None)
        """Link that is being opened, until its run has finished."""
        self.choices = FormChoices()
        tour(toured, elem_id="tour")
        self.offer = recorded_pairs_message(self.pairs, _INVITE if toured else "")
        """Message of the recorded pairs that the page opens with."""
        self.viewer = trace_viewer("viewer", self.offer, first=True)
        self.problem = notice_box(elem_id="problem")  # between the stage and the prompt: in sight, wherever one looks
        self._build_form(_USUAL, recordings)
        self._build_outcome()
        self.gallery = GalleryPanel(recordings, missing)
        self.trace = TracePanel(site)
        self._connect()
        for pair in self.pairs[:1]:
            with_initial_values(self._about(pair.recording.traces, CurrentTraces(pair.recording.paths, _RECORDED)))

    def _build_form(self, model: ModelInfo, recordings: Sequence[Recording]) -> None:
        with gr.Row(elem_id="ask"):
            self.prompt = gr.Textbox(
                value=model.default_prompt,
                label="Prompt",
                placeholder=_placeholder(model),
                show_label=False,
                container=False,
                max_lines=3,
                max_length=PROMPT_CHARACTERS,
                elem_id="prompt",
                scale=6,
                min_width=240,
            )
            self.buttons = StartStop(self.site, "run", "stop", "Run", scale=1, min_width=110)
            self.buttons.triggers.append(self.prompt.submit)
            self.what_if = CounterfactualPanel(self.site, self.viewer, recordings)
        self.fetching = DownloadModelPanel(self.site, self.problem) if local(os.environ) else None
        self.examples = {
            prompt: choice_row(f"try-{number}", "Try", texts, visible=prompt == model.default_prompt)
            for number, (prompt, texts) in enumerate(EXAMPLES.items())
        }
        self.clips = ClipPanel(self.prompt, self.problem, model.id)
        methods, models = [(m.title, m.name) for m in METHODS.values()], _models(DEFAULT.family)
        with gr.Accordion("Method, model, seed and settings", open=False, elem_classes="settings"):
            with gr.Row(elem_classes="aligned"):
                self.method = gr.Dropdown(methods, value=DEFAULT.name, label="Method", scale=3, min_width=240)
                self.model = gr.Dropdown(models, value=model.id, label="Model", scale=3, min_width=240)
                # A text field: an invalid seed is named as it was typed; a number would be rounded, or "None".
                self.seed = gr.Textbox("0", label="Seed", max_lines=1, scale=1, min_width=120)
                self.dice = gr.Button("New seed", scale=0, min_width=96, size="sm", elem_id="dice")
            self.folders = FolderPanel(self.problem) if local(os.environ) else None
            self.chat = ChatForm(model)
            with gr.Accordion("Prompt vocabulary", open=False, visible=model.default_prompt == DRAWS) as self.words:
                gr.Markdown(vocabulary(), elem_classes="vocabulary")
            self.with_baseline = gr.Checkbox(
                True, label="Also run the baseline", info="Same model, prompt, seed and sampling, without drafts."
            )
            self._build_settings(model)

    def _build_settings(self, model: ModelInfo) -> None:
        self.method_controls: dict[str, controls.Controls] = {}
        self.presets: dict[str, gr.Dropdown] = {}
        self.groups: dict[str, gr.Column] = {}
        for method in METHODS.values():
            method_settings = settings_for(method)
            with gr.Column(visible=method is DEFAULT and bool(method_settings)) as self.groups[method.name]:
                gr.Markdown(f"**{method.title}**")
                if preset := controls.preset_choice(method):
                    self.presets[method.name] = preset
                with gr.Row():
                    self.method_controls[method.name] = controls.build(method_settings)
        self.sampling: dict[Family, controls.Controls] = {}
        self.samplings: dict[Family, gr.Column] = {}
        for family in SHARED:
            with gr.Column(visible=family == DEFAULT.family) as self.samplings[family]:
                gr.Markdown("**Sampling**, the same for both")
                with gr.Row():
                    self.sampling[family] = controls.build(settings(SHARED[family]))
        with self.samplings["discrete-ar"]:
            label = "Sample as transformers' generate would"
            self.model_sampling = gr.Button(label, size="sm", visible=False, elem_id="generation-config")
        self.length = self.sampling["discrete-ar"].of["length"]
        """Texts have one, pictures do not."""
        self.length.visible = model.text

    def _build_outcome(self) -> None:
        self.caption = gr.Markdown(_CAPTION_EMPTY, elem_classes="lead")
        self.facts = metric_row(elem_id="outcome")
        self.reasons = folded_list("What decides the speed here?", elem_id="why")
        self.again = VariationButtons()
        self.moving = AnimationExport(self.site, "watch-moving")

    def _connect(self) -> None:
        self.form = self.buttons.form = [self.prompt, self.method, self.model, self.seed, self.with_baseline]
        """Components that `requests` reads."""
        self.form += self.chat.inputs
        for group in (*self.method_controls.values(), *self.sampling.values()):
            self.form += group.of.values()
        about = {self.site.shown, self.caption, self.facts, self.reasons, *self.again.parts}
        done = {self.problem, self.viewer, self.opening, *about}
        gr.on(self.buttons.triggers, None, cancels=[self.what_if.decoding], **QUIET)
        self.over = self.buttons.connect("run", self.decode, {self.opening}, done, self.problem)
        waits = {self.facts: WAITS, self.reasons: WAITS}
        live = {self.caption: gr.update(value=_CAPTION_LIVE, visible=True), **waits, **self.moving.cleared()}
        self.viewer.begun(None, None, [*live], js=by_script(live), **QUIET)
        # A run that failed midway leaves no figures.
        left = self._outcome(()) | self.again.clear()
        empty = f"(facts) => facts?.waits ? ({by_script(left)})() : {json.dumps([gr.skip()] * len(left))}"
        self.over.then(None, [self.facts], [*left], js=empty, **QUIET)
        self.follows: list[Any] = [
            self.model,
            self.prompt,
            self.words,
            *self.chat.parts,
            *self._settings_for(_USUAL),
            *self.examples.values(),
            *(self.fetching.parts if self.fetching else ()),
        ]
        self.follows += [self.with_baseline, self.model_sampling, *self.groups.values(), *self.samplings.values()]
        """Components that change with the method or the model."""
        self.opens = list(dict.fromkeys([self.opening, *self.form, *self.presets.values(), *self.follows]))
        """Components that `opened` updates."""
        self.replays: list[Any] = [self.viewer, *self.opens, self.problem, *self.moving.parts, *about]
        self.replays += [self.again.compared]
        """Components that `replay` updates."""
        self.choices.fields = [*self.form, *self.presets.values()]
        self.choices.add(self.viewer.chosen, "pair", self.choose_pair, _PAIR)
        self.choices.add(self.gallery.cards.choose, "recording", self.choose_recording, _CARD)
        self.choices.add_list(self.method, "method", self.choose_method)
        self.choices.add_list(self.model, "model", self.choose_model)
        self.choices.add(self.model_sampling.click, "sampling", self.use_model_sampling)
        self.filled = self.choices.connect({self.again.current}, self.replays)
        self.gallery.cards.choose(None, js=scroll_to("viewer"), **QUIET)
        self.trace.upload.upload(self.open, {self.trace.upload}, [*self.trace.opens, *self.replays], **QUIET)
        self.dice.click(None, None, self.seed, js=_DICE)
        self.prompt.input(None, [self.prompt, self.problem], self.problem, js=_WATCH_LENGTH, **QUIET)
        for prompt, row in self.examples.items():
            row.click(None, row, self.prompt, js=f"(index) => ({json.dumps(EXAMPLES[prompt])})[index]", **QUIET)
        self.clips.connect(self.model)
        if self.folders is not None:
            self.folders.connect(self.method, self.follows, self._for_model)
        if self.fetching is not None:
            self.fetching.connect(self.method, self.follows, self._fetched)
        for name, preset in self.presets.items():
            self._connect_preset(METHODS[name], preset)

    def _connect_preset(self, method: Method, preset: gr.Dropdown) -> None:
        """A preset moves the controls; a control that a person moves makes it a custom one."""
        all_controls = self._controls(method)
        names = {name: controls.preset_values(method, name) for name in (controls.DEFAULTS, *method.presets)}
        moved = [all_controls[name] for name in names[controls.DEFAULTS]]
        values = {name: [*preset_values.values()] for name, preset_values in names.items()}
        values[controls.CUSTOM] = [gr.skip()] * len(moved)
        preset.input(None, preset, moved, js=f"(name) => ({json.dumps(values)})[name]", **QUIET)
        inputs = [control.input for control in moved]
        gr.on(inputs, None, None, preset, js=f"() => '{controls.CUSTOM}'", **QUIET)

    def _controls(self, method: Method) -> dict[str, Any]:
        """The controls of all settings of a method, by name."""
        return {**self.sampling[method.family].of, **self.method_controls[method.name].of}

    def decode(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Decode and show every forward pass as it happens."""
        visitor, opening = self.site.visitor(request), values.get(self.opening)
        with closing(EventStream()) as live:
            yield {
                self.viewer: race_started_message(live),
                self.problem: notice("info", "The model is being prepared.", "One moment."),
            }
            requests = self.requests(values)
            deviation = METHODS[requests[-1].method].deviation(requests[-1].config)
            warning = notice("warning", deviation, "Not the model's own distribution.") if deviation else {}
            for message in decoded(requests, visitor.stopped, "page"):
                if isinstance(message, RaceEnded):
                    address = run_link(requests[-1], compared=len(requests) > 1)
                    at = opening.at if opening and opening.request == requests[-1] else None
                    shown = visitor.keep(message.traces, "your last run")
                    viewer = race_finished_message(message.traces, shown.paths, live.name, address, at)
                    yield {**self._result(message, shown, warning), self.viewer: viewer, self.opening: None}
                    continue
                send(live, message)
                if isinstance(message, RaceStarted):
                    # Again, as of two updates that come together gradio shows the last.
                    yield {self.viewer: race_started_message(live), self.problem: warning}

    def _result(self, ended: RaceEnded, shown: CurrentTraces, warning: dict[str, str]) -> Update:
        traces = ended.traces
        complete = all(trace.summary.complete for trace in traces)
        passes = " and ".join(str(trace.summary.forwards) for trace in traces)
        stopped = notice("info", f"The result of {passes} forward passes is kept below.", ended.ended)
        return {
            self.site.shown: shown,
            **self._outcome(traces if complete else ()),
            self.problem: warning if complete else stopped,
            self.caption: gr.update(value=_CAPTION_DONE, visible=True),
            **self.again.show(traces, shown.paths),
        }

    def _outcome(self, traces: Sequence[Trace]) -> Update:
        """The figures of some runs and what decides their speed, none without any."""
        return {self.facts: values_of(run_metrics(traces)), self.reasons: explain_speed(traces)}

    def opened(self, address: PageLink) -> Update:
        """The form as an address asks for it; it changes `opens`. Raises ValueError for an address without a run."""
        request = address.request
        if request is None:
            raise ValueError("address: does not name a run; give a method.")
        method, values = METHODS[request.method], config_values(request.config)
        update = self._for_model(MODELS[request.model], method) | {self.opening: address, self.method: method.name}
        for setting in settings(method.config):
            control = self._controls(method)[setting.name]
            shown = {"visible": setting.is_active(values)} if setting.knob.active_if else {}
            update[control] = shown | update.get(control, gr.update()) | {"value": values[setting.name]}
        if preset := self.presets.get(method.name):
            update[preset] = controls.DEFAULTS if request.config == method.config() else controls.CUSTOM
        update[self.prompt] |= {"value": request.prompt}
        update[self.with_baseline] |= {"value": address.compared}
        return update | self.chat.opened(request) | {self.seed: str(request.seed)}

    def requests(self, values: Update) -> Sequence[RunRequest]:
        """Return what the form requests: the baseline, if selected, and the chosen method.

        Raises:
            ValueError: With the field, its value and the remedy.
        """
        method = read_method(str(values[self.method]))
        sampling = self.sampling[method.family].values(values)
        config = controls.read_config(method.config, self.method_controls[method.name].values(values) | sampling)
        seed = parse_seed(_whole_number(values[self.seed]))
        model, prompt = values[self.model], values[self.prompt] or ""
        request = RunRequest(method.name, model, prompt, config, seed, **self.chat.values(values, model))
        return with_baseline(request) if values[self.with_baseline] else [request]

    def choose_pair(self, values: Update) -> Update:
        """A recorded pair is shown: it is what the other pages speak of, and what the form asks for."""
        recording = self.pairs[chosen_index(self.choices.index(values), len(self.pairs), "pair")].recording
        return self._about(recording.traces, CurrentTraces(recording.paths, _RECORDED))

    def choose_recording(self, values: Update) -> Update:
        """Play the recording of a card."""
        recording = self.gallery.chosen(self.choices.index(values))
        return self.replay(recording, pressed_at=values[self.choices.sent_choice].get("time"))

    def replay(self, recording: Recording, placed: bool = False, pressed_at: object = None) -> Update:
        """Play a recording on the stage; it changes `replays`. See `replayed` for what it takes."""
        shown = CurrentTraces(recording.paths, _RECORDED)
        return {self.viewer: replayed(recording, placed, pressed_at), **self._about(recording.traces, shown)}

    def open(self, values: Update, request: gr.Request) -> Update:
        """Show a user's file in the player; an invalid file leaves the current traces."""
        trace, message = self.trace.read(values)
        if trace is None:
            return message
        shown = self.site.visitor(request).keep([trace], "the file you opened")
        return {**message, self.viewer: traces_message([trace], shown.paths), **self._about([trace], shown)}

    def _about(self, traces: Sequence[Trace], shown: CurrentTraces) -> Update:
        """Return updates for the description of finished runs, and for the form that requests them."""
        return self.as_recorded(traces) | {
            self.site.shown: shown,
            **self._outcome(traces),
            self.caption: gr.update(visible=False),
            **self.again.show(traces, shown.paths),
            self.again.compared: (),
            **self.moving.cleared(),
        }

    def as_recorded(self, traces: Sequence[Trace]) -> Update:
        """Return the form values of a finished run; unchanged, with the reason, if the run cannot be requested here."""
        trace = traces[-1]
        if request := request_from_trace(trace):
            form = self.opened(PageLink(request=request, compared=len(traces) > 1))
            return form | {self.opening: None, self.problem: {}}
        model = MODELS.get(trace.model.id)
        if model is None or not model.downloads or is_available(model.id):
            return {self.problem: {}}
        offered = self.fetching.shows(model) if self.fetching else {}
        return offered | {self.problem: {} if offered else notice("info", download_hint(model.id))}

    def choose_method(self, values: Update) -> Update:
        """Show the settings of the method and the models it can run on; a model that fits stays."""
        model, method = self._chosen(values)
        if _runs(model, method):
            return self._for_method(method)
        return self._for_model(MODELS[default_model(method.family, shifted=method.shifted)], method)

    def choose_model(self, values: Update) -> Update:
        """Show what the model can be asked; a method that it runs stays."""
        model, method = self._chosen(values)
        if _runs(model, method):
            return self._for_model(model)
        # Chosen before the method's models were listed.
        method = next(one for one in METHODS.values() if _runs(model, one) and self.method_controls[one.name].of)
        return self._for_model(model, method) | {self.method: method.name}

    def use_model_sampling(self, values: Update) -> Update:
        """Set the sampling of the model's own generation_config.json, or show why that is impossible."""
        try:
            named = default_sampling(self._chosen(values)[0].id)
        except ConfigError as error:
            return {self.problem: notice("error", str(error), "Sampling was not changed.")}
        return {self.sampling["discrete-ar"].of[name]: value for name, value in named.items()} | {self.problem: {}}

    def _chosen(self, values: Update) -> tuple[ModelInfo, Method]:
        """Return the model and the method of the form; raises gr.Error for one that there is not."""
        model, method = MODELS.get(str(values[self.model])), METHODS.get(str(values[self.method]))
        if model is None or method is None:
            raise gr.Error("form: names a model or method that is not here; reload the page.")
        return model, method

    def _fetched(self, model: ModelInfo, name: str) -> Update:
        """The form for a model that was fetched, with the method that is chosen where it can run that."""
        method = METHODS[name if METHODS[name].family in model.families else "speculative"]
        return self._for_model(model, method) | {self.method: method.name}

    def _for_method(self, method: Method) -> Update:
        """Show the settings of one method and none of the others, and the models it can run on."""
        update: Update = {
            group: gr.update(visible=name == method.name and bool(self.method_controls[name].of))
            for name, group in self.groups.items()
        }
        update |= {group: gr.update(visible=family == method.family) for family, group in self.samplings.items()}
        update[self.with_baseline] = gr.update(visible=bool(self.method_controls[method.name].of))
        return update | {self.model: gr.update(choices=_models(method.family))}

    def _for_model(self, model: ModelInfo, method: Method | None = None) -> Update:
        """The form as it opens for a model, and for a method where that is another one, too."""
        update = self._settings_for(model) | (self._for_method(method) if method else {})
        info = download_hint(model.id) if model.downloads and not is_available(model.id) else model.terms or None
        update[self.model] = update.get(self.model, gr.update()) | {"value": model.id, "info": info}
        update[self.length] = update.get(self.length, gr.update()) | {"visible": model.text}
        value, interactive = model.default_prompt, bool(model.default_prompt)
        update[self.prompt] = gr.update(value=value, placeholder=_placeholder(model), interactive=interactive)
        update[self.words] = gr.update(visible=value == DRAWS)
        update[self.model_sampling] = gr.update(
            visible=model.text and is_available(model.id) and not is_bundled(model.id)
        )
        update |= self.chat.shows(model) | (self.fetching.shows(model) if self.fetching else {})
        return update | {
            examples: gr.update(visible=model_name == value) for model_name, examples in self.examples.items()
        }

    def _settings_for(self, model: ModelInfo) -> Update:
        """The settings that some model has a say in, as the form opens for this one: its values, or the usual ones."""
        update = dict[Any, Any]()
        for method in METHODS.values():
            preferred = model.opening(method.name, method.config) if method.family in model.families else {}
            defaults, all_controls = config_values(method.config()), self._controls(method)
            changed = {
                name: preferred.get(name, defaults[name]) for name in _OPENED[method.family] & all_controls.keys()
            }
            update |= {all_controls[name]: gr.update(value=value) for name, value in changed.items()}
            if preset := self.presets.get(method.name):
                named = controls.preset_values(method, controls.DEFAULTS)
                differs = any(named.get(name, value) != value for name, value in changed.items())
                update[preset] = controls.CUSTOM if differs else controls.DEFAULTS
        return update


_CAPTION_EMPTY: Final = "Press Run: every forward pass appears here as it happens."
_CAPTION_LIVE: Final = "Decoding. Both decoders alternate, one forward pass each; time counts only their own passes."
_CAPTION_DONE: Final = "Your run. Move the slider, see its figures under Compare, download it at the end of this page."


def with_initial_values(update: Update) -> None:
    """Let components open as an update would make them."""
    for component, initial in update.items():
        changes = initial if isinstance(initial, dict) and "__type__" in initial else {"value": initial}
        for name, value in changes.items():
            if name != "__type__":
                setattr(component, name, value)


def _runs(model: ModelInfo, method: Method) -> bool:
    """Return whether a method can run on a model."""
    return method.family in model.families and (model.shifted or not method.shifted)


def _whole_number(text: object) -> object:
    """Return the number that a field's text gives; any other value is returned unchanged."""
    text = text.strip() if isinstance(text, str) else text
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < len(str(MAX_SEED)) + 2 else text


def _placeholder(model: ModelInfo) -> str:
    verb = "A question or a tally" if model.text else "What to draw"
    return f"{verb}, such as: {model.default_prompt}" if model.default_prompt else model.prompt_help


def _models(family: str) -> list[tuple[str, str]]:
    fits = [
        model for model in MODELS.values() if family in model.families and (model.downloads or is_available(model.id))
    ]
    return [(model.label if is_available(model.id) else f"{model.label}, not fetched yet", model.id) for model in fits]
