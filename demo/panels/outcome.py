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

    def __init__(self, name: str, why_name: str, traces: Sequence[Trace] = ()) -> None:
        """Lay it out for the runs that are shown first; the names are ids on the page."""
        self.facts = facts_row(outcome(traces), elem_id=name)
        with gr.Accordion(
            "What decides the speed here?", open=False, visible=bool(traces), elem_id=why_name
        ) as self.accordion:
            self.reasons = gr.Markdown(_reasons(traces), elem_classes="reading")
        self.parts: list[Any] = [self.facts, self.accordion, self.reasons]
        """What `show` changes."""

    def show(self, traces: Sequence[Trace]) -> Update:
        """The figures of some runs and the reasons, none without any."""
        visible = gr.update(visible=bool(traces))
        return {self.facts: facts(outcome(traces)), self.accordion: visible, self.reasons: _reasons(traces)}


def _reasons(traces: Sequence[Trace]) -> str:
    return "\n".join(f"- **{about}:** {text}" if about else text for about, text in why(traces).items())
