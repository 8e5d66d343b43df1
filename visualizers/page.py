"""A page that shows traces with nothing else around: one HTML file, no request to anywhere."""

import html
import json
from collections.abc import Sequence
from typing import Final

from traces.io import dumps
from traces.schema import Trace
from visualizers import player
from visualizers.palette import DARK, LIGHT

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:"
)
"""What the browser may load: only what is in the file."""

_TEMPLATE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{page_style}
{player_style}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="player"></div>
{after}
</main>
<script type="application/json" id="player-data">{data}</script>
<script type="application/json" id="player-traces">{traces}</script>
<script>
{script}
{{
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const root = document.getElementById("player");
  globalThis.player = Draftscope.mount(root, {{ data: read("player-data"), keys: document }});
  globalThis.player.load(read("player-traces"));
}}
</script>
</body>
</html>
"""

_PAGE_STYLE: Final = f"""html {{ color-scheme: light dark; background: {LIGHT.background}; color: {LIGHT.text}; }}
body {{ margin: 0; }}
main {{ max-width: 1240px; margin: 0 auto; padding: 24px 20px 40px; font-family: Inter, system-ui, -apple-system, "Segoe UI", sans-serif; }}
h1 {{ margin: 0 0 16px; font-size: 24px; font-weight: 650; line-height: 1.25; overflow-wrap: anywhere; }}
@media (max-width: 480px) {{ main {{ padding: 16px 12px 32px; }} h1 {{ font-size: 20px; }} }}
@media (prefers-color-scheme: dark) {{ html {{ background: {DARK.background}; color: {DARK.text}; }} }}"""


def inert(document: str) -> str:
    """Return JSON text that cannot end or open a script element, and parses to the same value."""
    return document.replace("<", "\\u003c")


def standalone(traces: Sequence[Trace], title: str, *, after: str = "") -> str:
    """Return a self-contained HTML page with the player showing `traces`.

    Args:
        traces: One trace, or two to compare on one clock.
        title: Heading and title of the page; plain text.
        after: HTML to follow the player, trusted as it is.

    Raises:
        ValueError: When there are no traces or more than two.
    """
    if not 1 <= len(traces) <= 2:
        raise ValueError(f"traces: a page shows one trace or two side by side, not {len(traces)}; make one page a pair")
    return _TEMPLATE.format(
        policy=html.escape(POLICY),
        title=html.escape(title),
        page_style=_PAGE_STYLE,
        player_style=player.style(),
        after=after,
        data=inert(json.dumps(player.data(), separators=(",", ":"))),
        traces="[" + inert(",".join(dumps(trace).decode() for trace in traces)) + "]",
        script=player.script(),
    )
