"""Gradio component of the workbench, which draws the runs of a player and shares its position."""

import json
from collections.abc import Sequence
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.widgets import component
from draftscope.traces.schema import Trace
from draftscope.visualizers import workbench

_SCRIPT: Final = """
const player = () => globalThis.draftscopePlayers?.[NAME];
place.className = 'bench';
const bench = draftscopeWorkbench.mount(place, {
  moved: ({ lane, step, position }) => player()?.showPosition(lane, step, position),
});
const hear = ({ detail }) => {
  if (!element.isConnected) document.removeEventListener('draftscope-moved', hear);
  else if (detail.name === NAME) bench.mark(detail);
};
document.addEventListener('draftscope-moved', hear);
const show = () => bench.show({ runs: [], ...props.value });
"""


def workbench_view(player: str, **options: Any) -> gr.HTML:
    """Return a component that draws runs; its value is what `runs_message` returns.

    Args:
        player: Element id of the player that shows the same runs.
        options: For Gradio.
    """
    script = workbench.script() + _SCRIPT.replace("NAME", json.dumps(player))
    return component({}, script, workbench.style(), **options)


def runs_message(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the value of a workbench for these runs, in the order in which the player shows them."""
    return workbench.message(traces)
