"""The trace player: one script and one style sheet, used by the app and by standalone pages alike.

The script is plain text to be inlined: the JavaScript modules of this folder in one scope, without their imports. It
defines `globalThis.Draftscope = {mount}` once and needs only `data()`. `tools/player` checks the modules' types.
What the terms mean, in the player and around it, is in glossary.toml.
"""

import json
import tomllib
from base64 import b64encode
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from draftscope.analysis.hardware import presets
from draftscope.traces.labels import MODEL_NAMES, NAMES
from draftscope.traces.measures import MEASURES
from draftscope.traces.replay import PENDING
from draftscope.traces.schema import FATES
from draftscope.traces.setting_names import METHODS_WITH_RENAMED_SETTINGS, RENAMED_SETTINGS
from draftscope.visualizers.palette import DARK, LIGHT, MARKS, ink
from draftscope.visualizers.scripts import joined

FOLDER: Final = Path(__file__).parent
_SCRIPTS = (
    *("words", "replay", "paint", "canvases", "text", "charts", "mask", "clip", "lane", "rules", "uniform_draw"),
    *("bars", "worked", "pass_cost", "hardware", "controls", "race", "script", "stage", "player"),
)
"""The modules, in the order in which they run in one scope."""

FONTS: Final = {"Inter": "inter.woff2", "Source Serif 4": "serif.woff2"}
"""Files of the folder `fonts` by family: letters of the interface, and of what a model or an author writes."""


@cache
def script() -> str:
    """Return the player's JavaScript, safe to inline more than once on a page."""
    opening = '(() => {\n"use strict";\nif (globalThis.Draftscope) return;\n'
    return f"{around()}{opening}\n{joined(FOLDER, _SCRIPTS)}\nglobalThis.Draftscope = {{ mount }};\n}})();\n"


@cache
def glossary() -> dict[str, dict[str, Any]]:
    """Name -> `says`, what it means in plain words, and `words`, by which it is known in a text; each word once."""
    return {name: {"words": [], **term} for name, term in tomllib.loads(_read("glossary.toml")).items()}


@cache
def around() -> str:
    """Return JavaScript that a page needs around the player: its terms and its address, each defined once."""
    words = json.dumps(glossary(), ensure_ascii=False).replace("<", "\\u003c")
    return _read("terms.js").replace("GLOSSARY", words, 1) + _read("address.js")


@cache
def style() -> str:
    """Return the player's style sheet; every rule starts at the class `ds` that `mount` gives the root."""
    return "".join(map(_read, ("player.css", "stage.css", "worked.css")))


@cache
def fonts(address: str = "") -> str:
    """Return the style sheet of the player's fonts, which may be left out.

    Args:
        address: Where the page finds `fonts/`; by default the fonts are part of the style sheet.
    """
    rules = []
    for family, name in FONTS.items():
        data = b64encode((FOLDER / "fonts" / name).read_bytes()).decode()
        source = f"{address}{name}" if address else f"data:font/woff2;base64,{data}"
        rules.append(
            f'@font-face {{ font-family: "{family}"; src: url({source}) format("woff2"); '
            "font-weight: 100 900; font-display: swap; }\n"
        )
    return "".join(rules)


@cache
def page() -> str:
    """Return the `string.Template` of what a standalone page shows."""
    return _read("page.html")


def data() -> dict[str, Any]:
    """Return what the script has to know about fates, measures, colours and hardware, as plain JSON data."""
    return {
        "fates": [
            {
                "name": fate.value,
                "meaning": meaning,
                "final": fate.final,
                "judged": fate.judged,
                "evaluated": fate.evaluated,
                "pending": fate in PENDING,
                **asdict(MARKS[fate]),
                "inkOnLight": ink(MARKS[fate].light),
                "inkOnDark": ink(MARKS[fate].dark),
            }
            for fate, meaning in FATES.items()
        ],
        "measures": {name: asdict(measure) for name, measure in MEASURES.items() if measure.per == "position"},
        "names": NAMES,
        "models": MODEL_NAMES,
        "renamedSettings": {"methods": sorted(METHODS_WITH_RENAMED_SETTINGS), "names": dict(RENAMED_SETTINGS)},
        "surfaces": {"light": asdict(LIGHT), "dark": asdict(DARK)},
        "hardware": presets(),
    }


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
