"""Serving the app."""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any, Final

import gradio as gr
from fastapi import FastAPI
from mcp.types import CallToolRequest
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from demo import gpu, log
from demo.answers import as_json, in_words, refusing
from demo.doors import Doors
from demo.frames import Still
from demo.handing import PLACE, handing
from demo.limits import LIGHT, SESSIONS, UPLOAD_BYTES, current
from demo.line import the_line
from demo.origins import OwnPages
from demo.pages.api import ENDPOINTS, refusal
from demo.port import free_port
from demo.private import private_folder
from demo.readiness import readiness
from demo.recordings import FOLDER
from demo.sessions import Visitors
from demo.theme import CSS, theme
from demo.uploads import Room
from engines.methods import METHODS
from engines.models.catalog import MODELS, UNREADABLE, default_model, load_model
from engines.models.errors import ModelError
from engines.runtime.driver import Job, Run

_WARM_UP_PASSES: Final = 4
_ZIPPED: Final = Middleware(
    GZipMiddleware, compresslevel=6, exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/json")
)
"""The page is 2 MB of text and arrives as a fifth of it. Traces, JSON by their type, are compressed files already."""


def start(blocks: gr.Blocks, folders: Sequence[Path], gone: Sequence[str] = (), **options: Any) -> str:
    """Start serving in the background and return the address. GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where.

    Traces are handed out from `folders` alone, and files that gradio keeps for visitors. Nothing is reported, recorded
    or fetched from elsewhere. GET /healthz answers 200 once the page can be opened, GET /readyz whether all is there
    that visitors may ask for, and GET /line how many wait for the model. The first of the folders takes visitors'
    files; `gone` are recordings left out.

    Raises:
        ServerError: for a port that is none, or taken.
    """
    log.begin()
    options.setdefault("server_port", free_port())
    blocks.queue(max_size=None)  # demo.line counts what waits for the model, and nothing else is refused
    service, address = _launched(blocks, folders, options)
    tools: Any = blocks.mcp_server_obj
    tools.postprocess_output_data = as_json(tools.postprocess_output_data)
    handlers = tools.mcp_server.request_handlers
    handlers[CallToolRequest] = refusing(handlers[CallToolRequest], refusal)
    service.add_api_route("/healthz", lambda: {"status": "ok"}, methods=["GET"])
    service.add_api_route("/readyz", readiness(folders[0], gone), methods=["GET"], response_model=None)
    handed = handing(folders[0], folders[1:])
    service.add_api_route(PLACE, handed, methods=["GET", "HEAD"], response_model=None)
    service.add_api_route("/line", _line, methods=["GET"])
    # The page about the endpoints asks how busy they were, and would log that this is refused.
    service.add_api_route("/monitoring/summary", lambda: {"functions": {}}, methods=["GET"])
    service.router.routes.insert(0, service.router.routes.pop())
    known = {name: value for name, value in asdict(current()).items() if value is not None}
    log.event("started", address=address, **known)
    for said in UNREADABLE:
        log.event("folder left out", why=said)
    Thread(target=_warm_up, daemon=True).start()
    return address


def _launched(blocks: gr.Blocks, folders: Sequence[Path], options: Mapping[str, Any]) -> tuple[FastAPI, str]:
    room = Middleware(Room, folders[0], private_folder(), current())
    service, address, _ = blocks.launch(
        prevent_thread_lock=True,
        share=False,
        ssr_mode=False,
        run_history=False,
        enable_monitoring=False,
        max_threads=LIGHT + (current().waiting or LIGHT) + 1,  # gradio takes as many events at once
        pwa=False,
        mcp_server=True,
        footer_links=["api", "settings"],
        max_file_size=UPLOAD_BYTES,
        allowed_paths=[str(folder) for folder in folders],  # to be copied for a download
        state_session_capacity=SESSIONS,
        app_kwargs={
            "openapi_url": None,
            "docs_url": None,
            "redoc_url": None,
            "exception_handlers": in_words(ENDPOINTS),
            "middleware": [_ZIPPED, Middleware(Doors), Middleware(OwnPages), room, Middleware(Still)],
        },
        theme=theme(),
        css=CSS,
        **options,
    )
    return service, address


def serve(blocks: gr.Blocks, visitors: Visitors, recorded: Path = FOLDER, gone: Sequence[str] = ()) -> None:
    """Serve until interrupted, by Ctrl-C or by the SIGTERM of whatever started us; visitors' files go then.

    Raises:
        ServerError: as `start` does.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start(blocks, [visitors.root, recorded], gone)
    blocks.block_thread()
    for folder in (visitors.root, private_folder()):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # a thread that is still decoding would abort the process when Python is taken down around it


async def _line() -> dict[str, float | None]:
    line = the_line()
    return {"waiting": max(0, len(line.places) - 1), "seconds": line.seconds_of(len(line.places))}


def _warm_up() -> None:
    """Load the default model and take its first, slow passes before a visitor's run is timed.

    Where the model cannot be had, the visitor who asks for it is told why. A GPU that is lent is not asked for.
    """
    if gpu.LENT:
        return
    for method in (METHODS["ar"], METHODS["scd"]):
        name = default_model(method.family)
        try:
            job = Job(method, load_model(name), MODELS[name].default_prompt, method.config())
        except ModelError:
            return
        for _ in islice(Run(job), _WARM_UP_PASSES):
            pass
