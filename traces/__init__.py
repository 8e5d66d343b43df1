"""Traces of decoding runs: records, files, replay and statistics. Needs neither a model nor torch."""

from traces.coarse import filled, summary_of
from traces.errors import TraceError
from traces.io import check, dumps, loads, read, write
from traces.later import TraceWarning
from traces.measures import MEASURES, Measure
from traces.replay import Replay, State, outcomes, state_after, states
from traces.schema import (
    FATES,
    SCHEMA,
    VERSION,
    Call,
    Canvas,
    Environment,
    Fate,
    Frame,
    Legend,
    Mask,
    Milliseconds,
    ModelCard,
    Node,
    Output,
    PathPair,
    Step,
    Summary,
    Tiles,
    Token,
    Trace,
)
from traces.stats import compare, summarise

__all__ = [
    "FATES",
    "MEASURES",
    "SCHEMA",
    "VERSION",
    "Call",
    "Canvas",
    "Environment",
    "Fate",
    "Frame",
    "Legend",
    "Mask",
    "Measure",
    "Milliseconds",
    "ModelCard",
    "Node",
    "Output",
    "PathPair",
    "Replay",
    "State",
    "Step",
    "Summary",
    "Tiles",
    "Token",
    "Trace",
    "TraceError",
    "TraceWarning",
    "check",
    "compare",
    "dumps",
    "filled",
    "loads",
    "outcomes",
    "read",
    "state_after",
    "states",
    "summarise",
    "summary_of",
    "write",
]
