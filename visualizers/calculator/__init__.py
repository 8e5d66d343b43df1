"""The calculator of the page Choose as one HTML file without a server: whether drafts are worth it on other hardware.

Its arithmetic is speedup.js, on the passes that the player computes (player/pass_cost.js); tests compare both with
`draftscope.analysis.speedup_model`. The app draws the same curves of devices.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, Final

from draftscope.analysis.acceptance_rate import AcceptanceRate
from draftscope.analysis.hardware import presets
from draftscope.analysis.hardware_models import MODELS
from draftscope.visualizers import player
from draftscope.visualizers.player_page import document, inert
from draftscope.visualizers.scripts import joined

FOLDER: Final = Path(__file__).parent
NO_DRAFTER: Final = "none: drafts are looked up, or left over from the last pass"
FIRST: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "target": "Llama 3.1 8B",
        "draft": "Llama 3.2 1B",
        "device": "H100",
        "gpus": 0,
        "weights": 16,
        "cache": 16,
        "engine": "CUDA graphs",
        "acceptance": 0.8,
        "spread": 0.1,
        "drafts": 0,
        "batch": 1,
        "context": 1024,
    }
)
"""Initial values of the form; 0 GPUs are as few as hold the plan, 0 drafts the fastest length."""


def calculator_html(sources: Iterable[tuple[str, AcceptanceRate]] = (), after: str = "") -> str:
    """Return the calculator as an HTML page that needs no server and requests nothing.

    The part of the page's address after `#` has values of the form, as in the app: `plan.device=T4&plan.batch=8`.

    Args:
        sources: Acceptance rates to choose from, with the names of where they were measured.
        after: HTML to follow the calculator, trusted as it is.
    """
    rates = [{"name": name, "rate": one.rate, "low": one.low, "high": one.high} for name, one in sources]
    data = {
        "presets": presets(),
        "first": dict(FIRST),
        "drafters": {name: model.drafter for name, model in MODELS.items()},
        "none": NO_DRAFTER,
        "sources": rates,
    }
    values = inert(json.dumps(data, separators=(",", ":"), ensure_ascii=False))
    page = Template(_read("calculator.html")).substitute(after=after)
    content = (
        f'{page}<script type="application/json" id="calculator-data">{values}</script>\n<script>{_script()}</script>'
    )
    style = f"{_read('calculator.css')}.curves {{\n{curves_style()}}}\n.reasons {{\n{reasons_style()}}}\n"
    return document("Is speculative decoding worth it?", content, style)


@cache
def curves_script() -> str:
    """Return the JavaScript that defines `showDevices` and `showReasons`."""
    return joined(FOLDER, ("curves", "reasons"))


@cache
def curves_style() -> str:
    """Return the style sheet of the curves, for the element that holds them."""
    return _read("curves.css")


@cache
def reasons_style() -> str:
    """Return the style sheet of the curves of a verdict, for the element that holds them."""
    return _read("reasons.css")


@cache
def _script() -> str:
    parts = (
        joined(player.FOLDER, ("pass_cost",)),
        joined(FOLDER.parent / "lessons", ("core",)),
        joined(FOLDER, ("speedup", "curves", "reasons", "calculator", "begin")),
    )
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();\n'


def _read(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")
