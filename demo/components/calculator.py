"""Calculator for other hardware: one verdict, what it rests on, a form, and its curves. All values are computed."""

from collections.abc import Iterable, Mapping, Sequence
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
from draftscope.demo.components.context import AT_ONCE, LATEST, Site, Update, serialized
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import (
    chosen_index,
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
from draftscope.visualizers.calculator import FIRST, NO_DRAFTER, curves_script, curves_style
from draftscope.visualizers.figures.calculator import DRAFTS, Calculation, DeviceCurve, calculator_figure, device_curves
from draftscope.visualizers.tables import table_files

_OWN: Final = "set by hand"
_ALL: Final = "all prompts"
_NAME: Final = "(link) => draftscopeAddress.name('choose', link)"
_BOUNDS: Final = {
    "launches": "what the engine adds to it, so verifying more drafts costs almost nothing",
    "memory": "reading weights and KV cache, so verifying more drafts costs almost nothing",
    "compute": "arithmetic, so every draft costs its share",
    "communication": "what GPUs send one another, so verifying more drafts costs little",
}
_GPUS: Final = (1, 2, 4, 8)


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
        self.answer = gr.Markdown(description(plan, rate, _OWN), elem_id="calculator-answer")
        self.problem = notice_box(elem_id="calculator-problem")
        self._build()
        self.panel = Panel(site, "calculator")
        self.devices = component(curves_of(plan), _JS, curves_style(), elem_id="calculator-devices")
        gr.Markdown("## Methods without a drafter of your own", elem_classes="titled")
        self.others = data_table("Methods without a drafter of your own", elem_id="calculator-methods")
        with gr.Accordion("The same by draft length, as a table; link, CSV, LaTeX and Markdown", open=False):
            self.rows = data_table("Speed by draft length", elem_id="calculator-rows")
        self.link = gr.Textbox(visible=False)
        self.inputs: set[Any] = {*self.fields.values(), self.source, self.kind, self.opened_file, site.look}
        self.parts: list[Any] = [self.answer, self.problem, self.devices, self.others, self.rows, self.link]
        self.parts += self.panel.parts
        self._connect()

    def _build(self) -> None:
        """Lay out the form."""
        names: dict[str, Any] = {"allow_custom_value": True, "info": "Or parameters, such as 7e9."}
        self.fields: dict[str, Any] = {}
        """By the fields of a plan."""
        targets = [name for name in SIZES if not name.endswith("MTP")]  # which only drafts
        with gr.Row(elem_classes="numbers"):
            with gr.Group():
                self.fields["target"] = _choice("Your model", targets, "target", **names)
                self.fields["draft"] = _choice("Drafter", (NO_DRAFTER, *SIZES), "draft", **names)
                with gr.Row():
                    bits: dict[str, Any] = {"info": "Bits a number."}
                    self.fields["weights"] = _radio("Weights", (16, 8, 4), "weights", scale=3, **bits)
                    self.fields["cache"] = _radio("KV cache", (16, 8), "cache", scale=2, **bits)
            with gr.Group():
                self.fields["device"] = _choice("Device", DEVICES, "device", info="Values of its data sheet.")
                counts = [("fewest", 0), *((str(count), count) for count in _GPUS)]
                self.fields["gpus"] = _radio("GPUs", counts, "gpus", info="They share every layer.")
                self.fields["engine"] = _choice("Engine", ENGINES, "engine", info="It adds time to every pass.")
            with gr.Group():
                self.source = gr.Dropdown(
                    [_OWN, *self.recorded, *self.measured], value=_OWN, label="Acceptance", info="Where it is from."
                )
                self.kind = gr.Radio([_ALL], value=_ALL, label="Kind of prompt", visible=False, elem_id="prompt-kind")
                rate: dict[str, Any] = {"label": "Drafts accepted", "info": "If those before them were accepted."}
                self.fields["acceptance"] = gr.Slider(0, 1, FIRST["acceptance"], step=0.01, **rate)
                within: dict[str, Any] = {"label": "Known to within ±", "info": "It makes the range of the verdict."}
                self.fields["spread"] = gr.Slider(0, 0.5, FIRST["spread"], step=0.01, **within)
        with gr.Row(elem_classes="numbers"):
            with gr.Group(), gr.Row():
                self.fields["batch"] = _number("Batch", "batch", "Sequences decoded together.")
                self.fields["context"] = _number("Context", "context", "Tokens in the KV cache.")
                length: dict[str, Any] = {"label": "Draft length γ", "info": f"0: the fastest up to {max(SHORT)}."}
                self.fields["drafts"] = gr.Slider(0, MAX_DRAFTS, FIRST["drafts"], step=1, min_width=200, **length)
            kinds = (".json", ".jsonl", ".txt", ".log", ".prom", ".gz")
            label = "Open a result of draftscope bench, a server's log or /metrics, or a trace"
            self.upload = upload_file("acceptance-upload", label, *kinds)
        self.opened_file: Any = gr.State(())
        """A tuple of `AcceptanceEvidence`."""

    def _connect(self) -> None:
        """Wire the events, one after the other: what was drawn first must not come last."""
        drawing = LATEST | serialized("calculator")
        by_hand = ("acceptance", "spread")
        for name, control in self.fields.items():
            if name == "target":
                control.input(self.choose_target, self.inputs, [*self.parts, self.fields["draft"]], **drawing)
            elif name in by_hand:
                control.input(self.set_by_hand, self.inputs, [*self.parts, self.source, self.kind], **drawing)
            else:
                control.input(self.draw, self.inputs, self.parts, **drawing)
        self.link.change(None, self.link, None, js=_NAME, **AT_ONCE)
        fields = [self.fields[name] for name in (*by_hand, "draft")]
        start = [*self.parts, *fields, self.source, self.kind]
        self.source.input(self.start_from, self.inputs, start, **drawing)
        self.kind.input(self.start_from, self.inputs, start, **drawing)
        opened = [*start, self.opened_file, self.upload]
        self.upload.upload(self.open, self.inputs | {self.upload}, opened, **drawing)
        self.devices.choose(self.choose, self.inputs, [*self.parts, self.fields["device"]], **drawing)

    def choose_target(self, values: Update, request: gr.Request) -> Update:
        """Take the drafter that is published for a model."""
        model = MODELS.get(values[self.fields["target"]])
        changed = {self.fields["draft"]: model.drafter or NO_DRAFTER} if model else {}
        return {**changed, **self.draw({**values, **changed}, request)}

    def set_by_hand(self, values: Update, request: gr.Request) -> Update:
        """Draw with a rate that is no longer the measured one."""
        changed: Update = {self.source: _OWN}
        return {**changed, self.kind: gr.update(visible=False), **self.draw({**values, **changed}, request)}

    def start_from(self, values: Update, request: gr.Request) -> Update:
        """Take the acceptance rate of a source and its kind of prompt, and no drafter where drafts were looked up."""
        source = values[self.source]
        rates = self._rates(values)
        changed: Update = {self.kind: gr.update(visible=False)}
        if pair := self.measured.get(source):
            drafter = self.fields["draft"]
            draft = values[drafter] if values[drafter] != NO_DRAFTER else FIRST["draft"]
            changed[drafter] = NO_DRAFTER if pair.drafter == "lookup" else draft
        if rates:
            kinds = {rate.kind or _ALL: rate for rate in rates}
            kind = values[self.kind] if values[self.kind] in kinds else _ALL
            rate = kinds.get(kind, rates[0])
            changed |= {self.fields["acceptance"]: round(rate.rate, 4)}
            changed[self.fields["spread"]] = round(min(0.5, max(rate.high - rate.rate, rate.rate - rate.low)), 4)
            changed[self.kind] = gr.update(choices=[*kinds], value=kind, visible=len(kinds) > 1)
            values = {**values, self.kind: kind}
        plain = {part: value for part, value in changed.items() if part is not self.kind}
        return {**changed, **self.draw({**values, **plain}, request)}

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take the acceptance of a visitor's file, or report why it has none."""
        try:
            found = opened_acceptance(values[self.upload] or b"")
        except ValueError as error:
            return {self.problem: notice("error", str(error), "Invalid file"), self.upload: None}
        names = [f"opened: {one.source}" for one in found]
        choices = [_OWN, *names, *self.recorded, *self.measured]
        values = {**values, self.opened_file: found, self.source: names[0], self.kind: _ALL}
        source = gr.update(choices=choices, value=values[self.source])
        return {**self.start_from(values, request), self.opened_file: found, self.source: source, self.upload: None}

    def _rates(self, values: Update) -> Sequence[AcceptanceRate]:
        """Return what a source measured: over all prompts, then by kind; nothing if it is set by hand."""
        source = values[self.source]
        opened: Sequence[AcceptanceEvidence] = values[self.opened_file]
        known = {f"opened: {one.source}": one for one in opened} | self.recorded
        if source in known:
            return known[source].rates
        pair = self.measured.get(source)
        return (hand_set(pair.acceptance, pair.spread),) if pair else ()

    def choose(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Take the device of a curve that was chosen."""
        changed = {self.fields["device"]: [*DEVICES][chosen_index(event, len(DEVICES), "device")]}
        return {**changed, **self.draw({**values, **changed}, request)}

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Compute and draw the answer; for an impossible plan, show the problem and the devices that could run it."""
        plan_values = {name: values[control] for name, control in self.fields.items()}
        try:
            plan, rate = _plan(plan_values), _rate(plan_values)
        except HardwareError as error:
            return {
                self.answer: _NO_ANSWER,
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
        words = description(plan, rate, source) + _by_kind(plan, rates)
        return {
            self.answer: words, self.problem: {}, self.devices: curves_of(plan), self.rows: rows(plan), self.link: link,
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
    return gr.Dropdown(list(names), value=FIRST[field], label=label, min_width=200, **more)


def _radio(label: str, choices: Iterable[Any], field: str, **more: Any) -> gr.Radio:
    return gr.Radio(list(choices), value=FIRST[field], label=label, min_width=120, elem_id=f"plan-{field}", **more)


def _number(label: str, field: str, info: str) -> gr.Number:
    return gr.Number(FIRST[field], precision=0, label=label, info=info, min_width=200)


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
const show = () => {
  if (!props.value?.curves?.length) return place.replaceChildren();
  const held = element.contains(document.activeElement);
  place.replaceChildren(deviceCurves(build, props.value));
  if (held) place.querySelector(':checked')?.focus();
};
element.addEventListener('change', ({ target }) => trigger('choose', { index: Number(target.value) }));
"""
)


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
