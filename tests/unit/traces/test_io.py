import gzip
import json
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support import handmade

from draftscope.traces import VERSION, TraceError, TraceWarning, dumps, limits, loads, read, write
from draftscope.visualizers import FIGURES

GOOD = dumps(handmade.scd())
OWN = f'"version":"{VERSION}"'.encode()


def error_of(data: bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        loads(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return caught.value


def edited(edit: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(GOOD)
    edit(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize("name", handmade.ALL)
def test_every_kind_of_trace_survives_the_round_trip(name: str) -> None:
    trace = handmade.ALL[name]()
    assert loads(dumps(trace)) == trace
    assert loads(gzip.compress(dumps(trace))) == trace


def test_text_is_deterministic_sorted_and_without_empty_defaults() -> None:
    assert dumps(handmade.scd()) == GOOD
    assert dumps(loads(GOOD)) == GOOD
    document = json.loads(GOOD)
    assert GOOD.decode() == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    step = document["steps"][0]
    assert not {"mask", "graph", "top", "row"} & step.keys()
    assert "note" not in document
    assert "vocabulary" not in document["legend"]
    assert document["schema"] == "draftscope-trace"
    assert document["config"]["limit"] is None
    assert document["steps"][1]["coin"][0] is None


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_files_of_both_endings(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run{ending}"
    write(handmade.scd(), path)
    first = path.read_bytes()
    assert read(path) == handmade.scd()
    assert first.startswith(b"\x1f\x8b") is (ending == ".json.gz")
    write(handmade.scd(), path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    monkeypatch.setattr("os.replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(handmade.scd(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_missing_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write(handmade.scd(), tmp_path / "nowhere" / "run.json")
    assert caught.value.filename == str(tmp_path / "nowhere" / "run.json")


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("run.txt", {}, r"run\.txt: ends in neither"),
        ("run.json", {"created": "yesterday"}, "created"),
        ("run.json", {"extensions": {"a": {1, 2}}}, "extensions: are not JSON"),
        ("run.json", {"config": {"alpha": math.nan}}, "a number is not finite"),
        ("run.json", {"prompt": "\ud800"}, "trace: "),
    ],
)
def test_what_cannot_be_read_is_not_written(tmp_path: Path, name: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(TraceError, match=words):
        write(replace(handmade.scd(), **fields), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (b"", "trace", "is empty"),
        (b"[]", "trace", "is not a JSON object"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "trace", "begins with b'\\x89PNG"),
        (GOOD.replace(b"boot", b"b\xff\xfet"), "trace", "is not JSON in UTF-8"),
        (GOOD[:-40], "trace", "it ends too early"),
        (gzip.compress(GOOD, mtime=0)[:-20], "trace", "cannot be unpacked as gzip (Compressed file ended"),
        (gzip.compress(GOOD, mtime=0) + gzip.compress(GOOD, mtime=0), "trace", "trailing characters"),
        (b'{"schema":["draftscope-trace"]}', "schema", "a list of 1 is not 'draftscope-trace'"),
        (GOOD.replace(OWN, b'"version":1.0'), "version", "1.0 is not a string"),
        (GOOD.replace(b'"p":[0.5', b'"p":[NaN'), "steps[0].p[0]", "nan should be a finite number"),
        (GOOD.replace(b'"p":[0.5', b'"p":["0.5"'), "steps[0].p[0]", "'0.5' should be a valid number"),
        (GOOD.replace(b'"p":[0.5', b'"p":[' + b"5" * 400), "steps[0].p[0]", "a huge integer"),
        (GOOD.replace(b'"seed":7', b'"seed":' + b"7" * 10**6), "trace", "number out of range"),
        (GOOD.replace(b'"seed":7', b'"seed":7,"\\u001b[2J\\n":8'), "'\\x1b[2J\\n'", "is not a field"),
        (GOOD.replace(b'"method":"scd",', b""), "method", "is missing"),
        (GOOD.replace(b'"accepted"', b'"acepted"', 1), "steps[0].fate[0]", "'acepted' should be 'drafted'"),
        (GOOD.replace(b'"token":[1', b'"token":["a"'), "steps[0].token[0]", "'a' should be a valid integer"),
        (GOOD.replace(b'"steps":[', b'"steps":[7,'), "steps[0]", "7 should be"),
        (GOOD.replace(b'"steps":', b'"steps":{},"x":'), "steps", "an object of 0 should be"),
    ],
)
def test_broken_files_get_one_clear_error(data: bytes, field: str, words: str) -> None:
    error = error_of(data)
    assert error.field == field
    assert words in str(error)
    assert error.remedy


def test_the_message_names_field_value_and_remedy_and_counts_further_problems() -> None:
    error = error_of(edited(lambda d: d["steps"][2]["p"].__setitem__(1, 1.3)))
    problem = "1.3 should be less than or equal to 1.00001"
    assert str(error) == f"steps[2].p[1]: {problem}; give what docs/trace.md says"
    assert (error.field, error.problem, error.more) == ("steps[2].p[1]", problem, 0)
    error = error_of(edited(lambda d: d["steps"][0].update(p=["a", "b", "c", 2], bogus=1)))
    assert (error.field, error.more) == ("steps[0].p[0]", 4)
    assert str(error).endswith("(4 more)")
    error = error_of(edited(lambda d: d["steps"][0].update(p=[2, 3, -1, 0.5])))
    assert (error.field, error.more) == ("steps[0].p[0]", 2)


def test_a_hundred_megabytes_that_were_packed_take_no_more_memory_than_a_trace_may(tmp_path: Path) -> None:
    path = tmp_path / "brackets.json"
    path.write_bytes(gzip.compress(b"[" * 100_000_000, 1))
    tracemalloc.start()
    with pytest.raises(TraceError, match=r"^brackets\.json: unpacks to more than \d+ bytes"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5 * limits.JSON_BYTES


HEAD = b'{"schema":"draftscope-trace","version":"1.1",'
MANY_SETTINGS = b"".join(b'"k%d":[],' % i for i in range(100_000))
ATTACKS = {
    "nesting": (HEAD + b'"a":' + b"[" * 1_000_000, "nests deeper than 200 brackets"),
    "brackets": (HEAD + b'"a":' + b"[" * 4_000_000, "holds more than 3000000 values"),
    "values": (HEAD + b'"a":[' + b'{"a":1},' * 1_400_000 + b"1]}", "holds more than 250000 values"),
    "errors": (GOOD.replace(b'"position":[0,', b'"position":[' + b'"x",' * 249_000, 1), "should be a valid integer"),
    "settings": (GOOD.replace(b'"config":{', b'"config":{' + MANY_SETTINGS), "has more than 1000 settings"),
    "steps": (HEAD + b'"steps":[' + b"1," * 100_000 + b"1]}", "has more than 65536 steps"),
    "name": (GOOD.replace(b'"seed"', b'"' + b"k" * 20_000_000 + b'":1,"seed"'), "is not a field of this record"),
}

MEASURE = """
import resource, sys, time
from draftscope.traces import TraceError, loads
data = sys.stdin.buffer.read()
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    loads(data)
except TraceError as error:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{time.process_time() - start} {grown / 1024} {error}")
"""


@pytest.mark.one_quick
@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_documents_cost_bounded_time_and_memory(name: str) -> None:
    data, words = ATTACKS[name]
    assert len(data) < limits.FILE_BYTES
    done = subprocess.run([sys.executable, "-c", MEASURE], input=data, capture_output=True, check=True)
    seconds, megabytes, message = done.stdout.decode().split(" ", 2)
    assert words in message
    assert float(seconds) < 15
    assert float(megabytes) < 500


def later(document: dict[str, Any]) -> None:
    document["version"] = "1.9"
    document["energy"] = {"joules": [1, 2.5]}
    document["summary"]["joules"] = 3.5
    document["steps"][1]["watts"] = [4, None]
    document["steps"][2]["watts"] = [5]
    document["steps"][1]["call"]["queue"] = "fast"
    document["steps"][1]["signals"]["novelty"] = 7
    document["canvas"]["depth"] = 1


def test_summary_seed_and_environment_may_be_missing() -> None:
    assert loads(edited(lambda document: document.pop("summary"))) == handmade.scd()
    trace = loads(edited(lambda document: [document.pop(name) for name in ("seed", "environment")]))
    assert (trace.seed, trace.environment.device) == (None, "")
    assert "seed" not in json.loads(dumps(trace))
    assert "seed" not in FIGURES["race"].draw([trace]).layout.title.subtitle.text


@pytest.mark.parametrize(
    ("extensions", "words"),
    [
        ({"a": list(range(limits.EXTENSION_VALUES))}, "extensions: hold more than 10000 values"),
        ({"a": json.loads("[" * 21 + "]" * 21)}, "[0][0][0]: nests deeper than 20 levels"),
        ({"a": {"b": "x" * 500_001}}, "extensions['a']['b']: has 500001 characters"),
        ({"x" * 501: 1}, "is not a name; use text of up to 500 characters"),
        ({"a": float("nan")}, "extensions['a']: nan is not finite"),
        ({"a": [2**63]}, "extensions['a'][0]: 9223372036854775808 does not fit 64 bits"),
        ([1], "extensions: a list of 1 should be"),
    ],
)
def test_extensions_are_bounded(extensions: Any, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        loads(edited(lambda document: document.update(extensions=extensions)))
    assert words in str(caught.value)


def test_a_later_version_is_read_with_a_warning_without_what_is_not_known(tmp_path: Path) -> None:
    data = edited(later)
    with pytest.warns(TraceWarning) as warnings:
        trace = loads(data, name="run.json")
    (warning,) = warnings
    assert str(warning.message) == (
        f"run.json: version 1.9 is later than {VERSION}; what is new in it is left out, "
        "use a release that knows it to see all"
    )
    assert trace.version == "1.9"
    written = json.loads(dumps(trace))
    assert "energy" not in written and "watts" not in written["steps"][1] and "depth" not in written["canvas"]
    assert written["steps"][1]["signals"]["novelty"] == 7
    write(trace, tmp_path / "again.json")
    with pytest.warns(TraceWarning, match=r"^again\.json: version 1\.9 is later"):
        assert read(tmp_path / "again.json") == trace


@pytest.mark.parametrize("version", ["1.0", VERSION])
def test_this_version_and_older_ones_have_no_unknown_fields(version: str) -> None:
    def misspelt(document: dict[str, Any]) -> None:
        later(document)
        document["version"] = version
        del document["steps"][1]["signals"]["novelty"]

    with pytest.raises(TraceError, match=r"is not a field of this record; remove it, or correct its name"):
        loads(edited(misspelt))


@pytest.mark.parametrize("version", ["2.0", "2.9", "0.9", "1.1234567890", "1.", "1.1 "])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(TraceError, match=r"is not 1\.x; read it with the release of Draftscope that wrote it"):
        loads(edited(lambda document: document.update(version=version)))
