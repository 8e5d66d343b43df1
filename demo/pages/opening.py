"""Opening an address: what it names is shown, and a run that it names is decoded again."""

from typing import Any, Final

import gradio as gr

from demo.addresses import read_address
from demo.pages.gallery import GalleryPage
from demo.pages.run import RunPage
from demo.site import AT_ONCE, Update
from demo.widgets import notice
from engines.config import ConfigError

RUN, GALLERY = "run", "gallery"
"""Ids of tabs."""
_WRONG: Final = "This address cannot be opened."
_FRAGMENT: Final = "() => location.hash"
_GO: Final = """(go) => {
  globalThis.draftscopeOpened = true;
  if (go === 'run') document.getElementById('run').click();
}"""


class Opening:
    """What happens once when the page is loaded."""

    def __init__(self, tabs: gr.Tabs, run: RunPage, gallery: GalleryPage) -> None:
        self.tabs, self.run, self.gallery = tabs, run, gallery
        self.fragment = gr.Textbox(visible=False)
        self.go = gr.Textbox(visible=False)

    def connect(self, blocks: gr.Blocks) -> None:
        """Read the address when the page is loaded, and press Run where it names a run."""
        run, gallery = self.run, self.gallery
        changed: list[Any] = [self.tabs, self.go, run.problem, run.opening, *run.form, *run.presets.values()]
        changed += gallery.shows
        opened = blocks.load(self.open, {self.fragment}, changed, js=_FRAGMENT, **AT_ONCE)
        opened.then(None, self.go, None, js=_GO, **AT_ONCE)

    def open(self, values: Update) -> Update:
        """What the address asks for; a wrong one is told, and the page is as it always is."""
        try:
            address = read_address(values[self.fragment] or "")
            if address is None:
                return {self.go: ""}
            if address.gallery:
                return {self.tabs: gr.Tabs(selected=GALLERY), **self.gallery.named(address.gallery)}
            return {self.go: "run", **self.run.opened(address)}
        except ConfigError as error:
            return {self.run.problem: notice("error", str(error), _WRONG)}
