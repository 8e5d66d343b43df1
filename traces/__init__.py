"""Traces of decoding runs: records, files, replay and statistics. Needs neither a model nor torch."""

from traces.count_only import filled
from traces.errors import TraceError, TraceWarning
from traces.io import check, dumps, loads, read, write
from traces.replay import outcomes, state_after, states
from traces.schema import VERSION, Fate, Step, Trace
from traces.stats import summarise

__all__ = [
    "VERSION",
    "Fate",
    "Step",
    "Trace",
    "TraceError",
    "TraceWarning",
    "check",
    "dumps",
    "filled",
    "loads",
    "outcomes",
    "read",
    "state_after",
    "states",
    "summarise",
    "write",
]
