"""Traces of decoding runs: records, files, replay and statistics. Needs neither a model nor torch."""

from traces.count_only import expand_counts
from traces.errors import TraceError, TraceWarning
from traces.io import check, dumps, loads, read, write
from traces.replay import canvas_states, position_updates, state_after
from traces.schema import VERSION, Fate, Step, Trace
from traces.stats import summarise

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
