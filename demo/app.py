"""The app put together, and what an address of it opens."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import gradio as gr
import torch

from draftscope.demo.components.calculator import CalculatorPanel
from draftscope.demo.components.context import AT_ONCE, PRESS, QUIET, Site, Update, serialized
from draftscope.demo.components.first_screen import first_screen
from draftscope.demo.components.theme import LOOK, watcher
from draftscope.demo.components.widgets import component, notice
from draftscope.demo.jobs.links import CHOOSE, COMPARE, LEARN, WATCH, parse_link
from draftscope.demo.jobs.recordings import Recording, pairs
from draftscope.demo.jobs.tour import scenes
from draftscope.demo.pages import api
from draftscope.demo.pages.choose import ChoosePage
from draftscope.demo.pages.compare import IN_TURN, ComparePage
from draftscope.demo.pages.learn import LearnPage
from draftscope.demo.pages.watch import WatchPage
from draftscope.demo.server.api_errors import ApiBlocks
from draftscope.demo.server.limits import FILE_LIFETIME_SECONDS, server_limits
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.demo.server.startup import private_folder
from draftscope.engines.models.catalog import registered_folders
from draftscope.engines.models.devices import parse_devices, resolve_devices
from draftscope.engines.runtime.environment import device_name
from draftscope.engines.settings import ConfigError
from draftscope.traces.version import __version__

_MASTHEAD = """# Draftscope
See speculative decoding happen.
"""
_SKIP_JS: Final = """
const form = (tries) => {
  const field = document.querySelector('#prompt :is(textarea, input):enabled, #run');
  if (field?.checkVisibility()) field.focus();
  else if (tries) setTimeout(form, 50, tries - 1);
};
const link = build('a', { href: '#run' });
link.addEventListener('click', (event) => {
  event.preventDefault();
  document.querySelector('[data-tab-id=watch]').click();
  form(100);
});
place.append(link);
const show = () => { link.textContent = props.value; };
"""
_SKIP_CSS: Final = """
a { position: absolute; z-index: 10; padding: 8px 16px; border-radius: 8px; background: #0072b2; color: #ffffff; }
a:not(:focus) { clip-path: inset(50%); }
"""
_WRONG: Final = "This address cannot be opened."
_FRAGMENT: Final = "() => globalThis.draftscopeAsked ?? location.hash"
"""What the address asked for as the page began: what plays since then has written its own name there."""
_CHOSEN: Final = "() => globalThis.draftscopeOpened && draftscopeAddress.chooseTab('{tab}')"
"""A tab is chosen as the page is made, too: what the address names is not there yet."""
_GO: Final = f"""(button) => {{
  globalThis.draftscopeOpened = true;
  if (button) ({PRESS})('body:not([data-restoring]) #' + button);  // a kept project comes first
}}"""


class PageLoadHandler:
    """Handler that runs once when the page is loaded."""

    def __init__(self, tabs: gr.Tabs, watch: WatchPage, compare: ComparePage, calculator: CalculatorPanel) -> None:
        self.tabs, self.watch, self.compare, self.calculator = tabs, watch, compare, calculator
        self.fragment = gr.Textbox(visible=False)
        self.go = gr.Textbox(visible=False)
        """The button to press then, by its id."""

    def connect(self, blocks: gr.Blocks) -> None:
        """Read the address when the page is loaded, and press Run where it names a run."""
        changed: list[Any] = [self.tabs, self.go, *self.watch.replays, *self.compare.opens]
        changed += self.calculator.fields.values()
        opened = blocks.load(self.open, {self.fragment}, changed, js=_FRAGMENT, **AT_ONCE)
        opened.then(None, self.go, None, js=_GO, **AT_ONCE)

    def open(self, values: Update) -> Update:
        """Open what the link asks for. An invalid link shows an error, and the page opens as usual."""
        try:
            address = parse_link(values[self.fragment] or "")
            if address is None:
                return {self.go: ""}
            tab = address.tab or (COMPARE if address.compare else WATCH)
            opened: Update = {self.go: "", self.tabs: gr.Tabs(selected=tab)}
            if address.gallery:
                opened |= self.watch.replay(self.watch.gallery.named(address.gallery), placed=True)
            elif address.plan:
                opened |= self.calculator.opened(address.plan)
            elif address.compare:
                opened |= {self.go: "tray-fetch", **self.compare.named(address)}
            elif address.request:
                opened |= {self.go: "run", **self.watch.opened(address)}
            return opened
        except ConfigError as error:
            return {self.watch.problem: notice("error", str(error), _WRONG)}


def build(visitors: Visitors, recordings: Sequence[Recording], missing: Sequence[str] = ()) -> gr.Blocks:
    """Build the whole page.

    Args:
        visitors: Stores the files of the users.
        recordings: Recorded runs that are shown before anything is run.
        missing: Listed recordings that are missing or invalid.

    Raises:
        ConfigError: If the device or a limit is invalid.
        ModelError: If the device is missing.
    """
    server_limits()  # raises before anything is served
    registered_folders()
    private_folder()
    copies = (FILE_LIFETIME_SECONDS // 2, FILE_LIFETIME_SECONDS)  # of files that were downloaded or uploaded
    blocks: ApiBlocks
    with ApiBlocks(title="Draftscope", analytics_enabled=False, fill_width=True, delete_cache=copies) as blocks:
        device = device_name(torch.device(parse_devices(resolve_devices())[0]))
        component("Skip to the run form", _SKIP_JS, _SKIP_CSS, elem_id="skip")
        gr.Markdown(_MASTHEAD, elem_id="masthead")
        offered = pairs(recordings)
        turned = watcher()
        site = Site(visitors, gr.State(CurrentTraces()), gr.Textbox("", visible=False), turned)
        with gr.Tabs(overflow_behavior="wrap", elem_id="pages") as tabs:
            with gr.Tab("Watch", id=WATCH) as watch_tab:
                watch = WatchPage(site, offered, scenes(recordings, offered), recordings, missing)
            with gr.Tab("Compare", id=COMPARE) as compare_tab:
                compare = ComparePage(site, watch, recordings)
            with gr.Tab("Choose", id=CHOOSE) as choose_tab:
                choose = ChoosePage(site, recordings)
            with gr.Tab("Learn", id=LEARN) as learn_tab:
                LearnPage(site, recordings)
        gr.Markdown(f"Draftscope {__version__}. Models run on {device}.", elem_id="device", elem_classes="place")
        for tab in (watch_tab, compare_tab, choose_tab, learn_tab):  # before what waits for the server
            tab.select(None, js=_CHOSEN.format(tab=tab.id), **QUIET)
        compare_tab.select(compare.show, compare.inputs, compare.parts, **IN_TURN)
        choose_tab.select(choose.draw, choose.inputs, choose.parts, **serialized("choose"))
        computed = choose.calculator
        computed.draw_when(choose_tab.select)
        choose.connect(tabs, watch)
        PageLoadHandler(tabs, watch, compare, computed).connect(blocks)
        compare.connect_again(tabs)
        api.build(visitors)
        blocks.beginning = first_screen(watch.offer, list(offered[0].recording.traces) if offered else [])
        for event in (blocks.load, turned.turned):
            event(None, None, site.look, js=LOOK, **QUIET)

        def leave(request: gr.Request) -> None:
            with suppress(FileNotFoundError, FileExistsError):  # the app is stopped, and removes them itself
                site.visitor(request).delete_files()

        blocks.unload(leave)
    return blocks
