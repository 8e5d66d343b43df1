"""Field to add a checkpoint by its folder. Only for users on the machine that runs the server."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from draftscope.demo.components.context import QUIET, Update
from draftscope.demo.components.widgets import notice
from draftscope.demo.server.limits import ON_SPACE
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.method import Method
from draftscope.engines.models.catalog import MODELS, register_folder
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.model_info import ModelInfo


def local(environment: Mapping[str, str]) -> bool:
    """Whether a server can be reached from its own machine alone; what others send is never a path."""
    opened = (ON_SPACE, "GRADIO_SHARE", "DRAFTSCOPE_PROXY", "DRAFTSCOPE_ORIGINS")
    if any(environment.get(name, "").strip().lower() not in ("", "0", "false") for name in opened):
        return False
    return _loopback(environment.get("GRADIO_SERVER_NAME", "").strip().strip("[]") or "localhost")


def _loopback(name: str) -> bool:
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_local_request(request: gr.Request) -> bool:
    """Return whether a request comes from this machine, and not through an undeclared proxy."""
    headers, client = request.headers, request.client
    through = any(name in headers for name in ("x-forwarded-for", "forwarded", "x-real-ip"))
    return not through and client is not None and _loopback(str(client.host))


class FolderPanel:
    """Field for a folder, and the result of adding it."""

    def __init__(self, problem: gr.HTML) -> None:
        """Lay it out."""
        self.problem = problem
        with gr.Row(elem_classes="aligned"):
            self.folder = gr.Textbox(
                label="Folder of a published checkpoint",
                placeholder="such as /data/sdar",
                info="This field is only there where the server cannot be reached from other machines.",
                max_lines=1,
                scale=3,
                elem_id="own-folder",
            )
            self.add = gr.Button("Add it to the models", scale=0, min_width=180, size="sm", elem_id="own-folder-add")

    def connect(
        self, method: gr.Dropdown, follows: Sequence[Any], offered: Callable[[ModelInfo, Method], Update]
    ) -> None:
        """Put the folder among the models; `offered` chooses it, which changes what `follows`."""
        self.method, self.offered = method, offered
        events, changes = [self.add.click, self.folder.submit], [*follows, self.problem, self.folder]
        gr.on(events, self.open, {self.folder, self.method}, changes, **QUIET)

    def open(self, values: Mapping[Any, Any], request: gr.Request) -> Update:
        """Offer a folder; its weights are read when it is run."""
        if not is_local_request(request):
            why = "Folders can only be added from the machine that runs the server. Operators: set DRAFTSCOPE_MODELS."
            return {self.problem: notice("error", why, "This folder cannot be added.")}
        method = METHODS[values[self.method]]
        try:
            info = MODELS[register_folder(str(values[self.folder] or ""))]
        except (ValueError, ModelError) as error:
            return {self.problem: notice("error", str(error), "This folder cannot be added.")}
        fits = method.family in info.families
        words = "It is chosen." if fits else f"Choose a method of the family {info.families[0]} to run it."
        welcome = notice("info", f"{info.label}. {words} {info.terms}".strip(), "Model added.")
        return (self.offered(info, method) if fits else {}) | {self.problem: welcome, self.folder: ""}
