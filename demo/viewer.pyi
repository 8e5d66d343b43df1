"""The trace player as a gradio component.

A run reaches the browser as messages: `begin` names the runs, `push` carries one turn (a forward pass of every decoder that is not done,
numbered so that a lost or repeated one does no harm), and `finish` names the files with the whole traces. From then on the browser needs
the server no more. `load` shows finished traces straight away.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr

from demo.decoding import Advance, Race, plain
from visualizers import player

Message = dict[str, Any]

_BRIDGE = """
const player = globalThis.Draftscope.mount(element.querySelector('.player'), {
  data: JSON.parse(DATA), hash: HASH, emit: (name, detail) => { if (name === 'settled') trigger('settled', detail); },
});
globalThis.draftscopePlayers = Object.assign(globalThis.draftscopePlayers ?? {}, { [NAME]: player });
let race = null;
const fetchTrace = async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return new Response(response.body.pipeThrough(new DecompressionStream('gzip'))).json();
};
const act = {
  load: ({ urls }) => { race = null; player.loadUrl(urls); },
  begin: (message) => {
    race = message.race;
    player.clear();
    message.heads.forEach((head, lane) => player.begin(lane, head));
  },
  push: ({ passes }) => passes.forEach(({ lane, sequence, step }) => player.push(lane, sequence, step)),
  finish: async (message) => {
    try {
      const traces = await Promise.all(message.urls.map(fetchTrace));
      if (race === message.race) traces.forEach((trace, lane) => player.finish(lane, trace));
    } catch (error) {
      if (race === message.race) player.loadUrl(message.urls);
    }
  },
};
const take = () => {
  const message = props.value;
  if (!message?.kind) return;
  const late = message.race && message.race !== race;  // this player was made after the race began
  if (message.kind === 'finish' && late) act.load(message);
  else if (message.kind === 'begin' || !late) act[message.kind](message);
};
watch('value', take);
take();
"""


class TraceViewer(gr.HTML):
    """Shows one trace or two side by side. Its value is the last message."""

    def __init__(
        self,
        value: Message | None = None,
        *,
        methods: Mapping[str, str] | None = None,
        address: bool = True,
        **options: Any,
    ) -> None:
        """Make a viewer.

        Args:
            value: The first message, usually from `recorded`.
            methods: Name -> title, for the headings.
            address: Whether the place in the trace shows in the page's address; one viewer a page can have it.
            options: What `gr.HTML` takes.
        """
        data = json.dumps({**player.data(), "methods": dict(methods or {})})
        bridge = _BRIDGE.replace("DATA", json.dumps(data), 1)
        bridge = bridge.replace("HASH", json.dumps(address), 1).replace(
            "[NAME]", f"[{json.dumps(options.get('elem_id', ''))}]", 1
        )
        super().__init__(
            value,
            html_template='<div class="player"></div>',
            css_template=player.style(),
            js_on_load=player.script() + bridge,
            apply_default_css=False,
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        """The value is JSON."""
        return {"type": "object"}
    from collections.abc import Callable, Sequence
    from typing import TYPE_CHECKING, Any, Literal

    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

def begun(race: Race, name: str) -> Message:
    """The message that a race begins; `name` sets it apart from the one before."""
    return {"kind": "begin", "race": name, "heads": [lane.head() for lane in race.lanes]}

def advanced(turn: Sequence[Advance], name: str) -> Message:
    """The message that carries one turn."""
    passes = []
    for advance in turn:
        step = plain(advance.step)
        if advance.frame is not None:
            step["frame"] = advance.frame
        passes.append({"lane": advance.lane, "sequence": advance.sequence, "step": step})
    return {"kind": "push", "race": name, "passes": passes}

def finished(paths: Sequence[Path], name: str) -> Message:
    """The message that a race is over and where its traces lie."""
    return {"kind": "finish", "race": name, "urls": [url(path) for path in paths]}

def recorded(paths: Sequence[Path]) -> Message | None:
    """The message to show finished traces."""
    return {"kind": "load", "urls": [url(path) for path in paths]} if paths else None

def url(path: Path) -> str:
    """Where the server hands out a file, relative to the page."""
    return "gradio_api/file=" + quote(os.fspath(path))
