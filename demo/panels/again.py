"""Compare with another setting: buttons for the run at hand once more, with one thing changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.addresses import asked_of
from demo.panels.widgets import choice_row, choices, chosen_index
from demo.runs.decoding import Asked
from demo.runs.variations import Variation, variations
from demo.site import Update
from traces.schema import Trace

_ASK: Final = "Compare with another setting:"


@dataclass(frozen=True, slots=True)
class AtHand:
    """The runs that the player of the Run page shows, and what the last of them was asked for."""

    asked: Asked | None = None
    paths: tuple[Path, ...] = ()

    @classmethod
    def of(cls, traces: Sequence[Trace], paths: Sequence[Path]) -> "AtHand":
        """The runs in some files."""
        return cls(asked_of(traces[-1]) if traces else None, tuple(paths))

    @property
    def offered(self) -> Sequence[Variation]:
        """What it can be compared with."""
        return variations(self.asked) if self.asked else ()

    @property
    def choices(self) -> dict[str, Any]:
        """The value of the row of buttons."""
        return choices(_ASK, [one.label for one in self.offered])


class AgainRow:
    """Buttons, one a setting that can be changed."""

    def __init__(self, traces: Sequence[Trace] = (), paths: Sequence[Path] = ()) -> None:
        """Lay them out for the runs that are shown first."""
        at_hand = AtHand.of(traces, paths)
        self.at_hand = gr.State(at_hand)
        self.wanted = gr.State(())
        """Files of the runs that the next one is to stand beside."""
        self.row = choice_row("again", at_hand.choices)

    @property
    def parts(self) -> list[Any]:
        """What `show` and `cleared` change."""
        return [self.at_hand, self.row]

    def show(self, traces: Sequence[Trace], paths: Sequence[Path]) -> Update:
        """These runs are shown now."""
        at_hand = AtHand.of(traces, paths)
        return {self.at_hand: at_hand, self.row: at_hand.choices}

    def cleared(self) -> Update:
        """Runs are on their way."""
        return {self.row: choices("", ())}

    def chosen(self, values: Update, event: gr.EventData) -> Asked:
        """The run of the button that was pressed.

        Raises:
            gr.Error: for a button that there is not.
        """
        offered = values[self.at_hand].offered
        variation: Variation = offered[chosen_index(event, len(offered), "setting")]
        return variation.asked
