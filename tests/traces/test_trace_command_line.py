"""`python -m traces`: what is sound, what is shown, the schema, and events for Perfetto, sound by a schema of them."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support import handmade
from support.tables import markdown

from analysis.summary_text import summary_text
from draftscope import __main__ as draftscope
from draftscope.trace import displayable
from traces import Trace, dumps, read, write
from traces.__main__ import main
from traces.files import ROOT
from traces.json_schema import json_schema
from traces.perfetto import to_perfetto
from traces.schema import VERSION

DOCS = ROOT / "docs"
VALIDATOR = Draft202012Validator(json_schema())


def test_each_broken_file_has_one_line_and_sound_ones_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.scd(), tmp_path / "good.json")
    write(handmade.psd(), tmp_path / "packed.json.gz")
    assert main(["validate", str(tmp_path / "good.json"), str(tmp_path / "packed.json.gz")]) == 0
    assert capsys.readouterr() == ("", "")
    (tmp_path / "bad.json").write_bytes(dumps(handmade.scd()).replace(b'"p":[0.5,0.125', b'"p":[1.5,0.125'))
    files = [str(tmp_path / name) for name in ("bad.json", "good.json", "missing.json")]
    assert main(["validate", *files]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{files[0]}: steps[0].p[0]: 1.5 should be less than or equal to 1.00001; give what docs/trace.md says",
        f"{files[2]}: cannot be read (No such file or directory); check the path",
    ]


def test_show_prints_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.s2d2(), tmp_path / "run.json")
    assert main(["show", str(tmp_path / "run.json")]) == 0
    out = capsys.readouterr().out
    assert "method              s2d2\n" in out
    assert "forwards            4 (2 diffusion, 1 verify, 1 edit)\n" in out
    assert "acceptance          0.500 (1 of 2 drafts judged)\n" in out


def test_a_trace_cannot_steer_the_terminal() -> None:
    shown = summary_text(replace(handmade.ar(), prompt="\x1b[2J\u202e\nnote  forged", note="x" * 1000))
    assert shown.isprintable() or all(line.isprintable() for line in shown.split("\n"))
    assert "\nnote  forged" not in shown
    assert max(map(len, shown.split("\n"))) < 250


def test_the_schema_and_the_tables_in_the_docs_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, "-m", "traces", "schema"], capture_output=True, text=True, check=True)
    text = (DOCS / "trace.schema.json").read_text()
    assert text == done.stdout, "run: python -m traces schema > docs/trace.schema.json"
    Draft202012Validator.check_schema(json.loads(text))
    assert json.loads(text)["$id"].endswith(f":{VERSION}")
    text = (DOCS / "trace.md").read_text()
    tables = text.split("<!-- tables -->\n")[1]
    assert tables.strip() == markdown(), (
        "put the output of: cd tests && PYTHONPATH=.. python -m support.tables behind the marker"
    )


def test_the_example_in_the_docs_is_a_sound_trace(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "trace.md").read_text(), re.DOTALL)
    (tmp_path / "example.json").write_text(example)
    assert main(["validate", str(tmp_path / "example.json")]) == 0
    VALIDATOR.validate(json.loads(example))


@pytest.mark.parametrize("name", handmade.ALL)
def test_the_schema_accepts_every_kind_of_trace(name: str) -> None:
    VALIDATOR.validate(json.loads(dumps(handmade.ALL[name]())))


_TEXT, _WHOLE, _OBJECT = ({"type": kind} for kind in ("string", "integer", "object"))
_TIME = {"type": "number", "minimum": 0}
_WHERE = {"pid": _WHOLE, "tid": _WHOLE, "name": _TEXT, "args": _OBJECT}


def _kind(ph: str, **own: Any) -> dict[str, Any]:
    """What the documents of the format ask of an event with this phase."""
    fields = {"ph": {"const": ph}, **_WHERE, **own}
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


def of(made: dict[str, Any], ph: str, cat: str = "") -> Sequence[dict[str, Any]]:
    return [event for event in made["traceEvents"] if event["ph"] == ph and event.get("cat", "") == cat]


@pytest.mark.parametrize(
    "trace", [*(make() for make in handmade.ALL.values()), *map(read, RECORDED)], ids=lambda trace: trace.method
)
def test_events_are_sound_and_say_what_the_steps_say(trace: Trace) -> None:
    made = to_perfetto(trace)
    SCHEMA.validate(json.loads(json.dumps(made)))
    passes = of(made, "X", "pass")
    assert [event["args"]["pass"] for event in passes] == [*range(len(trace.steps))]
    tracks = {event["tid"]: event["args"]["name"] for event in of(made, "M") if event["name"] == "thread_name"}
    assert [tracks[event["tid"]] for event in passes] == [step.call.role for step in trace.steps]
    ends = [event["ts"] + event["dur"] for event in passes]
    assert [event["ts"] for event in passes[1:]] == pytest.approx(ends[:-1])
    told = [(event["name"], event["args"]["position"]) for event in of(made, "i", "verdict")]
    assert told == [
        (fate.value, at)
        for step in trace.steps
        for at, fate in zip(step.position, step.fate, strict=True)
        if fate.judged or fate.final
    ]
    if made["otherData"]["timed"]:
        assert ends[-1] == pytest.approx(1000 * sum(step.call.milliseconds.total for step in trace.steps))
        stages = of(made, "X", "stage")
        assert sum(event["dur"] for event in stages) == pytest.approx(ends[-1])


def test_a_trace_without_times_has_a_millisecond_a_pass() -> None:
    trace = handmade.scd()
    calls = [replace(step.call, milliseconds=type(step.call.milliseconds)()) for step in trace.steps]
    steps = tuple(replace(step, call=call) for step, call in zip(trace.steps, calls, strict=True))
    made = to_perfetto(replace(trace, steps=steps))
    assert [event["dur"] for event in of(made, "X", "pass")] == [1000.0] * len(steps)
    assert made["otherData"]["timed"] is False and not of(made, "X", "stage")


def test_the_command_line_prints_what_python_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.scd(), tmp_path / "run.json")
    assert draftscope.main(["perfetto", str(tmp_path / "run.json")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == json.loads(json.dumps(displayable(handmade.scd()).to_perfetto()))
    assert draftscope.main(["perfetto", str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err.endswith("cannot be read (No such file or directory); check the path\n")
