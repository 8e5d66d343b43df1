"""The API, over HTTP and as tools: the answers, and one-sentence errors."""

import asyncio
import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

from benchmarks._toy_runs import MODEL, decode_toy_raster
from draftscope.cli.main import main
from draftscope.demo.pages.api import FILE_FORMAT, TOOLS, methods, run, summary, validate
from draftscope.demo.server.limits import PROMPT_CHARACTERS, UPLOAD_BYTES
from draftscope.engines.methods import METHODS
from draftscope.traces import dumps, loads
from draftscope.traces.version import __version__

SETTINGS = {"window": 8, "coupling": "gumbel"}
ARGUMENTS = ["method", "prompt", "seed", "model", "settings", "preset", "draft"]
SOUND = {"method": "ar", "prompt": "", "seed": 0, "model": MODEL, "settings": {}, "preset": None}
TYPES: list[Any] = [None, 3, 1.5, True, "", "magic", [1], {"a": 1}, "\ud800", "x" * 5000]
"""One of everything that JSON can hold."""
WRONG = [
    *[("method", value) for value in TYPES],
    *[("model", value) for value in TYPES if value not in (None, "")],
    *[("draft", value) for value in TYPES if value not in (None, "")],
    *[("seed", value) for value in [*TYPES, -1, 2**31, 10**30] if value != 3],
    *[("preset", value) for value in TYPES if value not in (None, "")],
    *[("settings", value) for value in TYPES if value is not None and not isinstance(value, dict)],
    *[("prompt", value) for value in [*TYPES, "x" * (PROMPT_CHARACTERS + 1)] if value not in (None, "")],
    *[("temperature", value) for value in [*TYPES, -1, 1e400, 10**400] if value != 1.5],
    ("width", 3),
]
UPSTREAM = ("verbose error", "view api", "validation error", "is not of type", "under any of", "is not one of")


def with_value(field: str, value: Any) -> dict[str, Any]:
    inner = field in ("temperature", "width")
    return SOUND | ({"settings": {field: value}} if inner else {field: value})


def check(answer: str, field: str) -> None:
    assert not [words for words in UPSTREAM if words in answer.lower()], answer
    sentence = json.loads(answer.partition("data: ")[2])["error"] if answer.startswith("event: error") else answer
    assert sentence.startswith(f"{field}: ") and sentence.endswith("."), sentence


@pytest.mark.slow
def test_a_summary_and_the_trace_are_those_of_the_same_run_anywhere() -> None:
    trace = decode_toy_raster("scd", seed=3, **SETTINGS)
    answer = summary("scd", "", 3, MODEL, SETTINGS)
    assert answer["forwards"] == trace.summary.forwards and answer["acceptance"] == trace.summary.acceptance
    assert answer["config"] == dict(trace.config) and answer["device"] == trace.environment.device
    assert len(json.dumps(answer)) < 2000
    assert loads(json.dumps(run("scd", "", 3, MODEL, SETTINGS)).encode()).output == trace.output


def test_every_argument_with_every_kind_of_value_is_refused_by_name() -> None:
    for field, value in WRONG:
        with pytest.raises(ValueError) as caught:
            run(**with_value(field, value))
        check(str(caught.value), field)


def test_methods_lists_what_the_command_line_lists(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(json.dumps(methods()))
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert answer["methods"] == listed["methods"]
    assert MODEL in answer["models"]
    assert all(listed["models"][name] == model for name, model in answer["models"].items())
    one = methods("psd")
    assert list(one["methods"]) == ["psd"] and "Spiffy" in one["methods"]["psd"]["presets"]
    assert MODEL not in one["models"]


def test_validate_says_what_is_wrong() -> None:
    data = dumps(decode_toy_raster("scd", window=16))
    assert validate(gzip.compress(data))["method"] == "scd"
    document = json.loads(data)
    document["steps"][0]["fate"][0] = "eaten"
    verdict = validate(json.dumps(document).encode())
    assert (verdict["valid"], verdict["field"]) == (False, "steps[0].fate[0]") and "eaten" in verdict["problem"]
    assert validate(None)["problem"] == "none was given"


@pytest.fixture(scope="module")
def client(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client(server, verbose=False, download_files=str(tmp_path_factory.mktemp("client")))
    yield client
    client.close()


def test_four_endpoints_are_public_and_described(client: Client, tmp_path: Path) -> None:
    offered = client.view_api(return_format="dict")
    assert set(offered["named_endpoints"]) == {"/run", "/summary", "/methods", "/validate"}
    assert offered["unnamed_endpoints"] == {}
    for name in ("/run", "/summary"):
        parameters = offered["named_endpoints"][name]["parameters"]
        assert parameters[0]["type"]["enum"] == list(METHODS) and MODEL in parameters[3]["type"]["oneOf"][1]["enum"]
        assert [one["parameter_name"] for one in parameters] == ARGUMENTS
        assert [one["parameter_has_default"] for one in parameters] == [False, *[True] * 6]
    sound = tmp_path / "sound.json.gz"
    sound.write_bytes(gzip.compress(dumps(decode_toy_raster("scd", window=16))))
    assert client.predict(handle_file(sound), api_name="/validate")["valid"]


def posted(server: str, path: str, body: object) -> str:
    """Return the server's answer to a raw body."""
    url, kind = f"{server}/gradio_api/call", {"Content-Type": "application/json"}
    answer = httpx.post(f"{url}/{path}", content=json.dumps(body), headers=kind)
    if answer.status_code == 200:
        return httpx.get(f"{url}/{path.removeprefix('v2/')}/{answer.json()['event_id']}", timeout=60).text
    assert answer.status_code in (404, 422), answer.text
    return str(answer.json()["error"])


FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("nope", {"data": []}, "endpoint: there is no /nope; there are /run, /summary, /methods, /validate."),
        ("run", None, "data: is not in a JSON object"),
        ("run", {}, "data: is missing; send a JSON object"),
        (
            "v2/run",
            {},
            "arguments: do not fit /run; it takes method (needed), prompt, seed, model, settings, preset, draft",
        ),
        ("v2/run", [], 'arguments: is not in a JSON object; send a JSON object such as {"method"'),
        ("run", {"data": []}, "method: there is no None; there are"),
        (
            "run",
            {"data": ["scd", "", 0, MODEL, {}, None, None, "more"]},
            "data: 8 values are too many for /run; send at",
        ),
        ("validate", {"data": [FILE]}, "file: unknown path; upload the file first"),
    ],
)
def test_a_request_that_cannot_be_served_hears_why(path: str, body: object, sentence: str, server: str) -> None:
    answer = posted(server, path, body)
    assert sentence in answer.replace('\\"', '"')
    check(answer, sentence.partition(":")[0])


def test_the_server_is_ready_knows_defaults_and_hands_out_nothing_else(server: str) -> None:
    answer = posted(server, "summary", {"data": ["ar", "", 3, MODEL]})
    assert json.loads(answer.partition("data: ")[2])[0]["forwards"] == decode_toy_raster("ar", seed=3).summary.forwards
    for path in ("/healthz", "/monitoring/summary"):  # the page asks for the second, and logs a refusal
        assert httpx.get(server + path).status_code == 200, path
    for path in ("/monitoring", "/openapi.json", "/docs", "/live/x", f"/gradio_api/file={__file__}"):
        assert httpx.get(server + path).status_code in (403, 404), path
    large = httpx.post(f"{server}/gradio_api/upload", files={"files": b"0" * (UPLOAD_BYTES + 1)}, timeout=60)
    assert large.status_code == 413


def in_session(server: str, use: Any) -> Any:
    async def talk() -> Any:
        address = f"{server}/gradio_api/mcp/"
        async with streamable_http_client(address) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            return await use(session)

    return asyncio.run(talk())


def called(server: str, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the call failed, and the text of the answer, which is also returned as data."""

    async def use(session: ClientSession) -> types.CallToolResult:
        return await session.call_tool(name, dict(arguments))

    answer = in_session(server, use)
    (content,) = answer.content
    assert answer.isError or answer.structuredContent == json.loads(content.text)
    return answer.isError, content.text


def test_every_tool_is_described_and_answers_with_json(server: str) -> None:
    async def use(session: ClientSession) -> tuple[types.InitializeResult, list[types.Tool]]:
        return await session.initialize(), (await session.list_tools()).tools

    begun, listed = in_session(server, use)
    assert begun.serverInfo.version == __version__
    tools = {tool.name: tool for tool in listed}
    assert set(tools) == set(TOOLS)
    for name, tool in tools.items():
        assert tool.description and len(tool.description.split()) > 8 and tool.title, name
        assert tool.annotations and tool.annotations.readOnlyHint and tool.annotations.openWorldHint is False, name
        assert tool.outputSchema and tool.outputSchema["required"] == list(TOOLS[name].output)
    schema = tools["draftscope_run"].inputSchema
    properties = schema["properties"]
    assert list(properties) == ARGUMENTS and schema["required"] == ["method"]
    assert properties["method"]["enum"] == list(METHODS)
    assert all(len(described["description"].split()) > 3 for described in properties.values())
    assert tools["draftscope_validate"].inputSchema["properties"]["file"]["format"] == FILE_FORMAT
    sound = base64.b64encode(dumps(decode_toy_raster("scd", window=16))).decode()
    failed, text = called(server, "draftscope_validate", {"file": f"data:application/json;base64,{sound}"})
    assert not failed and json.loads(text)["valid"]
    failed, text = called(server, "draftscope_methods", {"method": "psd"})
    assert not failed and "Spiffy" in json.loads(text)["methods"]["psd"]["presets"]


def test_a_tool_answers_with_a_summary_and_the_address_of_the_trace(server: str) -> None:
    arguments = {"method": "speculative", "prompt": "", "model": MODEL, "draft": MODEL, "seed": 3}
    failed, text = called(server, "draftscope_run", arguments)
    answer = json.loads(text)
    assert not failed and len(text) < 3000
    assert answer["forwards"] == decode_toy_raster("speculative", seed=3, drafter="itself").summary.forwards
    trace = loads(httpx.get(answer["trace"]).content)
    assert trace.output.text == answer["text"] and trace.summary.forwards == answer["forwards"]
    assert trace.draft_model is not None and trace.draft_model.id == MODEL


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("nothing", {}, "tool: there is no 'draftscope_nothing'; there are draftscope_run, draftscope_methods, "),
        ("run", {}, "method: is missing; draftscope_run needs it."),
        ("run", {"method": "ar", "bogus": 4}, "bogus: draftscope_run takes no such argument; there are method, prompt"),
        ("run", SOUND | {"prompt": "a boot"}, "prompt: toy-raster draws without a prompt"),
        ("run", SOUND | {"draft": "/etc"}, "draft: there is no '/etc'; use one of"),
        ("methods", {"method": [1]}, "method: there is no [1]; there are"),
        ("validate", {"file": "/etc/passwd"}, "file: '/etc/passwd' is not read from elsewhere"),
        ("validate", {"file": "http://127.0.0.1:1/x.json"}, "file: 'http://127.0.0.1:1/x.json' is not read"),
    ],
)
def test_a_tool_says_what_was_wrong(name: str, arguments: dict[str, Any], sentence: str, server: str) -> None:
    failed, answer = called(server, f"draftscope_{name}", arguments)
    assert failed and answer.startswith(sentence), answer
    check(answer, sentence.partition(":")[0])
