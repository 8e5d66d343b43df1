"""Serving the app."""

import gc
import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any, Final

import gradio as gr
from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from mcp.types import CallToolRequest, ListToolsRequest
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from draftscope.demo.components.first_screen import FONTS
from draftscope.demo.components.frame import LESSONS, RECORDED
from draftscope.demo.components.theme import CSS, PAGE, theme
from draftscope.demo.jobs.recordings import FOLDER
from draftscope.demo.pages.api import ENDPOINTS, FILE_FORMAT, TOOLS, tool_call_error
from draftscope.demo.server import event_stream as live
from draftscope.demo.server import log
from draftscope.demo.server.api_errors import ApiBlocks, as_json, described, handlers, validate_tool_calls
from draftscope.demo.server.first_screen import FirstScreen
from draftscope.demo.server.limits import MAX_LIGHT_REQUESTS, SESSIONS, UPLOAD_BYTES, server_limits
from draftscope.demo.server.middleware import RequestFilter, UploadQuota
from draftscope.demo.server.run_queue import run_queue
from draftscope.demo.server.sessions import TRACE_ADDRESS, Visitors, trace_file
from draftscope.demo.server.startup import ServerError, private_folder, read_port, remove_folder
from draftscope.engines.models.catalog import registered_folders
from draftscope.engines.models.errors import ModelError
from draftscope.engines.paths import ASSETS
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.recommendations import measured_tradeoffs
from draftscope.traces import read
from draftscope.traces.labels import method_name
from draftscope.traces.version import __version__
from draftscope.visualizers import player
from draftscope.visualizers.fonts import offer_fonts
from draftscope.visualizers.lessons import lesson_html
from draftscope.visualizers.player_page import standalone

_WARMED_UP: Final = ("ar", "scd")
_WARM_UP_PASSES: Final = 4
_TOGETHER: Final = 2
"""A recorded run and its baseline."""
_KEPT_PAGES: Final = 24
"""Pages of recorded runs, of about a megabyte each."""
_ZIPPED: Final = Middleware(
    GZipMiddleware, compresslevel=6, exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/json")
)
"""The page is 2 MB of text and arrives as a fifth of it. Traces, JSON by their type, are compressed files already."""
_POLL_SECONDS: Final = 0.02
"""Interval at which Gradio looks for events. Its own, a millisecond, takes 4 % of a processor when nothing happens."""
_MANIFEST: Final = "MANIFEST.json"
_REMEDY: Final = "copy the folder assets of the repository"


def start(blocks: gr.Blocks, folders: Sequence[Path], missing: Sequence[str] = (), **options: Any) -> str:
    """Start serving in the background on GRADIO_SERVER_NAME and GRADIO_SERVER_PORT, and return the URL.

    Traces are served only from `folders`, and files only from those that Gradio keeps for users. Nothing is reported,
    recorded or fetched from elsewhere. GET /healthz answers 200 once the page can be opened, GET /readyz whether
    everything is available that users can select, and GET /line the length of the queue.

    Args:
        blocks: The page.
        folders: Folders of traces; the first one takes users' files.
        missing: Recordings that are left out.
        options: Options of Gradio.

    Raises:
        ServerError: If the port is invalid or in use.
    """
    log.begin()
    options.setdefault("server_port", read_port())
    try:
        service, address = _launched(blocks, folders, options)
    except OSError as error:  # gradio's sentence about a port that is taken
        raise ServerError(str(error)) from error
    tools: Any = blocks.mcp_server_obj
    tools.postprocess_output_data = as_json
    tools.tool_to_endpoint = {name: f"/{tool.endpoint}" for name, tool in TOOLS.items()}
    tools.mcp_server.version = __version__
    handling = tools.mcp_server.request_handlers
    handling[CallToolRequest] = validate_tool_calls(handling[CallToolRequest], tool_call_error)
    handling[ListToolsRequest] = described(handling[ListToolsRequest], TOOLS, FILE_FORMAT)
    service.get("/healthz")(lambda: {"status": "ok"})
    service.get("/readyz", response_model=None)(lambda: readyz(folders[0], missing))
    service.get("/line")(_line)
    service.get(LESSONS, response_class=HTMLResponse)(lambda: lesson_html())
    service.get(RECORDED, response_class=HTMLResponse)(recorded_answer(folders[-1]))
    service.api_route(TRACE_ADDRESS, methods=["GET", "HEAD"], response_model=None)(
        trace_answer(folders[0], folders[1:])
    )
    service.get(live.ADDRESS, response_model=None)(live.answer)
    service.get(f"/{FONTS}{{name}}", response_model=None)(font_answer)
    # The page about the endpoints asks how busy they were, and would log that this is refused.
    service.get("/monitoring/summary")(lambda: {"functions": {}})
    service.router.routes.insert(0, service.router.routes.pop())
    log.event("started", address=address, **asdict(server_limits()))
    for sentence in registered_folders():
        log.event("folder left out", why=sentence)
    Thread(target=_warm_up, daemon=True).start()
    return address


def _launched(blocks: gr.Blocks, folders: Sequence[Path], options: Mapping[str, Any]) -> tuple[FastAPI, str]:
    room = Middleware(UploadQuota, folders[0], private_folder(), server_limits())
    first = Middleware(FirstScreen, blocks.beginning if isinstance(blocks, ApiBlocks) else "")
    blocks._queue.sleep_when_free = blocks._queue.progress_update_sleep_when_free = _POLL_SECONDS
    service, address, _ = blocks.launch(
        prevent_thread_lock=True,
        share=False,
        ssr_mode=False,
        run_history=False,
        enable_monitoring=False,
        max_threads=MAX_LIGHT_REQUESTS
        + (server_limits().waiting or MAX_LIGHT_REQUESTS)
        + 1,  # gradio takes as many events at once
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
            "exception_handlers": handlers(ENDPOINTS),
            "middleware": [first, _ZIPPED, Middleware(RequestFilter), room],
        },
        theme=theme(),
        css=PAGE + CSS,
        **options,
    )
    return service, address


def serve(blocks: gr.Blocks, visitors: Visitors, recorded: Path = FOLDER, missing: Sequence[str] = ()) -> None:
    """Serve until interrupted, by Ctrl-C or by the SIGTERM of whatever started us; visitors' files go then.

    Raises ServerError as `start` does.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start(blocks, [visitors.root, recorded], missing)
    blocks.block_thread()
    fonts = offer_fonts() if offer_fonts.cache_info().currsize else None  # only if a figure was drawn
    visitors.close()
    for folder in filter(None, (private_folder(), fonts)):
        remove_folder(folder)
    os._exit(0)  # a thread that is still decoding would abort the process when Python is taken down around it


async def _line() -> dict[str, float | None]:
    line = run_queue()
    return {"waiting": max(0, len(line.entries) - 1), "seconds": line.estimate_wait(len(line.entries))}


def trace_answer(visitors: Path, recorded: Sequence[Path]) -> Callable[[str, str], FileResponse]:
    """The answer to GET `TRACE_ADDRESS`: a visitor's trace, or one that was recorded."""

    def answer(folder: str, file: str) -> FileResponse:
        if path := trace_file(folder, file, visitors, recorded):
            return FileResponse(path, media_type="application/gzip")
        raise HTTPException(404, "trace: is not available any more; decode the run again.")

    return answer


def font_answer(name: str) -> FileResponse:
    """The answer to GET /fonts/NAME: a font of the player."""
    if name not in player.FONTS.values():
        raise HTTPException(404, "font: there is no font of this name; use an address of the page.")
    forever = {"cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(player.FOLDER / "fonts" / name, media_type="font/woff2", headers=forever)


def recorded_answer(folder: Path) -> Callable[[str], str]:
    """The answer to GET `RECORDED`: a page that plays runs of the gallery, the last pages kept."""

    @lru_cache(maxsize=_KEPT_PAGES)
    def answer(names: str) -> str:
        files = {path.name.removesuffix(".json.gz"): path for path in folder.glob("*.json.gz")}
        wanted = names.split(",")
        if not files.keys() >= {*wanted} or len(wanted) > _TOGETHER:
            raise HTTPException(404, "recorded: there is no such run; choose one of the gallery.")
        traces = [read(files[name]) for name in wanted]
        return standalone(traces, method_name(traces[-1]))

    return answer


def readyz(folder: Path, missing: Sequence[str]) -> JSONResponse:
    """The answer to GET /readyz: 200, or 503 with what is wrong, one line each, and no path of this machine.

    Visitors' files go into `folder`; `gone` are recordings that were left out of the gallery.
    """
    problems = _missing_weights()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        problems.append(f"visitors' files: cannot be written ({error.strerror}); free some space")
    problems += [
        f"{name}: is missing or not a valid trace; record it again with: draftscope dev record {name}"
        for name in missing
    ]
    content = {"status": "not ready" if problems else "ready", "problems": problems}
    return JSONResponse(content, 503 if problems else 200)


def _missing_weights() -> list[str]:
    """Weights that ship and are not there. Their hashes are checked when they are loaded."""
    try:
        manifest = json.loads((ASSETS / "models" / _MANIFEST).read_text(encoding="utf-8"))
        listed = [
            f"{name}/{file}" if file else f"{name}.safetensors"
            for name, entry in manifest.items()
            for file in entry.get("files") or [""]
        ]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return [f"assets/models/{_MANIFEST}: is missing or damaged; {_REMEDY}"]
    missing = [file for file in listed if not (ASSETS / "models" / file).is_file()]
    return [f"assets/models/{file}: is missing; {_REMEDY}" for file in missing]


def _warm_up() -> None:
    """Load the default model, run its first, slow passes before a user's run is timed, and read the results of Choose.

    If the model cannot be loaded, the user who requests it gets the error. Then garbage is collected, which app.py
    postpones; objects that survive are not searched again.
    """
    try:
        for method in _WARMED_UP:
            for _ in islice(Run(RunRequest(method).job()), _WARM_UP_PASSES):
                pass
        if _WARMED_UP:
            measured_tradeoffs()  # or the first visitor of Choose would wait for it, two seconds
    except ModelError:
        pass
    finally:
        gc.collect()
        gc.freeze()
        gc.collect()  # resets the counters, so that garbage of runs is collected soon
        gc.enable()
