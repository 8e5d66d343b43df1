"""What drafts would gain on other hardware: a form, one large answer, and the curves behind it. All computed."""

from collections.abc import Iterable
from typing import Any, Final

import gradio as gr

from demo.panels.figure import Panel
from demo.panels.widgets import notice, notice_box
from demo.runs.measured import drafted
from demo.site import LATEST, Site, Update
from traces.hardware import DEVICES, ENGINES, SIZES, HardwareError, read_size
from traces.speculating import MOST_DRAFTS, Plan
from visualizers.figures.calculator import CALCULATOR, Calculation

_NONE: Final = "none: looked up, or left from the last pass"
_OWN: Final = "set by hand"
_BOUNDS: Final = {
    "launches": "what the engine adds to it, so verifying more drafts costs almost nothing",
    "memory": "reading weights and KV cache, so verifying more drafts costs almost nothing",
    "compute": "arithmetic, so every draft costs its share",
}


_DRAFTER: Final = SIZES["Llama 3.2 1B"]
_FIRST: Final = Plan(
    device=DEVICES["H100"],
    engine=ENGINES["CUDA graphs"],
    target=SIZES["Llama 3.1 8B"],
    draft=_DRAFTER,
    acceptance=0.8,
    drafts=4,
)
"""What the form opens with."""


class CalculatorPanel:
    """The form, the answer and the figure."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.measured = {str(pair): pair for pair in drafted()}
        """By their names in the form."""
        self.answer = gr.Markdown(told(_FIRST), elem_id="calculator-answer")
        self.problem = notice_box(elem_id="calculator-problem", elem_classes="panel-problem")
        names: dict[str, Any] = {"allow_custom_value": True, "info": "Or parameters, such as 7e9."}
        with gr.Row():
            self.target = _choice("Target", SIZES, _FIRST.target.name, **names)
            self.draft = _choice("Drafter", (_NONE, *SIZES), _DRAFTER.name, **names)
            self.device = _choice("Device", DEVICES, _FIRST.device.name, info="By its data sheet.")
            self.engine = _choice("Engine", ENGINES, _FIRST.engine.name, info="What it adds to a pass.")
        with gr.Row():
            self.pair = _choice("Acceptance rate as", (_OWN, *self.measured), _OWN, info="Measured here, or your own.")
            self.acceptance = gr.Slider(
                0,
                1,
                _FIRST.acceptance,
                step=0.01,
                label="Acceptance rate",
                info="Of a draft, where those before it were accepted.",
                min_width=200,
            )
            self.drafts = gr.Slider(
                1,
                MOST_DRAFTS,
                _FIRST.drafts,
                step=1,
                label="Draft length γ",
                info="Drafts to a verification.",
                min_width=200,
            )
            self.batch = gr.Number(
                _FIRST.batch, precision=0, label="Batch", info="Sequences decoded together.", min_width=200
            )
            self.context = gr.Number(
                _FIRST.context, precision=0, label="Context", info="Tokens in the KV cache.", min_width=200
            )
        self.panel = Panel(site, "calculator")
        controls: list[Any] = [
            self.target,
            self.draft,
            self.acceptance,
            self.drafts,
            self.device,
            self.engine,
            self.batch,
            self.context,
            self.pair,
        ]
        self.inputs: set[Any] = {*controls, site.look}
        self.parts: list[Any] = [self.answer, self.problem, *self.panel.parts]
        changed = [control.input for control in controls if control is not self.pair]
        gr.on(changed, self.draw, self.inputs, self.parts, **LATEST)
        start = [*self.parts, self.acceptance, self.draft]
        self.pair.input(self.start_from, self.inputs, start, **LATEST)

    def start_from(self, values: Update, request: gr.Request) -> Update:
        """Take the acceptance rate of a pair that was measured, and no network where its drafts were looked up."""
        pair = self.measured.get(values[self.pair])
        if pair is None:
            return self.draw(values, request)
        draft = values[self.draft] if values[self.draft] != _NONE else _DRAFTER.name
        changed = {self.acceptance: pair.acceptance, self.draft: _NONE if pair.drafter == "lookup" else draft}
        return {**changed, **self.draw({**values, **changed}, request)}

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Answer and draw, or say what cannot be computed and leave the last answer."""
        try:
            plan = self._plan(values)
        except HardwareError as error:
            return {self.problem: notice("error", str(error), "This cannot be computed.")}
        figure = CALCULATOR.draw(Calculation(plan, self.measured.get(values[self.pair])))
        shown = self.panel.show(CALCULATOR, figure, values[self.site.look], request)
        return {self.answer: told(plan), self.problem: {}, **shown}

    def _plan(self, values: Update) -> Plan:
        def number(control: Any, field: str) -> int:
            value = values[control]
            if not isinstance(value, int | float):
                raise HardwareError(f"{field}: is empty; give a whole number.")
            return int(value)

        draft = str(values[self.draft])
        return Plan(
            device=DEVICES[values[self.device]],
            engine=ENGINES[values[self.engine]],
            target=read_size("target", str(values[self.target])),
            draft=None if draft == _NONE else read_size("draft", draft),
            acceptance=float(values[self.acceptance]),
            drafts=int(values[self.drafts]),
            batch=number(self.batch, "batch"),
            context=number(self.context, "context"),
        )


def _choice(label: str, names: Iterable[str], value: str, **more: Any) -> gr.Dropdown:
    return gr.Dropdown(list(names), value=value, label=label, min_width=200, **more)


def told(plan: Plan) -> str:
    """The answer in words, as Markdown."""
    best, verification = plan.at_best(), plan.verification
    drafts = "Drafts cost nothing" if plan.draft is None else f"Its {plan.drafts} drafts take {_time(plan.drafting)}"
    if best.speed_up <= 1:
        advice = "No draft length is faster than ordinary decoding"
    elif best.drafts == plan.drafts:
        advice = f"γ = {plan.drafts} is the fastest"
    else:
        advice = f"γ = {best.drafts} would be the fastest, {best.speed_up:.2f}×"
    return (
        f"# {plan.speed_up:.1f}×\n\n"
        "as fast as ordinary decoding, **computed** from data sheets, not measured. "
        f"A verification yields **{plan.tokens:.2f} tokens**, each "
        f"{_time(plan.ordinary.seconds)} of ordinary decoding, and takes {_time(verification.seconds)}. {drafts}. "
        f"A verification spends most of its time on {_BOUNDS[verification.bound]}. {advice}."
    )


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
