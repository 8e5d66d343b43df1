"""The workbench: heat maps, churn, a curve and a list of matches over the same runs, with one selection.

The script is plain text to be inlined. It defines `globalThis.draftscopeWorkbench = {mount}` once.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from draftscope.analysis.filters import FILTERS, columns
from draftscope.analysis.run_report import run_reports
from draftscope.traces.labels import labels
from draftscope.traces.replay import canvas_size
from draftscope.traces.schema import FATES, Trace
from draftscope.traces.video import frame_count, frame_names
from draftscope.visualizers.figures.acceptance_map import final_words
from draftscope.visualizers.palette import MARKS
from draftscope.visualizers.picture import cells, final_picture, grid

_FOLDER = Path(__file__).parent


@cache
def script() -> str:
    """Return the JavaScript of the workbench, safe to inline more than once on a page."""
    known = {"FILTERS": [asdict(question) for question in FILTERS], "FATES": _fates()}
    source = (_FOLDER / "workbench.js").read_text(encoding="utf-8")
    for name, value in known.items():
        source = source.replace(f'"{name}"', json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"), 1)
    return f"(() => {{\nif (globalThis.draftscopeWorkbench) return;\n{source}}})();\n"


@cache
def style() -> str:
    """Return the style sheet of the workbench."""
    return (_FOLDER / "workbench.css").read_text(encoding="utf-8")


def message(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return runs as the workbench reads them, in the order in which the player shows them: plain data."""
    names, reports = labels(traces), run_reports(traces)
    return {
        "runs": [
            {
                "name": name,
                "fidelity": report.fidelity,
                "summary": report.counts(),
                **_canvas(trace),
                **columns(trace),
            }
            for number, (name, report, trace) in enumerate(zip(names, reports, traces, strict=True))
        ]
    }


def _canvas(trace: Trace) -> dict[str, Any]:
    """Return the layout of the canvas, and the final words, picture or frames."""
    rows, wide = grid(trace.canvas)
    frames = frame_count(trace.canvas)
    clip, start = trace.output.video or (), trace.output.given or 0
    each = (len(clip) - start) // frames if frames > 1 else 0
    return {
        "kind": trace.canvas.kind,
        "positions": canvas_size(trace.canvas),
        "rows": rows,
        "columns": wide // frames,
        "frames": list(frame_names(trace)) if frames > 1 else [],
        "cells": [[row, column] for row, column in cells(trace.canvas)],
        "words": final_words(trace) if trace.canvas.kind == "text" else None,
        "pictures": list(clip[start :: each or 1][:frames]) if each else list(filter(None, [final_picture(trace)])),
    }


def _fates() -> dict[str, dict[str, Any]]:
    return {
        fate.value: {
            "light": MARKS[fate].light,
            "dark": MARKS[fate].dark,
            "meaning": meaning,
            "final": fate.final,
            "judged": fate.judged,
        }
        for fate, meaning in FATES.items()
    }
