"""Events for Perfetto: valid by a schema of the format, and with the numbers of the steps."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support import handmade

from draftscope.traces import Trace, read
from draftscope.traces.files import ROOT
from draftscope.traces.perfetto import to_perfetto

_TEXT, _WHOLE, _OBJECT = ({"type": kind} for kind in ("string", "integer", "object"))
_TIME = {"type": "number", "minimum": 0}
_WHERE = {"pid": _WHOLE, "tid": _WHOLE, "name": _TEXT, "args": _OBJECT}


def _kind(ph: str, **properties: Any) -> dict[str, Any]:
    """The schema of events with this phase, as the documents of the format require."""
    fields = {"ph": {"const": ph}, **_WHERE, **properties}
    needed = [name for name in fields if name not in ("args", "cat")]
    return {"properties": fields, "required": needed, "additionalProperties": False}


EVENTS = [
    _kind("X", ts=_TIME, dur=_TIME, cat=_TEXT),
    _kind("i", ts=_TIME, s={"enum": ["g", "p", "t"]}, cat=_TEXT),
    _kind("M", args={**_OBJECT, "required": ["name"]}),
]
PARTS = {"displayTimeUnit": {"enum": ["ms", "ns"]}, "otherData": _OBJECT, "traceEvents": {"items": {"oneOf": EVENTS}}}
SCHEMA = Draft202012Validator(
    {**_OBJECT, "required": ["traceEvents"], "properties": PARTS, "additionalProperties": False}
)
RECORDED = sorted((ROOT / "assets" / "traces").glob("s*-boot.json.gz"))


def of(document: dict[str, Any], ph: str, cat: str = "") -> Sequence[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == ph and event.get("cat", "") == cat]


@pytest.mark.parametrize(
    "trace", [*(make() for make in handmade.ALL.values()), *map(read, RECORDED)], ids=lambda trace: trace.method
)
def test_events_are_sound_and_say_what_the_steps_say(trace: Trace) -> None:
    document = to_perfetto(trace)
    SCHEMA.validate(json.loads(json.dumps(document)))
    passes = of(document, "X", "pass")
    assert [event["args"]["pass"] for event in passes] == [*range(len(trace.steps))]
    tracks = {event["tid"]: event["args"]["name"] for event in of(document, "M") if event["name"] == "thread_name"}
    assert [tracks[event["tid"]] for event in passes] == [step.call.role for step in trace.steps]
    ends = [event["ts"] + event["dur"] for event in passes]
    assert [event["ts"] for event in passes[1:]] == pytest.approx(ends[:-1])
    named = [(event["name"], event["args"]["position"]) for event in of(document, "i", "verdict")]
    assert named == [
        (fate.value, at)
        for step in trace.steps
        for at, fate in zip(step.position, step.fate, strict=True)
        if fate.judged or fate.final
    ]
    if document["otherData"]["timed"]:
        assert ends[-1] == pytest.approx(1000 * sum(step.call.milliseconds.total for step in trace.steps))
        stages = of(document, "X", "stage")
        assert sum(event["dur"] for event in stages) == pytest.approx(ends[-1])


def test_a_trace_without_times_has_a_millisecond_a_pass() -> None:
    trace = handmade.scd()
    calls = [replace(step.call, milliseconds=type(step.call.milliseconds)()) for step in trace.steps]
    steps = tuple(replace(step, call=call) for step, call in zip(trace.steps, calls, strict=True))
    document = to_perfetto(replace(trace, steps=steps))
    assert [event["dur"] for event in of(document, "X", "pass")] == [1000.0] * len(steps)
    assert document["otherData"]["timed"] is False and not of(document, "X", "stage")
