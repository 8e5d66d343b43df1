"""Whatever is wrong with a request, over HTTP or the Model Context Protocol, is answered in a sentence of our own."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from support.raster import MODEL
from test_demo_tools import called

TYPES: list[Any] = [None, 3, 1.5, True, "", "magic", [1], {"a": 1}, "\ud800", "x" * 5000]
"""One of everything that JSON can hold."""
UPSTREAM = (
    "verbose error",
    "view api",
    "validation error",
    "is not of type",
    "under any of",
    "is not one of",
    "traceback",
)
SOUND = {"method": "ar", "prompt": "", "seed": 0, "model": MODEL, "settings": {}, "preset": None}


def asked(server: str, path: str, body: bytes) -> str:
    """The error that the server answers a body with."""
    request = urllib.request.Request(f"{server}{path}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            event = json.load(answer)["event_id"]
        with urllib.request.urlopen(f"{server}{path.replace('/v2', '')}/{event}", timeout=60) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            assert error.code in (404, 422), error.read()
            return str(json.load(error)["error"])


def check(answer: str, field: str) -> None:
    assert not [words for words in UPSTREAM if words in answer.lower()], answer
    told = json.loads(answer.partition("data: ")[2])["error"] if answer.startswith("event: error") else answer
    assert told.startswith(f"{field}: "), told
    assert told.endswith("."), told


WRONG = [
    *[("method", value) for value in TYPES],
    *[("model", value) for value in TYPES if value not in (None, "")],
    *[("seed", value) for value in [*TYPES, -1, 2**31, 10**30] if value != 3],
    *[("preset", value) for value in TYPES if value not in (None, "")],
    *[("settings", value) for value in TYPES if value is not None and not isinstance(value, dict)],
    *[("prompt", value) for value in TYPES if value not in (None, "")],
    *[("temperature", value) for value in [*TYPES, -1, 1e400] if value != 1.5],
    ("width", 3),
]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "by name", "mcp"])
def test_every_argument_with_every_kind_of_value(way: str, server: str) -> None:
    # The ways share what reads arguments: every kind of value goes one of them, and one of each field the others.
    for field, value in WRONG if way == "http" else {field: (field, value) for field, value in WRONG}.values():
        inner = field in ("temperature", "width")
        arguments = SOUND | ({"settings": {field: value}} if inner else {field: value})
        if way == "mcp":
            if "\ud800" in str(value):
                continue  # Its own client cannot send half a character.
            failed, told = called(server, "summary", arguments)
            assert failed, (field, value)
        elif way == "by name":
            told = asked(server, "/gradio_api/call/v2/summary", json.dumps(arguments).encode())
        else:
            told = asked(server, "/gradio_api/call/run", json.dumps({"data": list(arguments.values())}).encode())
        check(told, field)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("nope", '{"data": []}', "endpoint: there is no /nope; there are /run, /summary, /methods, /validate."),
        ("predict", '{"data": []}', "endpoint: there is no /predict"),
        ("run", "", "data: is missing; send a JSON object"),
        ("run", "{}", "data: is missing; send a JSON object"),
        ("run", "[]", "data: stands in no JSON object"),
        ("run", "no json", "data: stands in no JSON object"),
        ("run", '{"data": 3}', "data: is no list"),
        ("run", '{"data": {"method": "ar"}}', "data: is no list"),
        ("v2/run", "{}", "arguments: do not fit /run; it takes method (needed), prompt, seed, model, settings, preset"),
        ("v2/run", '{"bogus": 1, "method": "ar"}', "arguments: do not fit /run"),
        ("v2/run", "[]", 'arguments: stands in no JSON object; send a JSON object such as {"method"'),
    ],
)
def test_a_body_of_another_form(path: str, body: str, told: str, server: str) -> None:
    answer = asked(server, f"/gradio_api/call/{path}", body.encode())
    assert answer.startswith(told)
    check(answer, told.partition(":")[0])


def test_tools_called_with_what_they_do_not_take(server: str) -> None:
    for name, arguments, told in (
        ("nothing", {}, "tool: there is no 'nothing'; there are run, summary, methods, validate."),
        ("run", {}, "method: is missing; run needs it."),
        ("run", {"method": "ar", "bogus": 4}, "bogus: run takes no such argument; there are method, prompt"),
        ("methods", {"method": [1]}, "method: there is no [1]; there are"),
        ("methods", {"x": 1}, "x: methods takes no such argument; there are method."),
        ("validate", {}, "file: is missing; validate needs it."),
        ("validate", {"file": 3}, "file: 3 is no address; give one that begins with http://"),
        ("validate", {"file": "/etc/passwd"}, "file: '/etc/passwd' is no address"),
        ("validate", {"file": {"path": "/etc/passwd"}}, "file: "),
        ("validate", {"file": "http://127.0.0.1:1/x.json"}, "file: it is none that was uploaded here"),
    ):
        failed, answer = called(server, name, arguments)
        assert failed and answer.startswith(told), answer
        check(answer, told.partition(":")[0])
