"""What programs may call, through gradio's own client."""

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from support.raster import MODEL, decoded

from demo.limits import PROMPT_CHARACTERS
from demo.pages.api import run, summary, validate
from engines.__main__ import main
from engines.methods import METHODS
from traces import dumps, loads

SETTINGS = {"window": 8, "coupling": "gumbel"}


@pytest.fixture(scope="module")
def client(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client(server, verbose=False, download_files=str(tmp_path_factory.mktemp("client")))
    yield client
    client.close()


def test_four_endpoints_are_public_and_no_more(client: Client) -> None:
    offered = client.view_api(return_format="dict")
    assert set(offered["named_endpoints"]) == {"/run", "/summary", "/methods", "/validate"}
    assert offered["unnamed_endpoints"] == {}


@pytest.mark.parametrize("name", ["/run", "/summary"])
def test_what_may_be_said_is_in_the_description(name: str, client: Client) -> None:
    offered = client.view_api(return_format="dict")["named_endpoints"][name]
    method, _, _, model, *_ = offered["parameters"]
    assert method["type"]["enum"] == list(METHODS)
    assert MODEL in model["type"]["oneOf"][1]["enum"]
    assert [one["parameter_name"] for one in offered["parameters"]] == [
        "method", "prompt", "seed", "model", "settings", "preset",
    ]  # fmt: skip
    assert [one["parameter_has_default"] for one in offered["parameters"]] == [False, *[True] * 5]


def test_methods_lists_what_the_command_line_lists(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    told = client.predict(api_name="/methods")
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert told["methods"] == listed["methods"]
    assert MODEL in told["models"] and told["models"].items() <= listed["models"].items()
    one = client.predict("psd", api_name="/methods")
    assert list(one["methods"]) == ["psd"] and "Spiffy" in one["methods"]["psd"]["presets"]
    assert MODEL not in one["models"]


def test_a_summary_says_what_the_trace_came_to(client: Client) -> None:
    told = client.predict("scd", "", 3, MODEL, SETTINGS, api_name="/summary")
    trace = decoded("scd", seed=3, **SETTINGS)
    assert told["forwards"] == trace.summary.forwards and told["acceptance"] == trace.summary.acceptance
    assert told["config"] == dict(trace.config) and told["device"] == trace.environment.device
    assert len(json.dumps(told)) < 2000


def test_a_preset_names_settings_and_settings_overrule_it() -> None:
    asked = {"method": "psd", "model": "text-target", "prompt": "How many?", "preset": "Spiffy"}
    told = summary(**asked, settings={"length": 8})
    assert (told["variant"], told["config"]["length"]) == ("Spiffy", 8)
    with pytest.raises(gr.Error, match="preset: psd has no 'Spify'; there are"):
        summary(**{**asked, "preset": "Spify"})


def test_a_choice_among_numbers_is_said_with_a_number() -> None:
    asked = {"method": "blockwise", "model": "text-draft", "prompt": "How many?"}
    assert summary(**asked, settings={"block": 8, "length": 8})["config"]["block"] == "8"
    with pytest.raises(gr.Error, match="block: 7 is not allowed; use one of 1, "):
        summary(**asked, settings={"block": 7})


def test_run_returns_the_trace_of_the_same_run_anywhere(client: Client) -> None:
    answer = client.predict("scd", "", 3, MODEL, SETTINGS, api_name="/run")
    trace = loads(json.dumps(answer).encode())
    assert trace.output == decoded("scd", seed=3, **SETTINGS).output
    assert trace.config["window"] == 8


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"method": "magic"}, "method: there is no 'magic'"),
        ({"seed": -1}, "seed: -1 is not allowed"),
        ({"seed": "1"}, "seed: '1' is not allowed"),
        ({"model": "/etc/passwd"}, "model: there is no '/etc/passwd'"),
        ({"prompt": "x" * (PROMPT_CHARACTERS + 1)}, f"prompt: use a text of at most {PROMPT_CHARACTERS}"),
        ({"prompt": "a boot"}, "prompt: toy-raster draws without a prompt"),
        ({"settings": {"window": 1000}}, "window: 1000 is not allowed; use a whole number from 1 to 256"),
        ({"settings": {"width": 3}}, "width: no such setting"),
        ({"settings": [1]}, "settings: [1] is not allowed"),
        ({"method": ["scd"]}, "method: there is no ['scd']"),
        ({"method": None}, "method: there is no None; there are"),
        ({"method": {"a": 1}}, "method: there is no {'a': 1}"),
        ({"model": ["toy-raster"]}, "model: there is no ['toy-raster']"),
        ({"model": {"a": 1}}, "model: there is no {'a': 1}"),
        ({"prompt": ["a"]}, "prompt: use a text"),
        ({"prompt": "\ud800"}, "prompt: half a character"),
        ({"preset": ["a"]}, "preset: ['a'] is not allowed"),
        ({"seed": 1.5}, "seed: 1.5 is not allowed"),
        ({"settings": {"window": 10**400}}, "window: 1000"),
        ({"settings": {"window": [8]}}, "window: [8] is not allowed"),
        ({"settings": {"coupling": 10**400}}, "coupling: 1000"),
        ({"settings": {"coupling": ["gumbel"]}}, "coupling: ['gumbel'] is not allowed"),
    ],
)
def test_run_names_field_value_and_remedy(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(gr.Error) as caught:
        run(**{"method": "scd", "model": MODEL, **asked})
    assert told in caught.value.message


def test_the_client_hears_what_was_wrong(client: Client) -> None:
    with pytest.raises(AppError, match="there is no 'magic'"):
        client.predict("magic", None, 0, MODEL, {}, api_name="/run")


def test_validate_accepts_a_trace_and_says_what_is_wrong_with_another(client: Client, tmp_path: Path) -> None:
    sound, broken = tmp_path / "sound.json.gz", tmp_path / "broken.json"
    data = dumps(decoded("scd", window=16))
    sound.write_bytes(gzip.compress(data))
    document = json.loads(data)
    document["steps"][0]["fate"][0] = "eaten"
    broken.write_text(json.dumps(document))
    verdict = client.predict(handle_file(sound), api_name="/validate")
    assert verdict["valid"]
    assert verdict["method"] == "scd"
    verdict = client.predict(handle_file(broken), api_name="/validate")
    assert not verdict["valid"]
    assert verdict["field"] == "steps[0].fate[0]"
    assert "eaten" in verdict["problem"]


def test_validate_takes_no_path_of_the_server(server: str) -> None:
    for path in ("/etc/passwd", str(Path(__file__).resolve())):
        answer = _called(server, "validate", {"path": path, "meta": {"_type": "gradio.FileData"}})
        assert "event: error" in answer
        assert "file: it is none that was uploaded here; upload it first" in answer
        assert "valid" not in answer


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("run", [], "method: there is no None; there are"),
        ("run", [["scd"]], "method: there is no ['scd']"),
        ("run", [{}, [], {}, [], 3, 4], "method: there is no {}"),
        ("run", ["scd", "", 0, MODEL, {}, None, "more"], "data: 7 values are too many for /run; send at most 6."),
        ("summary", ["ar", "", "x", MODEL], "seed: 'x' is not allowed"),
        ("methods", [["scd"]], "method: there is no ['scd']"),
        ("validate", ["a"], "file: it is none that was uploaded here"),
        ("validate", [3], "file: it is none that was uploaded here"),
        ("validate", [[1, 2]], "file: it is none that was uploaded here"),
        ("validate", [{"path": 3}], "file: it is none that was uploaded here"),
    ],
)
def test_a_bare_request_hears_what_was_wrong(name: str, data: list[object], told: str, server: str) -> None:
    answer = _called(server, name, *data)
    assert "event: error" in answer
    assert json.loads(answer.partition("data: ")[2])["error"].startswith(told)


def test_what_is_left_out_at_the_end_has_its_default(server: str) -> None:
    answer = _called(server, "summary", "ar", "", 3, MODEL)
    assert json.loads(answer.partition("data: ")[2])[0]["forwards"] == decoded("ar", seed=3).summary.forwards


def test_validate_says_that_nothing_was_given() -> None:
    assert validate(None)["problem"] == "none was given"


def test_the_server_is_ready_and_hands_out_nothing_else(server: str) -> None:
    assert _status(f"{server}/healthz") == 200
    assert _status(f"{server}/monitoring/summary") == 200  # the page asks for it, and logs a refusal
    for path in ("/monitoring", "/openapi.json", "/docs", f"/gradio_api/file={Path(__file__).resolve()}"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server + path)
        assert caught.value.code in (403, 404), path
        caught.value.close()


def _status(address: str) -> int:
    with urllib.request.urlopen(address) as answer:
        return int(answer.status)


def _called(server: str, name: str, *data: object) -> str:
    """What the server says to a bare request, without the client's courtesies."""
    address = f"{server}/gradio_api/call/{name}"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps({"data": data}).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{address}/{event}", timeout=30) as answer:
        return str(answer.read().decode())
