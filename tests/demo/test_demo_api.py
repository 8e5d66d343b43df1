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
from demo.pages.api import run, validate
from traces import dumps, loads

SETTINGS = {"window": 8, "coupling": "gumbel"}


@pytest.fixture(scope="module")
def client(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client(server, verbose=False, download_files=str(tmp_path_factory.mktemp("client")))
    yield client
    client.close()


def test_two_endpoints_are_public_and_no_more(client: Client) -> None:
    offered = client.view_api(return_format="dict")
    assert set(offered["named_endpoints"]) == {"/run", "/validate"}
    assert offered["unnamed_endpoints"] == {}


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
        assert "valid" not in answer


def test_validate_says_that_nothing_was_given() -> None:
    assert validate(None)["problem"] == "none was given"


def test_the_server_is_ready_and_hands_out_nothing_else(server: str) -> None:
    assert _status(f"{server}/healthz") == 200
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
