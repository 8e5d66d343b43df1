"""State and event options shared by the pages."""

import json
from dataclasses import dataclass
from typing import Any, Final

import gradio as gr

from draftscope.demo.server.sessions import Visitor, Visitors

Update = dict[Any, Any]
"""Component -> new value."""

PRIVATE: Final[dict[str, Any]] = {"api_visibility": "private"}
"""Options of events that are not part of the public API: all except two."""
QUIET: Final[dict[str, Any]] = {"show_progress": "hidden", "show_progress_on": (), **PRIVATE}
LATEST: Final[dict[str, Any]] = {"trigger_mode": "always_last", **QUIET}
"""For what shows a form as it is now: without it, gradio drops a change made while another is being drawn.

Not for events that carry data: in place of the last one, gradio sends the data of the first again.
"""
EACH: Final[dict[str, Any]] = {"trigger_mode": "multiple", **QUIET}
"""For events that carry data: without it, gradio drops one that comes while another is being answered."""
AT_ONCE: Final[dict[str, Any]] = {"queue": False, **QUIET}
"""Options of events that need no model and must not wait for one."""
AT_ONCE_LATEST: Final[dict[str, Any]] = AT_ONCE | LATEST
AT_ONCE_EACH: Final[dict[str, Any]] = AT_ONCE | EACH


def unread(values: Update, update: Update) -> Update:
    """Return an update without the values that were read: by now a control may have a newer one."""
    return {
        part: {name: each for name, each in change.items() if name != "value"}
        if isinstance(change, dict) and "__type__" in change and part in values and change.get("value") == values[part]
        else change
        for part, change in update.items()
    }


def scroll_to(part: str) -> str:
    """Script that brings the part of the page with an id into sight."""
    return f"""() => document.getElementById('{part}').scrollIntoView({{
  behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth' }})"""


PRESS: Final = """(what, unless) => {
  const press = (tries) => {
    const there = document.querySelector(what);
    if (unless && document.querySelector(unless)) return;
    if (there) there.click();
    else if (tries) setTimeout(press, 100, tries - 1);
  };
  press(100);
}"""
"""Script that presses what a selector finds once it is there, if the page has nothing that `unless` selects."""


def by_script(update: Update) -> str:
    """Script that changes what an update says, for an event that needs no server."""
    return f"() => {json.dumps([*update.values()])}"


def serialized(name: str) -> dict[str, Any]:
    """For events that may not overtake one another, such as drawing what was opened last."""
    return {"concurrency_id": name, **QUIET}


DARK: Final = "dark"
NARROW: Final = "narrow"
"""A phone, held upright."""


@dataclass(frozen=True, slots=True)
class Site:
    """The visitors' folders and the components that pages hand to one another."""

    visitors: Visitors
    shown: gr.State
    """The traces the visitor looks at: a `CurrentTraces`."""
    look: gr.Textbox
    """Layout of the page, `DARK` and `NARROW` if they apply. Figures match it and are redrawn when it changes."""
    turned: gr.HTML | None = None
    """Its event `turned` reports that `NARROW` begins or ceases to hold; see `draftscope.demo.components.theme`."""

    def visitor(self, request: gr.Request) -> Visitor:
        """The visitor who sent a request."""
        return self.visitors.of(request.session_hash)

    def request_stop(self, request: gr.Request) -> None:
        """Let what the visitor has under way end before its next pass."""
        self.visitor(request).stop()
