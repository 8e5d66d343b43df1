"""Speed-up calculator for other hardware: a form, one large answer and its curves. All values are computed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import gradio as gr

from draftscope.analysis.hardware import DEVICES, ENGINES, SIZES, HardwareError, named, read_size
from draftscope.analysis.shipped_results import drafted
from draftscope.analysis.speedup_model import MAX_DRAFTS, WORTH, SpeedupModel
from draftscope.demo.components.context import AT_ONCE, LATEST, Site, Update
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import chosen_index, component, data_table, notice, notice_box, table
from draftscope.demo.jobs.links import calculator_link
from draftscope.engines.settings import ConfigError
from draftscope.recommendations import reported_near
from draftscope.visualizers.figures.calculator import DRAFTS, Calculation, DeviceCurve, calculator_figure, device_curves
from draftscope.visualizers.tables import table_files

_NONE: Final = "none: looked up, or left from the last pass"
_OWN: Final = "set by hand"
_NAME: Final = "(link) => draftscopeAddress.name('choose', link)"
_BOUNDS: Final = {
    "launches": "what the engine adds to it, so verifying more drafts costs almost nothing",
    "memory": "reading weights and KV cache, so verifying more drafts costs almost nothing",
    "compute": "arithmetic, so every draft costs its share",
}
_DRAFTER: Final = SIZES["Llama 3.2 1B"]
_FIRST: Final = SpeedupModel(
    device=DEVICES["H100"],
    engine=ENGINES["CUDA graphs"],
    target=SIZES["Llama 3.1 8B"],
    draft=_DRAFTER,
    acceptance=0.8,
    drafts=4,
)
"""Initial values of the form."""


_NO_ANSWER: Final = "# –\n\nThere is no answer for this plan."


class CalculatorPanel:
    """The form, the answer and the figure."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.measured = {str(pair): pair for pair in drafted()}
        """By their names in the form."""
        self.answer = gr.Markdown(description(_FIRST), elem_id="calculator-answer")
        self.problem = notice_box(elem_id="calculator-problem")
        names: dict[str, Any] = {"allow_custom_value": True, "info": "Or parameters, such as 7e9."}
        self.fields: dict[str, Any] = {}
        """By the fields of a plan."""
        with gr.Row():
            self.fields["target"] = _choice("Target", SIZES, _FIRST.target.name, **names)
            self.fields["draft"] = _choice("Drafter", (_NONE, *SIZES), _DRAFTER.name, **names)
            self.fields["device"] = _choice("Device", DEVICES, _FIRST.device.name, info="By its data sheet.")
            self.fields["engine"] = _choice("Engine", ENGINES, _FIRST.engine.name, info="What it adds to a pass.")
        with gr.Row():
            self.pair = _choice("Acceptance rate as", (_OWN, *self.measured), _OWN, info="Measured here, or your own.")
            sliders = {
                "acceptance": (0, 1, 0.01, "Acceptance rate", "Of a draft, where those before it were accepted."),
                "drafts": (1, MAX_DRAFTS, 1, "Draft length γ", "Drafts to a verification."),
            }
            for name, (low, high, step, label, info) in sliders.items():
                value = getattr(_FIRST, name)
                self.fields[name] = gr.Slider(low, high, value, step=step, label=label, info=info, min_width=200)
            numbers = {
                "batch": ("Batch", "Sequences decoded together."),
                "context": ("Context", "Tokens in the KV cache."),
            }
            for name, (label, info) in numbers.items():
                value = getattr(_FIRST, name)
                self.fields[name] = gr.Number(value, precision=0, label=label, info=info, min_width=200)
        self.devices = component(curves_of(_FIRST), _JS, _CSS, elem_id="calculator-devices")
        self.panel = Panel(site, "calculator")
        with gr.Accordion("The same by draft length, as a table; link, CSV, LaTeX and Markdown", open=False):
            self.rows = data_table("Speed by draft length", elem_id="calculator-rows")
        self.link = gr.Textbox(visible=False)
        self.inputs: set[Any] = {*self.fields.values(), self.pair, site.look}
        self.parts: list[Any] = [self.answer, self.problem, self.devices, self.rows, self.link, *self.panel.parts]
        gr.on([control.input for control in self.fields.values()], self.draw, self.inputs, self.parts, **LATEST)
        self.link.change(None, self.link, None, js=_NAME, **AT_ONCE)
        start = [*self.parts, self.fields["acceptance"], self.fields["draft"]]
        self.pair.input(self.start_from, self.inputs, start, **LATEST)
        self.devices.choose(self.choose, self.inputs, [*self.parts, self.fields["device"]], **LATEST)

    def start_from(self, values: Update, request: gr.Request) -> Update:
        """Take the acceptance rate of a pair that was measured, and no network where its drafts were looked up."""
        pair = self.measured.get(values[self.pair])
        if pair is None:
            return self.draw(values, request)
        drafter, acceptance = self.fields["draft"], self.fields["acceptance"]
        draft = values[drafter] if values[drafter] != _NONE else _DRAFTER.name
        changed = {acceptance: pair.acceptance, drafter: _NONE if pair.drafter == "lookup" else draft}
        return {**changed, **self.draw({**values, **changed}, request)}

    def choose(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Take the device of a curve that was chosen."""
        changed = {self.fields["device"]: [*DEVICES][chosen_index(event, len(DEVICES), "device")]}
        return {**changed, **self.draw({**values, **changed}, request)}

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Compute and draw the answer; for an impossible plan, show the problem and the devices that could run it."""
        plan_values = {name: values[control] for name, control in self.fields.items()}
        try:
            plan = _plan(plan_values)
        except HardwareError as error:
            return {
                self.answer: _NO_ANSWER,
                self.problem: notice("error", str(error), "This cannot be computed."),
                self.devices: _other_devices(plan_values),
                self.rows: {},
                self.link: "",
                **self.panel.hide("Nothing can be drawn for this plan."),
            }
        figure = calculator_figure.draw(Calculation(plan, self.measured.get(values[self.pair]), reported_near(plan)))
        shown = self.panel.show(calculator_figure, figure, values[self.site.look], request)
        link = "" if plan == _FIRST else calculator_link(plan_values)
        words = {self.answer: description(plan), self.problem: {}, self.devices: curves_of(plan), self.rows: rows(plan)}
        return {**words, self.link: link, **shown}

    def opened(self, values: Mapping[str, str]) -> Update:
        """Return the updates that fill the form from a link.

        Raises:
            ConfigError: If a field is unknown or its value is invalid.
        """
        if unknown := values.keys() - self.fields.keys():
            raise ConfigError(f"plan: there is no field {min(unknown)!r:.60}; use {', '.join(self.fields)}.")
        try:
            plan = _plan({name: control.value for name, control in self.fields.items()} | dict(values))
        except HardwareError as error:
            raise ConfigError(str(error)) from None
        plan_fields = {"target": values.get("target"), "draft": values.get("draft"), "device": plan.device.name}
        plan_fields["engine"] = plan.engine.name
        return {self.fields[name]: plan_fields.get(name, getattr(plan, name)) for name in values}


def _other_devices(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the curves of the devices on which a plan can run, if any, though the chosen one cannot."""
    for device in DEVICES:
        try:
            plan = _plan({**values, "device": device})
        except HardwareError:
            continue
        return curves_of(plan) | {"chosen": values["device"]}
    return {"chosen": "", "curves": []}


def _choice(label: str, names: Iterable[str], value: str, **more: Any) -> gr.Dropdown:
    return gr.Dropdown(list(names), value=value, label=label, min_width=200, **more)


def _plan(values: Mapping[str, Any]) -> SpeedupModel:
    """The plan of what the fields hold.

    Raises:
        HardwareError: for what cannot be computed.
    """

    def number(field: str) -> float:
        try:
            return float(values[field])
        except (TypeError, ValueError):
            problem = "is empty" if values[field] in (None, "") else f"{values[field]!r:.40} is not a number"
            raise HardwareError(f"{field}: {problem}; give a whole number.") from None

    def integer(field: str) -> int:
        value = number(field)
        return int(value) if isfinite(value) else -1  # out of every range

    draft = str(values["draft"])
    return SpeedupModel(
        device=named("device", DEVICES, str(values["device"])),
        engine=named("engine", ENGINES, str(values["engine"])),
        target=read_size("target", str(values["target"])),
        draft=None if draft == _NONE else read_size("draft", draft),
        acceptance=number("acceptance"),
        drafts=integer("drafts"),
        batch=integer("batch"),
        context=integer("context"),
    )


def rows(plan: SpeedupModel) -> dict[str, Any]:
    """The value of the table: a line for every draft length that fits the device."""
    heads = ("Draft length γ", "Tokens per verification", "Verification, ms", "Drafts, ms", "Times as fast")
    plans = plan.with_each("drafts", DRAFTS)
    numbers = [(one.tokens, 1e3 * one.verification.seconds, 1e3 * one.drafting, one.speed_up) for one in plans]
    lines = [[one.drafts, *map("{:.4g}".format, row)] for one, row in zip(plans, numbers, strict=True)]
    note = f"Computed, not measured. A pass of ordinary decoding takes {_time(plan.baseline_pass.seconds)}."
    return table(heads, lines, note) | {"files": table_files("calculator", heads, lines), "link": True}


def description(plan: SpeedupModel) -> str:
    """The answer in words, as Markdown: the verdict with its range and limits, then what it consists of."""
    best, verification = plan.with_best_draft_length(), plan.verification
    drafts = "Drafts cost nothing" if plan.draft is None else f"Its {plan.drafts} drafts take {_time(plan.drafting)}"
    if best.speed_up <= 1:
        advice = "No draft length is faster than ordinary decoding"
    elif best.drafts == plan.drafts:
        advice = f"γ = {plan.drafts} is the fastest"
    else:
        advice = f"γ = {best.drafts} would be the fastest, {best.speed_up:.2f}×"
    verdict = "Yes" if plan.speed_up >= WORTH else "Hardly" if plan.speed_up > 1 else "No"
    return (
        f"# {verdict}: about {plan.speed_up:.1f}×\n\n"
        f"as fast as ordinary decoding, **computed** from data sheets, not measured. {_range(plan)} {_limits(plan)}\n\n"
        f"A verification yields **{plan.tokens:.2f} tokens**, each "
        f"{_time(plan.baseline_pass.seconds)} of ordinary decoding, and takes {_time(verification.seconds)}. {drafts}. "
        f"A verification spends most of its time on {_BOUNDS[verification.bound]}. {advice}."
    )


def _range(plan: SpeedupModel) -> str:
    """Return how much depends on the acceptance rate."""
    low, high = (replace(plan, acceptance=min(1.0, max(0.0, plan.acceptance + change))) for change in (-0.1, 0.1))
    break_even = plan.break_even
    even = "no acceptance rate breaks even" if break_even is None else f"it breaks even at {break_even:.0%}"
    span = f"From {low.acceptance:.0%} to {high.acceptance:.0%} acceptance"
    return f"{span} it is {low.speed_up:.1f}× to {high.speed_up:.1f}×; {even}."


def _limits(plan: SpeedupModel) -> str:
    """Return up to which batch it is worth it."""
    largest = plan.largest_batch()
    if largest is None:
        return f"No batch is {WORTH:g}× as fast."
    return f"With the fastest γ of each batch, {WORTH:g}× or more up to batch {largest:,}."


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


_JS: Final = """
const [WIDE, TALL] = [160, 64];
const drawn = (tag, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const curve = ({ speeds, best, pays_to: last }, { longest, most }) => {
  const x = (drafts) => 4 + ((WIDE - 8) * Math.log(drafts)) / Math.log(longest);
  const y = (speed) => TALL - 4 - ((TALL - 10) * speed) / most;
  const points = speeds.map(([drafts, speed]) => [x(drafts), y(speed)]);
  const at = points[speeds.findIndex(([drafts]) => drafts === best)];
  const ends = last > 0 && last < speeds.at(-1)[0] ? [x(last + 0.5)] : [];
  return drawn('svg', { viewBox: `0 0 ${WIDE} ${TALL}`, 'aria-hidden': 'true' },
    drawn('path', { class: 'one', d: `M0 ${y(1)}H${WIDE}` }),
    drawn('path', { d: `M${points.map((one) => one.join(' ')).join('L')}` }),
    ...ends.map((end) => drawn('path', { class: 'cross', d: `M${end} ${y(1) - 7}v14` })),
    drawn('circle', { cx: at[0], cy: at[1], r: 4 }));
};
const show = () => {
  const { chosen, curves = [], ...scale } = props.value ?? {};
  if (!curves.length) return place.replaceChildren();
  const held = element.contains(document.activeElement);
  const one = (each, index) => {
    const radio = build('input', { type: 'radio', name: 'calculator-device', value: index });
    radio.checked = each.device === chosen;
    radio.disabled = !each.speeds.length;
    return build('label', { 'data-no-terms': '' }, radio,
      build('strong', {}, each.device), build('span', {}, each.fastest),
      ...(each.speeds.length ? [curve(each, scale)] : []), build('small', {}, each.note));
  };
  place.replaceChildren(build('fieldset', {},
    build('legend', {}, 'Computed speed-up by draft length γ, on every device'),
    build('p', {}, `γ from 1 to ${scale.longest}. Dotted line: ordinary decoding. Dot: the fastest γ. ` +
      'Orange mark: from there on slower than ordinary decoding.'), ...curves.map(one)));
  if (held) place.querySelector(':checked')?.focus();
};
element.addEventListener('change', ({ target }) => trigger('choose', { index: Number(target.value) }));
"""
_CSS: Final = """
fieldset { display: grid; grid-template-columns: repeat(auto-fill, minmax(max(140px, 15%), 1fr)); gap: 8px;
  min-width: 0; margin: 0; padding: 0; border: 0; }
legend { margin: 0 0 2px; padding: 0; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
p, small, span { color: var(--body-text-color-subdued); font-variant-numeric: tabular-nums; }
p { grid-column: 1 / -1; margin: 0; font-size: 13px; }
label { position: relative; display: grid; grid-template-columns: 1fr auto; align-content: start; gap: 2px 8px;
  margin: 0; padding: 8px 10px; border: 1px solid var(--border-color-primary); border-radius: 10px; font-size: 13px;
  color: var(--body-text-color); cursor: pointer; }
label:hover:has(:enabled) { border-color: var(--color-accent); }
label:has(:checked) { border-color: var(--color-accent); box-shadow: inset 0 0 0 2px var(--color-accent); }
label:has(:disabled) { border-style: dashed; cursor: default; }
label:has(:focus-visible) { outline: 3px solid var(--color-accent); outline-offset: 2px; }
input { position: absolute; opacity: 0; }
svg, small { grid-column: 1 / -1; }
svg { display: block; width: 100%; overflow: visible; }
path { fill: none; stroke: var(--body-text-color-subdued); stroke-width: 2; }
label:has(:checked) path:not([class]) { stroke: var(--color-accent); stroke-width: 3; }
path.one { stroke-width: 1; stroke-dasharray: 3 3; }
path.cross { stroke: #D55E00; stroke-width: 2.5; }
circle { fill: var(--body-text-color); }
small { font-size: 12px; }
"""


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
