"""The beginning of the page: its frame and the first recorded race, which plays before the app has started."""

import json
from pathlib import Path
from string import Template
from typing import Any, Final

from draftscope.demo.components.theme import PAGE
from draftscope.traces.io import dumps
from draftscope.traces.schema import Trace
from draftscope.visualizers import player
from draftscope.visualizers.player_page import inert

FONTS: Final = "fonts/"
"""Address of the fonts, relative to the page."""


def first_screen(offer: dict[str, Any] | None, traces: list[Trace]) -> str:
    """Return the beginning of an HTML document, without the end of its body; what it shows becomes part of the app.

    Args:
        offer: The message that offers recorded pairs to the player, if there are any.
        traces: The runs of the first pair.
    """
    if offer:
        first = offer["pairs"][0]
        parsed = [json.loads(dumps(trace)) | {"url": url} for trace, url in zip(traces, first["urls"], strict=True)]
        offer = offer | {"pairs": [first | {"traces": parsed}, *offer["pairs"][1:]]}
    data = json.dumps({"player": player.data(), "offer": offer}, separators=(",", ":"), ensure_ascii=False)
    return Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8")).substitute(
        fonts=player.fonts(FONTS), style=player.style(), page=PAGE, data=inert(data), script=player.script()
    )
