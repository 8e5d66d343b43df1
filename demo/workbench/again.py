"""Compare with another setting: the run at hand once more with one thing changed, and then both side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.addresses import asked_of
from demo.decoding import Asked
from demo.site import Update
from demo.widgets import choice_row, choices
from demo.workbench.variations import variations
from traces.schema import Trace

_ASK: Final = "Compare with another setting:"


@dataclass(frozen=True, slots=True)
class AtHand:
    """The runs that the player of the Run page shows, and what the last of them was asked for."""

    asked: Asked | None = None
    paths: tuple[Path, ...] = ()


class AgainRow:
    """Buttons, one a setting that can be changed."""

    def __init__(self, traces: Sequence[Trace] = (), paths: Sequence[Path] = ()) -> None:
        """Lay them out for the runs that are shown first."""
        at_hand = _at_hand(traces, paths)
        self.at_hand = gr.State(at_hand)
        self.wanted = gr.State(())
        """Files of the runs that the next one is to stand beside."""
        self.row = choice_row("again", _offered(at_hand))

    @property
    def parts(self) -> list[Any]:
        """What `told` and `cleared` change."""
        return [self.at_hand, self.row]

    def told(self, traces: Sequence[Trace], paths: Sequence[Path]) -> Update:
        """These runs are shown now."""
        at_hand = _at_hand(traces, paths)
        return {self.at_hand: at_hand, self.row: _offered(at_hand)}

    def cleared(self) -> Update:
        """Runs are on their way."""
        return {self.row: choices("", ())}

    def chosen(self, values: Update, event: gr.EventData) -> Asked:
        """The run of the button that was pressed.

        Raises:
            gr.Error: for a button that there is not.
        """
        at_hand: AtHand = values[self.at_hand]
        offered = variations(at_hand.asked) if at_hand.asked else ()
        index = event.index
        if not isinstance(index, int) or not 0 <= index < len(offered):
            said = index if isinstance(index, int) else type(index).__name__  # gradio shows the message as HTML
            raise gr.Error(f"setting: there is no number {said}; choose one of the {len(offered)} shown.")
        return offered[index].asked


def _at_hand(traces: Sequence[Trace], paths: Sequence[Path]) -> AtHand:
    return AtHand(asked_of(traces[-1]) if traces else None, tuple(paths))


def _offered(at_hand: AtHand) -> dict[str, Any]:
    offered = variations(at_hand.asked) if at_hand.asked else ()
    return choices(_ASK, [one.label for one in offered])
