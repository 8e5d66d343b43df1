"""The app put together, and what an address of it opens."""

from collections.abc import Sequence
from typing import Any, Final

import gradio as gr
import torch

from demo.addresses import read_address
from demo.pages import api, methods
from demo.pages.compare import COMPARE, IN_TURN, ComparePage
from demo.pages.figures import FiguresPage
from demo.pages.gallery import GalleryPage
from demo.pages.run import RUN, RunPage
from demo.pages.trace import TracePage
from demo.pages.which import WhichPage
from demo.panels.widgets import notice
from demo.runs.recordings import Recording, pairs
from demo.runs.tour import scenes
from demo.server.limits import KEPT_SECONDS, current
from demo.server.replies import Page
from demo.server.sessions import Shown, Visitors
from demo.server.startup import private_folder
from demo.site import AT_ONCE, QUIET, Site, Update, in_turn
from demo.theme import LOOK, watcher
from engines.config import ConfigError
from engines.models.devices import resolve_several, split
from engines.runtime.environment import device_name

_MASTHEAD = """# Draftscope
See speculative decoding happen: every draft, every verdict, every forward pass. Models run on {device}.
"""
_NAME_RUN = """() => {
  // A tab is chosen as the page is made, too.
  if (globalThis.draftscopeOpened && /compare=/.test(location.hash)) {
    history.replaceState(history.state, '', `#${draftscopePlayers.viewer.called}`);
  }
}"""
_WRONG: Final = "This address cannot be opened."
_FRAGMENT: Final = "() => location.hash"
_GO: Final = """(go) => {
  globalThis.draftscopeOpened = true;
  const button = { run: 'run', compare: 'tray-fetch' }[go];
  const press = (tries) => {
    const there = document.getElementById(button);
    if (there?.checkVisibility()) there.click();
    else if (tries) setTimeout(press, 100, tries - 1);
  };
  if (button) press(100);
}"""


class Opening:
    """What happens once when the page is loaded."""

    def __init__(self, tabs: gr.Tabs, run: RunPage, gallery: GalleryPage, compare: ComparePage) -> None:
        self.tabs, self.run, self.gallery, self.compare = tabs, run, gallery, compare
        self.fragment = gr.Textbox(visible=False)
        self.go = gr.Textbox(visible=False)

    def connect(self, blocks: gr.Blocks) -> None:
        """Read the address when the page is loaded, and press Run where it names a run."""
        run, gallery = self.run, self.gallery
        changed: list[Any] = [self.tabs, self.go, run.problem, *run.opens]
        changed += [*gallery.shows, *self.compare.opens]
        opened = blocks.load(self.open, {self.fragment}, changed, js=_FRAGMENT, **AT_ONCE)
        opened.then(None, self.go, None, js=_GO, **AT_ONCE)

    def open(self, values: Update) -> Update:
        """What the address asks for; a wrong one is told, and the page is as it always is."""
        try:
            address = read_address(values[self.fragment] or "")
            if address is None:
                return {self.go: ""}
            if address.gallery:
                return self.gallery.named(address.gallery)
            if address.compare:
                named = self.compare.named(address)
                return {self.go: "compare", self.tabs: gr.Tabs(selected=COMPARE), **named}
            return {self.go: "run", **self.run.opened(address)}
        except ConfigError as error:
            return {self.run.problem: notice("error", str(error), _WRONG)}


def build(visitors: Visitors, recordings: Sequence[Recording], gone: Sequence[str] = ()) -> gr.Blocks:
    """The whole page: `visitors` keeps their files, `recordings` are there before anything runs, `gone` should be.

    Raises ConfigError or ModelError for a device that cannot be used, or a limit that is none.
    """
    current()  # what the environment spells wrong is said before anything is served
    private_folder()
    copies = (KEPT_SECONDS // 2, KEPT_SECONDS)  # of files that were downloaded or uploaded
    blocks: gr.Blocks
    with Page(title="Draftscope", analytics_enabled=False, fill_width=True, delete_cache=copies) as blocks:
        device = device_name(torch.device(split(resolve_several())[0]))
        gr.Markdown(_MASTHEAD.format(device=device), elem_id="masthead")
        offered = pairs(recordings)
        at_hand = Shown(offered[0].recording.paths, "a recorded run") if offered else Shown()
        turned = watcher()
        site = Site(visitors, gr.State(at_hand), gr.Textbox("", visible=False), turned)
        with gr.Tabs(overflow_behavior="wrap") as tabs:
            with gr.Tab("Run", id=RUN) as run_tab:
                run = RunPage(site, offered, scenes(recordings, offered))
            with gr.Tab("Compare", id=COMPARE) as compare_tab:
                compare = ComparePage(site, run, recordings)
            with gr.Tab("Which one?") as which_tab:
                which = WhichPage(site, recordings)
            with gr.Tab("Figures") as figures_tab:
                figures = FiguresPage(site, run)
            with gr.Tab("Gallery"):
                gallery = GalleryPage(run, recordings, gone)
            with gr.Tab("Trace") as trace_tab:
                trace = TracePage(site)
            with gr.Tab("Methods"):
                methods.build()
        compare_tab.select(compare.show, compare.inputs, compare.parts, **IN_TURN)
        which_tab.select(which.draw, which.inputs, which.parts, **QUIET)
        computed = which.calculator
        which_tab.select(computed.draw, computed.inputs, computed.parts, **QUIET)
        which.connect(tabs, gallery)
        gallery.connect(tabs)
        figures_tab.select(figures.refresh, figures.inputs, figures.parts, **QUIET)
        trace_tab.select(trace.refresh, {site.shown}, trace.parts, **in_turn("trace"))
        run_tab.select(None, None, None, js=_NAME_RUN, **QUIET)
        Opening(tabs, run, gallery, compare).connect(blocks)
        compare.connect_again(tabs)
        api.build(visitors)
        for event in (blocks.load, turned.turned):
            event(None, None, site.look, js=LOOK, **QUIET)

        def leave(request: gr.Request) -> None:
            site.visitor(request).leave()

        blocks.unload(leave)
    return blocks
