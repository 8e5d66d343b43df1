"""What "Compare with another setting" does: it fills the form and presses Run, and Compare then shows the runs."""

from typing import Any, Final

import gradio as gr

from demo.addresses import Address
from demo.pages.compare import IN_TURN, ComparePage
from demo.pages.opening import COMPARE
from demo.pages.run import RunPage
from demo.sessions import Shown
from demo.site import AT_ONCE, Update

_PRESS: Final = "() => document.getElementById('run').click()"


class Again:
    """Once more, with one thing changed."""

    def __init__(self, tabs: gr.Tabs, run: RunPage, compare: ComparePage) -> None:
        self.tabs, self.run, self.compare = tabs, run, compare

    def connect(self) -> None:
        """From the press of a button to the runs beside one another."""
        run, again = self.run, self.run.again
        changed: list[Any] = [again.wanted, *run.opens]
        chosen = again.row.choose(self.vary, {again.at_hand}, changed, **AT_ONCE)
        chosen.success(None, None, None, js=_PRESS, **AT_ONCE)
        given = {again.wanted, run.site.shown, *self.compare.inputs}
        told = [again.wanted, self.tabs, run.site.shown, *self.compare.parts]
        run.over.then(self.show, given, told, **IN_TURN)

    def vary(self, values: Update, event: gr.EventData) -> Update:
        """Fill the form; the runs that are shown now are what the next one stands beside."""
        again = self.run.again
        asked = again.chosen(values, event)
        return {again.wanted: values[again.at_hand].paths, **self.run.opened(Address(asked=asked))}

    def show(self, values: Update, request: gr.Request) -> Update:
        """Tick the runs from before and the one that is over; without a new one nothing happens."""
        wanted = values[self.run.again.wanted]
        shown: Shown = values[self.run.site.shown]
        done: Update = {self.run.again.wanted: ()}
        if not wanted or set(shown.paths) & set(wanted):
            return done
        told = self.compare.beside(wanted, shown.paths, values, request)
        return {**done, **told, self.tabs: gr.Tabs(selected=COMPARE)}
