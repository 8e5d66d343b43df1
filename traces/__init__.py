"""Traces of decoding runs: records, files, replay and statistics. Needs neither a model nor torch."""

from draftscope.traces.count_only import expand_counts
from draftscope.traces.errors import TraceError, TraceWarning
from draftscope.traces.io import check, dumps, loads, read, write
from draftscope.traces.replay import canvas_states, position_updates, state_after
from draftscope.traces.schema import VERSION, Fate, Step, Trace
from draftscope.traces.stats import summarise

__all__ = [
    "VERSION",
    "Fate",
    "Step",
    "Trace",
    "TraceError",
    "TraceWarning",
    "canvas_states",
    "check",
    "dumps",
    "expand_counts",
    "loads",
    "position_updates",
    "read",
    "state_after",
    "summarise",
    "write",
]
