"""Files of other programs and of later versions: what may be missing, what is free, and what is not known yet."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import handmade

from traces import VERSION, TraceError, TraceWarning, dumps, limits, loads, read, write
from traces.__main__ import main
from visualizers import FIGURES

GOOD = dumps(handmade.scd())


def edited(edit: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(GOOD)
    edit(document)
    return json.dumps(document).encode()


def later(document: dict[str, Any]) -> None:
    document["version"] = "1.9"
    document["energy"] = {"joules": [1, 2.5]}
    document["summary"]["joules"] = 3.5
    document["steps"][1]["watts"] = [4, None]
    document["steps"][2]["watts"] = [5]
    document["steps"][1]["call"]["queue"] = "fast"
    document["steps"][1]["signals"]["novelty"] = 7
    document["canvas"]["depth"] = 1


def test_a_summary_is_derived_where_there_is_none() -> None:
    trace = loads(edited(lambda document: document.pop("summary")))
    assert trace == handmade.scd()


def test_seed_and_environment_may_be_missing() -> None:
    def bare(document: dict[str, Any]) -> None:
        del document["seed"], document["environment"]

    trace = loads(edited(bare))
    assert (trace.seed, trace.environment.device) == (None, "")
    again = json.loads(dumps(trace))
    assert "seed" not in again
    assert "seed" not in FIGURES["race"].draw([trace]).layout.title.subtitle.text


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("extensions", "words"),
    [
        ({"a": list(range(limits.EXTENSION_VALUES))}, "extensions: hold more than 10000 values"),
        ({"a": nested(limits.EXTENSION_NESTING)}, "[0][0][0]: nests deeper than 20 levels"),
        ({"a": {"b": "x" * 500_001}}, "extensions['a']['b']: has 500001 characters"),
        ({"x" * 501: 1}, "is no name; use text of up to 500 characters"),
        ({"a": float("nan")}, "extensions['a']: nan is not finite"),
        ({"a": [2**63]}, "extensions['a'][0]: 9223372036854775808 does not fit 64 bits"),
        ([1], "extensions: a list of 1 should be"),
    ],
)
def test_extensions_are_bounded(extensions: Any, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        loads(edited(lambda document: document.update(extensions=extensions)))
    assert words in str(caught.value)


def test_extensions_that_are_no_json_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="extensions: hold what is no JSON"):
        write(replace(handmade.scd(), extensions={"a": {1, 2}}), tmp_path / "run.json")


def test_a_later_version_is_read_with_a_warning_and_written_as_it_was(tmp_path: Path) -> None:
    data = edited(later)
    with pytest.warns(TraceWarning) as told:
        trace = loads(data, name="run.json")
    (warning,) = told
    assert str(warning.message) == (
        "run.json: canvas.depth, energy, steps[].call.queue, steps[].watts, summary.joules: not known to version "
        f"{VERSION}, kept as they are; use a release that knows version 1.9 to see them"
    )
    assert trace.version == "1.9"
    written = json.loads(dumps(trace))
    assert written == json.loads(data) | {"steps": written["steps"]}
    assert written["steps"][1]["watts"] == [4, None]
    assert written["steps"][1]["signals"]["novelty"] == 7
    write(trace, tmp_path / "again.json")  # says nothing a second time
    with pytest.warns(TraceWarning):
        assert read(tmp_path / "again.json") == trace


@pytest.mark.parametrize("version", ["1.0", VERSION])
def test_this_version_and_older_ones_have_no_unknown_fields(version: str) -> None:
    def misspelt(document: dict[str, Any]) -> None:
        later(document)
        document["version"] = version
        del document["steps"][1]["signals"]["novelty"]

    with pytest.raises(TraceError, match=r"is no field of this record; remove it, or correct its name"):
        loads(edited(misspelt))


@pytest.mark.parametrize("version", ["2.0", "2.9", "0.9", "1.1234567890", "1.", "1.1 "])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(TraceError, match=r"is not 1\.x; read it with the release of Draftscope that wrote it"):
        loads(edited(lambda document: document.update(version=version)))


def test_the_command_line_warns_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "later.json"
    path.write_bytes(edited(later))
    assert main(["validate", str(path)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("later.json: canvas.depth, energy, ")
    assert told.err.count("\n") == 1
