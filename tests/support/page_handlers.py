"""The page without its server: handlers can be called as the page would call them."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from draftscope.demo.app import PageLoadHandler
from draftscope.demo.components.calculator import CalculatorPanel
from draftscope.demo.components.context import Site, Update
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.pages.compare import ComparePage
from draftscope.demo.pages.watch import WatchPage
from draftscope.demo.server.sessions import CurrentTraces, Visitors


@dataclass
class Parts:
    """The pages that speak to one another."""

    blocks: gr.Blocks
    site: Site
    watch: WatchPage
    compare: ComparePage
    opening: PageLoadHandler

    @classmethod
    def build(cls, recorded: Sequence[Recording]) -> "Parts":
        with gr.Blocks() as blocks:
            site = Site(Visitors(), gr.State(CurrentTraces()), gr.Textbox("", visible=False))
            watch, tabs = WatchPage(site, recordings=recorded), gr.Tabs()
            compare = ComparePage(site, watch, recorded)
            compare.connect_again(tabs)
            return cls(blocks, site, watch, compare, PageLoadHandler(tabs, watch, compare, CalculatorPanel(site)))

    def values(self, **more: object) -> Update:
        """The values of the Compare page, nothing being chosen; `more` by the names of its parts."""
        chooser = self.compare.chooser
        values = {
            self.compare.set: CurrentTraces(),
            self.compare.on: "",
            self.compare.saved: (),
            self.compare.left_out: (),
            self.site.look: "",
            self.site.shown: CurrentTraces(),
        }
        values |= {chooser.name: None, chooser.scope: "Whole run", chooser.step: 0}
        values |= dict(zip(chooser.print_form.controls, ("screen", "light", 8), strict=True))
        return values | {getattr(self.compare, name): value for name, value in more.items()}
