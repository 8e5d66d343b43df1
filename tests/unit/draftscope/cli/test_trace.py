"""`draftscope trace`: validation, the summary, the schema and events for Perfetto."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from support import handmade
from support.tables import markdown

from draftscope.analysis.summary_text import summary_text
from draftscope.cli.main import main
from draftscope.trace import displayable
from draftscope.traces import dumps, write
from draftscope.traces.files import ROOT
from draftscope.traces.json_schema import json_schema

DOCS = ROOT / "docs"
VALIDATOR = Draft202012Validator(json_schema())


def test_each_broken_file_has_one_line_and_sound_ones_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.scd(), tmp_path / "good.json")
    write(handmade.psd(), tmp_path / "packed.json.gz")
    assert main(["trace", "validate", str(tmp_path / "good.json"), str(tmp_path / "packed.json.gz")]) == 0
    assert capsys.readouterr() == ("", "")
    (tmp_path / "bad.json").write_bytes(dumps(handmade.scd()).replace(b'"p":[0.5,0.125', b'"p":[1.5,0.125'))
    files = [str(tmp_path / name) for name in ("bad.json", "good.json", "missing.json")]
    assert main(["trace", "validate", *files]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{files[0]}: steps[0].p[0]: 1.5 should be less than or equal to 1.00001; give what docs/trace.md says",
        f"{files[2]}: cannot be read (No such file or directory); check the path",
    ]


def test_show_prints_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.s2d2(), tmp_path / "run.json")
    assert main(["trace", "show", str(tmp_path / "run.json")]) == 0
    out = capsys.readouterr().out
    assert "method              s2d2\n" in out
    assert "forwards            4 (2 diffusion, 1 verify, 1 edit)\n" in out
    assert "acceptance          0.500 (1 of 2 drafts judged)\n" in out


def test_a_trace_cannot_steer_the_terminal() -> None:
    shown = summary_text(replace(handmade.ar(), prompt="\x1b[2J\u202e\nnote  forged", note="x" * 1000))
    assert shown.isprintable() or all(line.isprintable() for line in shown.split("\n"))
    assert "\nnote  forged" not in shown
    assert max(map(len, shown.split("\n"))) < 250


def test_the_schema_and_the_tables_in_the_docs_are_those_of_the_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", "schema"]) == 0
    text = (DOCS / "trace.schema.json").read_text()
    assert text == capsys.readouterr().out, "run: draftscope trace schema > docs/trace.schema.json"
    Draft202012Validator.check_schema(json.loads(text))
    schema = json.loads(text)
    records = {"Trace": schema, **schema["$defs"]}
    assert [name for name, record in records.items() if not record.get("description")] == []
    fields = [(name, field) for name, record in records.items() for field in record.get("properties", {}).items()]
    assert [(name, field) for name, (field, about) in fields if not about.get("description")] == []
    text = (DOCS / "trace.md").read_text()
    tables = text.split("<!-- tables -->\n")[1]
    assert tables.strip() == markdown(), (
        "put the output of: cd tests && PYTHONPATH=.. python -m support.tables behind the marker"
    )


def test_the_example_in_the_docs_is_a_sound_trace(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "trace.md").read_text(), re.DOTALL)
    (tmp_path / "example.json").write_text(example)
    assert main(["trace", "validate", str(tmp_path / "example.json")]) == 0
    VALIDATOR.validate(json.loads(example))


@pytest.mark.parametrize("name", handmade.ALL)
def test_the_schema_accepts_every_kind_of_trace(name: str) -> None:
    VALIDATOR.validate(json.loads(dumps(handmade.ALL[name]())))


def test_the_command_line_prints_what_python_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(handmade.scd(), tmp_path / "run.json")
    assert main(["trace", "perfetto", str(tmp_path / "run.json")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(json.dumps(displayable(handmade.scd()).to_perfetto()))
    assert main(["trace", "perfetto", str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err.endswith("cannot be read (No such file or directory); check the path\n")
