"""The list of runs on the page: sorted, filtered, selected, and kept in the browser as projects."""

import json
import re
from pathlib import Path
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.widgets import component
from draftscope.demo.jobs.projects import KIND, MAX_BYTES, MAX_FILE_BYTES, MAX_NAME, VERSION
from draftscope.demo.jobs.run_selection import MAX_SELECTED

_TICK: Final = re.compile(r"[0-9a-f]{16}")
_MAX_TICKS: Final = 100
_HERE: Final = Path(__file__)
_LIMITS: Final = {"kind": KIND, "version": VERSION, "name": MAX_NAME, "file": MAX_FILE_BYTES, "project": MAX_BYTES}


def run_list(value: dict[str, Any], **options: Any) -> gr.HTML:
    """Return the component.

    Its event `choose` carries the ids that are selected, in this order, `dropped` a run to remove, and `restored` a
    project that the browser kept or that a file held.
    """
    script, style = (_HERE.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".js", ".css"))
    return component(value, f"const LIMITS = {json.dumps(_LIMITS)};\n{script}", style, **options)


def dropped(event: gr.EventData) -> str:
    """Return the id of the run to remove from the selection.

    Raises:
        gr.Error: If the event carries no known id.
    """
    run = event.run
    if not isinstance(run, str) or not _TICK.fullmatch(run):
        raise gr.Error("run: is not in the selection; remove one of the runs shown.")
    return run


def selected_ids(event: gr.EventData) -> list[str]:
    """The ids of the selected runs, each once. Raises gr.Error for anything else than a list of ids."""
    chosen = event.chosen
    sound = isinstance(chosen, list) and len(chosen) <= _MAX_TICKS
    if not sound or not all(isinstance(one, str) and _TICK.fullmatch(one) for one in chosen):
        raise gr.Error(f"chosen: is not a list of runs; select up to {MAX_SELECTED} of the runs shown.")
    return list(dict.fromkeys(chosen))
