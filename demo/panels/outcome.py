"""What a run came to: its figures, and on request what decides its speed."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from demo.panels.widgets import facts, facts_row
from demo.runs.outcome import outcome, why
from demo.site import Update
from traces.schema import Trace


class OutcomePanel:
    """Figures side by side, and the reasons below them, closed until they are asked for."""

    def __init__(self) -> None:
        self.facts = facts_row(elem_id="outcome")
        with gr.Accordion("What decides the speed here?", open=False, visible=False, elem_id="why") as self.accordion:
            self.reasons = gr.Markdown(elem_classes="reading")
        self.parts: list[Any] = [self.facts, self.accordion, self.reasons]
        """What `show` changes."""

    def show(self, traces: Sequence[Trace]) -> Update:
        """The figures of some runs and the reasons, none without any."""
        reasons = "\n".join(f"- **{about}:** {text}" if about else text for about, text in why(traces).items())
        visible = gr.update(visible=bool(traces))
        return {self.facts: facts(outcome(traces)), self.accordion: visible, self.reasons: reasons}
