"""What the pages share."""

from dataclasses import dataclass
from typing import Any, Final

import gradio as gr

from demo.sessions import Visitor, Visitors

Update = dict[Any, Any]
"""Component -> new value."""

PRIVATE: Final[dict[str, Any]] = {"api_visibility": "private"}
"""For events that are the page's own business, which is all but two."""
QUIET: Final[dict[str, Any]] = {"show_progress": "hidden", **PRIVATE}
AT_ONCE: Final[dict[str, Any]] = {"queue": False, **QUIET}
"""For what needs no model and may not wait behind one."""


@dataclass(frozen=True, slots=True)
class Site:
    """The visitors' folders and the components that pages hand to one another."""

    visitors: Visitors
    shown: gr.State
    """The traces the visitor looks at: a `Shown`."""
    dark: gr.Checkbox
    """Whether the page is dark; figures are drawn to match."""

    def visitor(self, request: gr.Request) -> Visitor:
        """The visitor who sent a request."""
        return self.visitors.of(request.session_hash)
