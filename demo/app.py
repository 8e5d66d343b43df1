"""The app put together."""

from collections.abc import Sequence

import gradio as gr
import torch

from demo.pages import api, methods
from demo.pages.compare import COMPARE, IN_TURN, ComparePage
from demo.pages.figures import FiguresPage
from demo.pages.gallery import GALLERY, GalleryPage
from demo.pages.opening import Opening
from demo.pages.run import RunPage
from demo.pages.trace import TracePage
from demo.pages.which import WhichPage
from demo.runs.recordings import Recording, pairs
from demo.runs.tour import scenes
from demo.server.limits import KEPT_SECONDS, current
from demo.server.replies import Page
from demo.server.sessions import Shown, Visitors
from demo.server.startup import private_folder
from demo.site import QUIET, Site
from demo.theme import LOOK, watcher
from engines.models.devices import resolve_several, split
from engines.runtime.environment import device_name

_MASTHEAD = """# Draftscope
See speculative decoding happen: every draft, every verdict, every forward pass. Models run on {device}.
"""
_NAME_RUN = """() => {
  // A tab is chosen as the page is made, too.
  if (globalThis.draftscopeOpened && /(gallery|compare)=/.test(location.hash)) {
    history.replaceState(history.state, '', `#${globalThis.draftscopeRun ?? ''}`);
  }
}"""


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
            with gr.Tab("Run") as run_tab:
                run = RunPage(site, offered, scenes(recordings, offered))
            with gr.Tab("Compare", id=COMPARE) as compare_tab:
                compare = ComparePage(site, run, recordings)
            with gr.Tab("Which one?") as which_tab:
                which = WhichPage(site, recordings)
            with gr.Tab("Figures") as figures_tab:
                figures = FiguresPage(site, run)
            with gr.Tab("Gallery", id=GALLERY):
                gallery = GalleryPage(site, recordings, gone)
            with gr.Tab("Trace") as trace_tab:
                trace = TracePage(site)
            with gr.Tab("Methods"):
                methods.build()
        compare_tab.select(compare.show, compare.inputs, compare.parts, **IN_TURN)
        which_tab.select(which.draw, which.inputs, which.parts, **QUIET)
        which.connect(tabs, gallery)
        figures_tab.select(figures.refresh, figures.inputs, figures.parts, **QUIET)
        trace_tab.select(trace.refresh, {site.shown}, trace.parts, **QUIET)
        run_tab.select(None, None, None, js=_NAME_RUN, **QUIET)
        Opening(tabs, run, gallery, compare).connect(blocks)
        compare.connect_again(tabs)
        api.build()
        for event in (blocks.load, turned.turned):
            event(None, None, site.look, js=LOOK, **QUIET)

        def leave(request: gr.Request) -> None:
            site.visitor(request).leave()

        blocks.unload(leave)
    return blocks
