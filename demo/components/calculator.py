"""Calculator for other hardware: one verdict, what it rests on, a form, and its curves. All values are computed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import gradio as gr

from draftscope.acceptance_files import of_trace, opened_acceptance
from draftscope.analysis.acceptance_rate import AcceptanceEvidence, AcceptanceRate, hand_set
from draftscope.analysis.hardware import DEVICES, ENGINES, SIZES, HardwareError, Machine, named, quantised, read_size
from draftscope.analysis.hardware_models import MODELS
from draftscope.analysis.recorded_verdicts import RecordedRun, recorded_run, recorded_verdict
from draftscope.analysis.run_report import times
from draftscope.analysis.shipped_results import drafted
from draftscope.analysis.speedup_model import MAX_DRAFTS, SHORT, SpeedupModel
from draftscope.analysis.verdicts import WORTH
from draftscope.demo.components.context import AT_ONCE, LATEST, Site, Update, by_script
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import (
    component,
    data_table,
    notice,
    notice_box,
    table,
    upload_file,
)
from draftscope.demo.jobs.links import calculator_link
from draftscope.demo.jobs.recordings import Recording
from draftscope.engines.settings import ConfigError
from draftscope.recommendations import reported_near
from draftscope.visualizers.calculator import FIRST, NO_DRAFTER, curves_script, curves_style, reasons_style
from draftscope.visualizers.figures.calculator import (
    BATCHES,
    DRAFTS,
    Calculation,
    DeviceCurve,
    calculator_figure,
    device_curves,
)
from draftscope.visualizers.tables import table_files

_OWN: Final = "set by hand"
_ALL: Final = "all prompts"
_NAME: Final = "(link) => draftscopeAddress.setRun('choose', link)"
_BOUNDS: Final = {
    "launches": "what the engine adds to it, so verifying more drafts costs almost nothing",
    "memory": "reading weights and KV cache, so verifying more drafts costs almost nothing",
    "compute": "arithmetic, so every draft costs its share",
    "communication": "what GPUs send one another, so verifying more drafts costs little",
}
_GPUS: Final = (1, 2, 4, 8)
_BY_HAND: Final = ("acceptance", "spread")
_PICKED: Final = "() => document.querySelector('#calculator-devices :checked').value"
_TELL: Final = "(device) => { document.dispatchEvent(new CustomEvent('draftscope-device', { detail: device })); }"
_DRAFTERS: Final = json.dumps({name: model.drafter or NO_DRAFTER for name, model in MODELS.items()})
_DRAFTER: Final = f"(target, draft) => ({_DRAFTERS})[target] ?? draft"
"""The drafter that is published for a model."""
_START: Final = f"""(source, kind, draft, starts) => {{
  const [none, usual] = {json.dumps([NO_DRAFTER, FIRST["draft"]])};
  const kinds = starts[source] ?? {{}};
  const names = Object.keys(kinds);
  const offered = {{ __type__: 'update', visible: names.length > 1 }};
  if (!names.length) return [undefined, undefined, undefined, offered];
  const value = names.includes(kind) ? kind : names[0];
  const {{ acceptance, spread, drafter }} = kinds[value];
  const drafts = {{ lookup: none, network: draft === none ? usual : draft }}[drafter] ?? draft;
  return [acceptance, spread, drafts, {{ ...offered, choices: names.map((name) => [name, name]), value }}];
}}"""
"""Values that a source sets in the form; none where the rate is set by hand."""


class CalculatorPanel:
    """The verdict, the form and the figure."""

    def __init__(self, site: Site, recordings: Sequence[Recording] = ()) -> None:
        self.site = site
        self.measured = {f"measured here: {pair}": pair for pair in drafted()}
        """By their names in the form."""
        found = {entry.title: of_trace(entry.traces[-1]) for entry in recordings if entry.method == "speculative"}
        self.recorded = {f"recorded: {title}": one for title, one in found.items() if one is not None}
        """Runs that ship, by their names in the form."""
        methods = (recorded_run(entry.name, entry.title, entry.traces[-1]) for entry in recordings)
        self.methods = tuple(run for run in methods if run is not None)
        plan, rate = _plan(FIRST), _rate(FIRST)
        verdict, details = _in_two(description(plan, rate, _OWN))
        self.answer = gr.Markdown(verdict, elem_id="calculator-answer")
        self.problem = notice_box(elem_id="calculator-problem")
        with gr.Row(elem_id="plan"):
            reasons = {"elem_id": "calculator-reasons"}
            self.reasons = component(reasons_of(plan, rate), _REASONS_JS, reasons_style(), **reasons)
            self._build()
        self.details = gr.Markdown(details, elem_id="calculator-details")
        self.panel = Panel(site, "calculator")
        self.devices = component(curves_of(plan), _JS, curves_style(), elem_id="calculator-devices")
        gr.Markdown("## Methods without a drafter of your own", elem_classes="titled")
        self.others = data_table("Methods without a drafter of your own", elem_id="calculator-methods")
        with gr.Accordion("The same by draft length, as a table; link, CSV, LaTeX and Markdown", open=False):
            self.rows = data_table("Speed by draft length", elem_id="calculator-rows")
        self.link = gr.Textbox(visible=False)
        self.inputs: set[Any] = {*self.fields.values(), self.source, self.kind, self.opened_file, site.look}
        self.parts: list[Any] = [
            self.answer,
            self.reasons,
            self.details,
            self.problem,
            self.devices,
            self.others,
            self.rows,
            self.link,
        ]
        self.parts += self.panel.parts
        self._connect()

    def _build(self) -> None:
        """Lay out the form."""
        names: dict[str, Any] = {"allow_custom_value": True, "info": "Or parameters, such as 7e9."}
        self.fields: dict[str, Any] = {}
        """By the fields of a plan."""
        targets = [name for name in SIZES if not name.endswith("MTP")]  # which only drafts
        with gr.Column(min_width=320, elem_id="plan-form"):
            with gr.Group():
                with gr.Row():
                    self.fields["target"] = _choice("Your model", targets, "target", **names)
                    self.fields["draft"] = _choice("Drafter", (NO_DRAFTER, *SIZES), "draft", **names)
                with gr.Row():
                    self.fields["device"] = _choice("Device", DEVICES, "device")
                    self.fields["engine"] = _choice("Engine", ENGINES, "engine")
                sources = [_OWN, *self.recorded, *self.measured]
                self.source = gr.Dropdown(sources, value=_OWN, label="Acceptance", info="Where it is from.")
                self.kind = gr.Radio([_ALL], value=_ALL, label="Kind of prompt", visible=False, elem_id="prompt-kind")
                with gr.Row():
                    rate: dict[str, Any] = {"label": "Drafts accepted", "min_width": 200}
                    self.fields["acceptance"] = gr.Slider(0, 1, FIRST["acceptance"], step=0.01, **rate)
                    within: dict[str, Any] = {"label": "Known within ±", "min_width": 200}
                    self.fields["spread"] = gr.Slider(0, 0.5, FIRST["spread"], step=0.01, **within)
                with gr.Row():
                    counts = [("fewest", 0), *((str(count), count) for count in _GPUS)]
                    self.fields["gpus"] = _radio("GPUs", counts, "gpus", scale=5, min_width=200)
                    self.fields["batch"] = _number("Batch", "batch")
                    self.fields["context"] = _number("Context", "context")
                with gr.Row():
                    self.fields["weights"] = _radio("Weights, bits", (16, 8, 4), "weights", scale=20, min_width=120)
                    self.fields["cache"] = _radio("KV cache, bits", (16, 8), "cache", scale=19, min_width=100)
                    length: dict[str, Any] = {"label": "Draft length γ", "info": f"0: the fastest up to {max(SHORT)}."}
                    length |= {"scale": 34, "min_width": 170}
                    self.fields["drafts"] = gr.Slider(0, MAX_DRAFTS, FIRST["drafts"], step=1, **length)
            self.file_notice = notice_box(elem_id="acceptance-notice")
            kinds = (".json", ".jsonl", ".txt", ".log", ".prom", ".gz")
            label = "Open a result of bench, a server's log or /metrics, or a trace"
            self.upload = upload_file("acceptance-upload", label, *kinds)
        self.opened_file: Any = gr.State(())
        """A tuple of `AcceptanceEvidence`."""
        self.starts = gr.JSON(self._starts(), visible=False)

    def _connect(self) -> None:
        """Wire what the browser does alone: one field sets others at once, before the server has answered."""
        form = self.fields
        target, draft, device = (form[name] for name in ("target", "draft", "device"))
        target.input(None, [target, draft], draft, js=_DRAFTER, **AT_ONCE)
        hand = {self.source: _OWN, self.kind: gr.update(visible=False)}
        gr.on([form[name].input for name in _BY_HAND], None, None, [*hand], js=by_script(hand), **AT_ONCE)
        read = [self.source, self.kind, draft, self.starts]
        written = [*(form[name] for name in _BY_HAND), draft, self.kind]
        start: dict[str, Any] = {"inputs": read, "outputs": written, "js": _START, **AT_ONCE}
        gr.on([self.source.input, self.kind.input], None, **start)
        opened = [self.opened_file, self.starts, self.source, self.kind, self.upload, self.file_notice]
        self.upload.upload(self.open, {self.upload}, opened, **LATEST).then(None, **start)
        self.devices.choose(None, None, device, js=_PICKED, **AT_ONCE)
        device.change(None, device, None, js=_TELL, **AT_ONCE)
        self.link.change(None, self.link, None, js=_NAME, **AT_ONCE)

    def draw_when(self, shown: Any) -> None:
        """Draw upon an event, and whenever the form has changed, whatever changed it.

        It is one listener, so that only one drawing is under way, and the last one has the form as it is then.
        """
        form = (*self.fields.values(), self.source, self.kind, self.opened_file)
        gr.on([shown, *(part.change for part in form)], self.draw, self.inputs, self.parts, **LATEST)

    def open(self, values: Update) -> Update:
        """Take the acceptance of a visitor's file, or report why it has none."""
        try:
            found = opened_acceptance(values[self.upload] or b"")
        except ValueError as error:
            return {self.file_notice: notice("error", str(error), "Invalid file"), self.upload: None}
        names = [_opened(one) for one in found]
        kinds = dict.fromkeys(rate.kind or _ALL for one in found for rate in one.rates)
        return {
            self.opened_file: found,
            self.starts: self._starts(found),
            self.source: gr.update(choices=[_OWN, *names, *self.recorded, *self.measured], value=names[0]),
            self.kind: gr.update(choices=[_ALL, *(kind for kind in kinds if kind != _ALL)], value=_ALL),
            self.file_notice: notice("info", f"{found[0].source}, {found[0].rates[0]} of drafts accepted.", "Opened:"),
            self.upload: None,
        }

    def _starts(self, opened: Iterable[AcceptanceEvidence] = ()) -> dict[str, Any]:
        """Values that every source sets in the form, by kind of prompt, as data for `_START`."""
        known = {_opened(one): one for one in opened} | self.recorded
        starts = {name: {rate.kind or _ALL: _start(rate) for rate in one.rates} for name, one in known.items()}
        for name, pair in self.measured.items():
            drafter = "lookup" if pair.drafter == "lookup" else "network"
            starts[name] = {_ALL: {**_start(hand_set(pair.acceptance, pair.spread)), "drafter": drafter}}
        return starts

    def _rates(self, values: Update) -> Sequence[AcceptanceRate]:
        """Return what a source measured: over all prompts, then by kind; nothing if it is set by hand."""
        source = values[self.source]
        opened: Sequence[AcceptanceEvidence] = values[self.opened_file]
        known = {_opened(one): one for one in opened} | self.recorded
        if source in known:
            return known[source].rates
        pair = self.measured.get(source)
        return (hand_set(pair.acceptance, pair.spread),) if pair else ()

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Compute and draw the answer; for an impossible plan, show the problem and the devices that could run it."""
        plan_values = {name: values[control] for name, control in self.fields.items()}
        try:
            plan, rate = _plan(plan_values), _rate(plan_values)
        except HardwareError as error:
            return {
                self.answer: _NO_ANSWER,
                self.reasons: {},
                self.details: "",
                self.problem: notice("error", str(error), "This cannot be computed."),
                self.devices: _other_devices(plan_values),
                self.rows: {},
                self.others: {},
                self.link: "",
                **self.panel.hide("Nothing can be drawn for this plan."),
            }
        rates = self._rates(values)
        chosen = next((one for one in rates if (one.kind or _ALL) == values[self.kind]), None)
        rate = chosen or (rates[0] if rates else rate)
        calculation = Calculation(plan, rate, self.measured.get(values[self.source]), reported_near(plan))
        shown = self.panel.show(calculator_figure, calculator_figure.draw(calculation), values[self.site.look], request)
        link = "" if _is_first(plan_values) else calculator_link(plan_values)
        source = str(values[self.source]) + (f", {rate.kind}" if rate.kind else "")
        verdict, details = _in_two(description(plan, rate, source) + _by_kind(plan, rates))
        return {
            self.answer: verdict, self.reasons: reasons_of(plan, rate), self.details: details, self.problem: {},
            self.devices: curves_of(plan), self.rows: rows(plan), self.link: link,
            self.others: method_rows(plan, self.methods),
            **shown,
        }  # fmt: skip

    def opened(self, values: Mapping[str, str]) -> Update:
        """Return the updates that fill the form from a link.

        Raises:
            ConfigError: If a field is unknown or its value is invalid.
        """
        if unknown := values.keys() - self.fields.keys():
            raise ConfigError(f"plan: there is no field {min(unknown)!r:.60}; use {', '.join(self.fields)}.")
        try:
            plan, rate = _plan({**FIRST, **values}), _rate({**FIRST, **values})
        except HardwareError as error:
            raise ConfigError(str(error)) from None
        parsed: dict[str, Any] = {"target": values.get("target"), "draft": values.get("draft")}
        parsed |= {"device": plan.device.name, "engine": plan.engine.name, "spread": float(values.get("spread", 0))}
        parsed |= {"acceptance": rate.rate, "batch": plan.batch, "context": plan.context}
        parsed |= {name: int(values[name]) for name in ("gpus", "weights", "cache", "drafts") if name in values}
        return {self.fields[name]: parsed[name] for name in values}


def _opened(found: AcceptanceEvidence) -> str:
    return f"opened: {found.source}"


def _start(rate: AcceptanceRate) -> dict[str, Any]:
    spread = min(0.5, max(rate.high - rate.rate, rate.rate - rate.low))
    return {"acceptance": round(rate.rate, 4), "spread": round(spread, 4)}


def _in_two(words: str) -> tuple[str, str]:
    """The verdict with what it rests on, and what it consists of."""
    verdict, _, details = words.partition("\n\n")
    return verdict, details


_NO_ANSWER: Final = "# –\n\nNo result for this plan."


def _is_first(values: Mapping[str, Any]) -> bool:
    return all(values[name] == first for name, first in FIRST.items())


def _other_devices(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the curves of the devices on which a plan can run, if any, though the chosen one cannot."""
    for device in DEVICES:
        try:
            _rate(values)
            plan = _plan({**values, "device": device})
        except HardwareError:
            continue
        return curves_of(plan) | {"chosen": values["device"]}
    return {"chosen": "", "curves": []}


def _choice(label: str, names: Iterable[str], field: str, **more: Any) -> gr.Dropdown:
    return gr.Dropdown(list(names), value=FIRST[field], label=label, **({"min_width": 200} | more))


def _radio(label: str, choices: Iterable[Any], field: str, **more: Any) -> gr.Radio:
    return gr.Radio(list(choices), value=FIRST[field], label=label, elem_id=f"plan-{field}", **more)


def _number(label: str, field: str) -> gr.Number:
    return gr.Number(FIRST[field], precision=0, label=label, scale=2, min_width=100)


def _real(values: Mapping[str, Any], field: str) -> float:
    """A number of the form; raises HardwareError."""
    try:
        return float(values[field])
    except (TypeError, ValueError):
        problem = "is empty" if values[field] in (None, "") else f"{values[field]!r:.40} is not a number"
        raise HardwareError(f"{field}: {problem}; give a number.") from None


def _whole_number(values: Mapping[str, Any], field: str, allowed: Sequence[int] = ()) -> int:
    value = _real(values, field)
    number = int(value) if isfinite(value) else -1  # out of every range
    if isfinite(value) and number != value:
        raise HardwareError(f"{field}: {value:g} is not allowed; give a whole number.")
    if allowed and number not in allowed:
        raise HardwareError(f"{field}: {number} is not allowed; use {', '.join(map(str, allowed))}.")
    return number


def _rate(values: Mapping[str, Any]) -> AcceptanceRate:
    """The acceptance rate of the fields; raises HardwareError."""
    spread = _real(values, "spread")
    if not 0 <= spread <= 1:
        raise HardwareError(f"spread: {spread:g} is not allowed; use 0 to 1.")
    return hand_set(_real(values, "acceptance"), spread)


def _plan(values: Mapping[str, Any]) -> SpeedupModel:
    """The plan of what the fields hold, with the fewest GPUs and the fastest draft length where these are left open.

    Raises:
        HardwareError: for what cannot be computed.
    """
    draft, bits = (
        str(values["draft"]),
        (_whole_number(values, "weights", (16, 8, 4)), _whole_number(values, "cache", (16, 8))),
    )
    wanted = _whole_number(values, "gpus", (0, *_GPUS))
    drafts = _whole_number(values, "drafts")
    parts: dict[str, Any] = {
        "device": named("device", DEVICES, str(values["device"])),
        "engine": named("engine", ENGINES, str(values["engine"])),
        "target": quantised(read_size("target", str(values["target"])), *bits),
        "draft": None if draft == NO_DRAFTER else quantised(read_size("draft", draft), *bits),
        "acceptance": _real(values, "acceptance"),
        "batch": _whole_number(values, "batch"),
        "context": _whole_number(values, "context"),
    }
    counts = [wanted] if wanted else [count for count in _GPUS if count == 1 or parts["device"].link]
    for count in counts:
        try:
            plan = SpeedupModel(**parts, drafts=drafts or 1, gpus=count)
        except HardwareError as error:
            if count == counts[-1] or not str(error).startswith("device: "):
                raise
        else:
            return plan if drafts else plan.with_best_draft_length()
    raise AssertionError(counts)


def rows(plan: SpeedupModel) -> dict[str, Any]:
    """The value of the table: a line for every draft length that fits the device."""
    heads = ("Draft length γ", "Tokens per verification", "Verification, ms", "Drafts, ms", "Times as fast")
    plans = plan.with_each("drafts", DRAFTS)
    numbers = [(one.tokens, 1e3 * one.verification.seconds, 1e3 * one.drafting, one.speed_up) for one in plans]
    lines = [[one.drafts, *map("{:.4g}".format, row)] for one, row in zip(plans, numbers, strict=True)]
    note = f"Computed, not measured. A pass of ordinary decoding takes {_time(plan.baseline_pass.seconds)}."
    return table(heads, lines, note) | {"files": table_files("calculator", heads, lines), "link": True}


def method_rows(plan: SpeedupModel, runs: Iterable[RecordedRun]) -> dict[str, Any]:
    """The value of the table of methods: a verdict for every recorded run, with the networks of its paper."""
    heads = ("Method, recorded", "Verdict, computed", "Same distribution", "Networks of its paper", "Tokens per pass")
    machine = Machine(
        device=plan.device, engine=plan.engine, target=plan.target, batch=plan.batch, gpus=plan.gpus
    )  # fmt: skip
    lines = []
    for run in runs:
        found = recorded_verdict(run, machine)
        networks = run.target.name + (f", drafts by {run.draft.name}" if run.draft else "")
        words, tokens = str(found or "It does not fit the memory."), f"{run.report.tokens_per_pass or 0:.1f}"
        lines.append((run.title, words, run.report.fidelity, networks, tokens))
    gpus = plan.device.name if plan.gpus == 1 else f"{plan.gpus} {plan.device.name}"
    note = (
        f"On {gpus}, {plan.engine.name}, 16 bits. Computed, not measured: passes of a recorded run of a small "
        "model that ships, with the times of the networks named. The range is over passes. These networks may accept "
        "more or fewer tokens."
    )
    return table(heads, lines, note) | {"files": table_files("methods", heads, lines)}


def description(plan: SpeedupModel, rate: AcceptanceRate, source: str) -> str:
    """The answer in words, as Markdown: the verdict and what it rests on, then what it consists of."""
    best, verification = plan.with_best_draft_length(), plan.verification
    several = f"Its {plan.drafts} drafts take" if plan.drafts > 1 else "Its draft takes"
    drafts = "Drafts cost nothing" if plan.draft is None else f"{several} {_time(plan.drafting)}"
    if best.speed_up <= 1:
        advice = "No draft length is faster than ordinary decoding"
    elif best.drafts == plan.drafts:
        advice = f"γ = {plan.drafts} is the fastest"
    else:
        advice = f"γ = {best.drafts} would be the fastest, {best.speed_up:.2f} times"
    threshold = "no acceptance rate" if plan.break_even is None else f"{plan.break_even:.0%}"
    even = f"it breaks even at {threshold}"
    drafter = "by lookup" if plan.draft is None else f"by {plan.draft.name}"
    gpus = plan.device.name if plan.gpus == 1 else f"{plan.gpus} {plan.device.name}"
    ordinary, faster = plan.rates
    return (
        f"# {plan.verdict(rate)} *{rate} of drafts accepted, {source}; {even}.*\n\n"
        f"{plan.target.name}, drafts {drafter}, on {gpus}: {faster:.0f} tokens a second for each user, {ordinary:.0f} "
        f"without drafts, **computed** from data sheets, not measured. A verification yields **{plan.tokens:.2f} "
        f"tokens**, each {_time(plan.baseline_pass.seconds)} of ordinary decoding, and takes "
        f"{_time(verification.seconds)}, most of it for {_BOUNDS[verification.bound]}. {drafts}. {advice}."
        f"{_experts(plan)}"
    )


def _experts(plan: SpeedupModel) -> str:
    """Return how many experts a verification touches, in a sentence."""
    one, many = plan.experts
    if not one:
        return ""
    total, tokens = plan.target.experts, plan.batch * (plan.drafts + 1)
    return f" Its {tokens:,} tokens touch {many:.0f} of {total} experts in a layer, ordinary decoding's {one:.0f}."


def _by_kind(plan: SpeedupModel, rates: Sequence[AcceptanceRate]) -> str:
    """Return the speeds by kind of prompt, as a paragraph; empty if the source names none."""
    kinds = [rate for rate in rates if rate.kind]
    if not kinds:
        return ""
    found = []
    for rate in kinds:
        middle, low, high = (
            plan.with_each("acceptance", [each])[0].speed_up for each in (rate.rate, rate.low, rate.high)
        )
        found.append(f"{rate.kind} {times(middle)} times ({times(low)} to {times(high)})")
    return f"\n\nBy kind of prompt: {', '.join(found)}."


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


_JS: Final = (
    curves_script()
    + """
let [chosen, asked] = [null, null];
const show = () => showDevices(place, build, { curves: [], ...props.value, chosen: chosen ?? props.value?.chosen });
element.addEventListener('change', ({ target }) => {
  chosen = asked = target.value;
  trigger('choose', {});
});
document.addEventListener('draftscope-device', ({ detail: device }) => {  // the field has another device
  if (asked && device !== asked) return;  // a newer one is on its way to the field
  [chosen, asked] = [device, null];
  show();
});
"""
)


_REASONS_JS: Final = (
    curves_script() + "const show = () => showReasons(place, build, props.value);\nplace.className = 'reasons';\n"
)


def reasons_of(plan: SpeedupModel, rate: AcceptanceRate) -> dict[str, Any]:
    """The value of the curves of a verdict: speed-up by acceptance, and by batch with the fastest draft lengths."""
    verdict = plan.verdict(rate)
    turns = verdict.turns or (verdict.ends if verdict.is_worth else None)
    batches = sorted({*BATCHES, plan.batch, *([turns] if turns else [])})
    fastest = [one.with_best_draft_length() for one in replace(plan, drafts=1).with_each("batch", batches)]
    ends = [one.with_each("acceptance", (rate.low, rate.high)) for one in fastest]
    rates = plan.with_each("acceptance", [step / 50 for step in range(51)])
    return {
        "rates": [[one.acceptance, one.speed_up] for one in rates],
        "batches": [
            [one.batch, one.speed_up, *(each.speed_up for each in two)]
            for one, two in zip(fastest, ends, strict=True)
        ],
        "acceptance": plan.acceptance, "low": rate.low, "high": rate.high, "even": plan.break_even,
        "batch": plan.batch, "speed": plan.speed_up, "label": f"{times(plan.speed_up)}×",
        "worth": WORTH,
        "turn": {"batch": turns, "text": verdict.limit} if turns else None,
    }  # fmt: skip


def curves_of(plan: SpeedupModel) -> dict[str, Any]:
    """The value of the curves, in the order of `DEVICES`: names, numbers, and both in words."""
    curves = device_curves(plan)
    fastest = max((speed for each in curves for speed in each.speeds.values()), default=1.0)
    return {
        "chosen": plan.device.name,
        "longest": MAX_DRAFTS,
        "most": max(1.0, fastest),
        "curves": [
            {
                "device": each.device,
                "speeds": [*each.speeds.items()],
                "best": each.best if each.speeds else 0,
                "pays_to": each.pays_to,
                **_words(each),
            }
            for each in curves
        ],
    }


def _words(each: DeviceCurve) -> dict[str, str]:
    if not each.speeds:
        return {"fastest": "", "note": "too little memory"}
    fastest = f"{each.speeds[each.best]:.1f}× at γ {each.best}"
    if not each.pays_to:
        return {"fastest": fastest, "note": "never faster"}
    last = max(each.speeds)
    return {"fastest": fastest, "note": f"slower from γ {each.pays_to + 1}" if each.pays_to < last else "never slower"}
