"""Button that downloads the weights of a model. Only for users on the machine that runs the server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.add_checkpoint import is_local_request
from draftscope.demo.components.context import Site, Update
from draftscope.demo.components.export import with_progress
from draftscope.demo.components.run_buttons import StartStop
from draftscope.demo.components.widgets import notice
from draftscope.engines.models.catalog import MODELS, is_available
from draftscope.engines.models.download import fetch, size_of
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.model_info import ModelInfo

_MEGA: Final = 10**6


class DownloadModelPanel:
    """Notice of what is missing, a button to download it, and a button to cancel."""

    def __init__(self, site: Site, problem: gr.HTML) -> None:
        """Lay it out; it is there while a model is chosen that is not."""
        self.site, self.problem = site, problem
        self.name = gr.State("")
        with gr.Row(visible=False, elem_classes="aligned") as self.row:
            self.words = gr.Markdown()
            self.buttons = StartStop(site, "fetch", "fetch-stop", "Fetch it")
        self.parts: list[Any] = [self.name, self.row, self.words]

    def shows(self, model: ModelInfo) -> Update:
        """Offer to fetch a model where that can be done; it changes `parts`."""
        missing = bool(model.downloads) and not is_available(model.id)
        words = f"**{model.label}** is not fetched yet: {size_of(model.downloads)}, once." if missing else ""
        return {self.row: gr.update(visible=missing), self.words: words, self.name: model.id if missing else ""}

    def connect(self, method: gr.Dropdown, follows: Sequence[Any], chosen: Callable[[ModelInfo, str], Update]) -> None:
        """Fetch at a press; `chosen` makes a model the form's, with a method, which changes that and `follows`."""
        self.method, self.chosen = method, chosen
        changes = [method, *follows, self.problem]
        self.buttons.connect("fetch", self.fetch, {self.name, method}, changes, self.problem)

    def fetch(self, values: Mapping[Any, Any], request: gr.Request) -> Iterator[Update]:
        """Download the offered model and show progress. A cancelled download leaves no files."""
        if not is_local_request(request):
            raise ModelError("Models are fetched on the machine that runs the server, with a command.")
        model, visitor = MODELS[values[self.name]], self.site.visitor(request)
        for done, total in with_progress(partial(fetch, model.downloads)):
            if visitor.stopped():
                break
            message = f"{done // _MEGA} of {total // _MEGA} MB" if done else "The download starts."
            message = "Download complete; the weights are being written." if done == total else message
            yield {self.problem: notice("info", message, f"{model.label} is being fetched.", done / total)}
        else:
            here = notice("info", "It is chosen: press Run.", f"{model.label} is here.")
            yield self.chosen(model, values[self.method]) | {self.problem: here}
            return
        yield {self.problem: notice("info", "No file was kept.", "Stopped.")}
