"""Counterfactuals: decode a run again with one uniform draw changed, live, if its model is loaded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import AT_ONCE, AT_ONCE_EACH, LATEST, QUIET, Site, Update, by_script
from draftscope.demo.components.queued import queued
from draftscope.demo.components.viewer import counterfactual_message
from draftscope.demo.components.widgets import notice
from draftscope.demo.jobs.links import request_from_trace
from draftscope.demo.jobs.live_run import RaceEnded, decoded
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.server.limits import COMPUTE
from draftscope.demo.server.sessions import trace_file, url
from draftscope.engines.sampling.random_source import UniformOverride
from draftscope.engines.settings import ConfigError
from draftscope.traces import read
from draftscope.traces.schema import Trace

_OWN: Final = "What follows is from this run's own random numbers."
_NO_MODEL: Final = "The model or these settings are not available here."
_OTHERWISE: Final = "Decoded here, the run differs before this pass."


class CounterfactualPanel:
    """Answers the player after the user has changed a uniform draw. Further draws can be changed in the result."""

    def __init__(self, site: Site, viewer: gr.HTML, recordings: Sequence[Recording]) -> None:
        """Args: site: Shared state.

        viewer: The player. recordings: Recorded runs that the player may show in addition to the user's own runs.
        """
        self.site, self.viewer = site, viewer
        self.recorded = list({path.parent for one in recordings for path in one.paths})
        self.question = gr.State(None)
        """Message of the player, not yet parsed."""
        self.turned = gr.State({})
        """Overrides that led to a trace, by the URL of the trace."""
        self.stop = gr.Button("Stop", elem_id="stop-what-if", variant="stop", scale=1, min_width=110, visible=False)
        decoding = viewer.supposed(_sent, None, self.question, **AT_ONCE_EACH)
        work = queued(site, viewer, "what-if", self.decode, shows={self.stop: gr.update(visible=True)})
        reads, changes = {self.question, self.turned}, [viewer, self.turned, self.stop]
        self.decoding = decoding.then(work, reads, changes, **COMPUTE, **LATEST)
        hidden = by_script({self.stop: gr.update(visible=False)})
        self.decoding.then(None, None, [self.stop], js=f"() => ({hidden})()[0]", **QUIET)
        viewer.supposed(None, cancels=[self.decoding], **QUIET)  # only the last change counts
        self.stop.click(site.request_stop, None, None, **AT_ONCE)

    def decode(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Decode the whole run again with one more uniform draw changed.

        A run that is stopped is shown as far as it got.

        Raises:
            ConfigError: If the message cannot come from the player.
        """
        sent, visitor = values[self.question], self.site.visitor(request)
        trace, turn = read_asked(sent, self.site.visitors.root, self.recorded)
        turned = (*values[self.turned].get(sent["trace"], ()), turn)
        again, before, why = request_from_trace(trace), trace.steps[: sent["step"]], _NO_MODEL
        for message in decoded([replace(again, turned=turned)], visitor.stopped, "what-if") if again else ():
            if isinstance(message, RaceEnded):
                (decoded_trace,) = message.traces
                same = all(one.token == other.token for one, other in zip(before, decoded_trace.steps, strict=False))
                why = (message.ended if len(decoded_trace.steps) <= len(before) else "") if same else _OTHERWISE
            yield {}  # ends the work if the client has disconnected
        if why:
            yield {self.viewer: notice("info", _OWN, why)}
        else:
            (path,) = visitor.keep([decoded_trace], "what if").paths
            paths = {**values[self.turned], url(path): turned}
            yield {self.viewer: counterfactual_message(turn.replacement, path), self.turned: paths}


def _sent(event: gr.EventData) -> Any:
    return event._data


def read_asked(sent: Any, visitors: Path, recorded: Sequence[Path]) -> tuple[Trace, UniformOverride]:
    """Return the run that the player names, and the uniform draw to override.

    Raises:
        ConfigError: If the message cannot come from the player.
    """
    fields: Any = sent if isinstance(sent, dict) else {}
    folder, _, file = str(fields.get("trace")).removeprefix("traces/").partition("/")
    path = trace_file(folder, file, visitors, recorded)
    index, entry, coin = (fields.get(name) for name in ("step", "entry", "coin"))
    if path and type(index) is type(entry) is int and type(coin) in (int, float) and 0 <= coin <= 1:
        trace = read(path)
        coins = trace.steps[index].coin if 0 <= index < len(trace.steps) else None
        if uniform := coins[entry] if coins and 0 <= entry < len(coins) else None:
            return trace, UniformOverride(trace.steps[index].position[entry], uniform, float(coin))
    raise ConfigError("what-if: unknown uniform draw; drag a draw marker in the player.")
