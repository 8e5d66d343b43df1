"""What if a coin had been another: the run is decoded again with it, live, where its model is at hand."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.addresses import request_of
from demo.panels.viewer import supposed
from demo.runs.decoding import Ended
from demo.server.limits import COMPUTE
from demo.server.queue import decoded, queued
from demo.server.sessions import trace_file
from demo.site import AT_ONCE, QUIET, Site, Update
from engines.config import ConfigError
from engines.sampling.chance import Turned
from traces import read
from traces.schema import Trace

_NO_MODEL: Final = "the model is not here"
_OTHERWISE: Final = "decoded here, the run differs before this pass"


class WhatIf:
    """Answers a player whose coin was let go."""

    def __init__(self, site: Site, viewer: gr.HTML, problem: gr.HTML, recorded: Sequence[Path]) -> None:
        """`recorded` are folders of recordings; what goes wrong is told in `problem`."""
        self.site, self.viewer, self.recorded = site, viewer, recorded
        self.asked = gr.State(None)
        asked = viewer.supposed(self.take, None, self.asked, **AT_ONCE)
        work = queued(site, problem, "what-if", self.decode)
        asked.then(work, {self.asked}, [viewer, problem], **COMPUTE, **QUIET)

    def take(self, event: gr.EventData, request: gr.Request) -> Any:
        """What the player sent, unread."""
        self.site.visitor(request).start()
        return event._data

    def decode(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Decode the whole run again with one coin turned; raises ConfigError for what no player sends."""
        visitor, asked = self.site.visitor(request), values[self.asked]
        trace, turned = read_asked(asked, self.site.visitors.root, self.recorded)
        again, why, path = request_of(trace), _NO_MODEL, None
        for message in decoded([replace(again, turned=turned)], visitor.stopped, "what-if") if again else ():
            if isinstance(message, Ended):
                same = coin_at(message.traces[0], asked["step"], asked["entry"]) == turned.instead
                why = message.ended or ("" if same else _OTHERWISE)
                path = None if why else visitor.keep(message.traces, "what if").paths[0]
        yield {self.viewer: supposed(asked, path, why)}


def read_asked(asked: Any, visitors: Path, recorded: Sequence[Path]) -> tuple[Trace, Turned]:
    """The run whose trace a player names, and the coin that is to be another.

    Raises ConfigError for what no player sends.
    """
    given = asked if isinstance(asked, dict) else {}
    folder, _, file = str(given.get("trace")).removeprefix("traces/").partition("/")
    path = trace_file(folder, file, visitors, recorded)
    index, entry, coin = (given.get(name) for name in ("step", "entry", "coin"))
    if path and type(index) is int and type(entry) is int and type(coin) in (int, float) and 0 <= coin <= 1:
        trace = read(path)
        if own := coin_at(trace, index, entry):
            return trace, Turned(trace.steps[index].position[entry], own, float(coin))
    raise ConfigError("what-if: names no coin of a run that is here; move a coin on the stage.")


def coin_at(trace: Trace, index: int, entry: int) -> float | None:
    """The coin of an entry of a pass, both from 0; None where there is none."""
    step = trace.steps[index] if 0 <= index < len(trace.steps) else None
    return step.coin[entry] if step and step.coin and 0 <= entry < len(step.coin) else None
