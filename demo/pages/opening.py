"""Opening an address: what it names is shown, and a run that it names is decoded again."""

from typing import Any, Final

import gradio as gr

from demo.addresses import read_address
from demo.pages.compare import COMPARE, ComparePage
from demo.pages.gallery import GALLERY, GalleryPage
from demo.pages.run import RunPage
from demo.panels.widgets import notice
from demo.site import AT_ONCE, Update
from engines.config import ConfigError

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
        changed += [*gallery.shows, self.compare.wanted, self.compare.fetch]
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
            if address.compare:
                named = self.compare.named(address.compare)
                return {self.go: "compare", self.tabs: gr.Tabs(selected=COMPARE), **named}
            return {self.go: "run", **self.run.opened(address)}
        except ConfigError as error:
            return {self.run.problem: notice("error", str(error), _WRONG)}
