"""Traces on the hub, against a stand-in of its API on this machine."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import constants
from support import handmade

import draftscope as ds
from draftscope.hub import download
from draftscope.trace import displayable
from draftscope.traces import limits

REPOSITORY = "someone/runs"


@dataclass
class Hub:
    """Files of a stand-in of the hub, and the requests it received."""

    files: dict[str, bytes] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refuses: bool = False


class Handler(BaseHTTPRequestHandler):
    """The routes that creating, committing and downloading use."""

    hub: Hub

    def answer(self, status: int, document: object = None, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.requests.append(f"POST {self.path}")
        if self.hub.refuses:
            self.answer(403, {"error": "no write access"}, X_Error_Message="no write access")
            return
        routes = {
            "/api/repos/create": self.create,
            "/api/validate-yaml": lambda body: {"errors": [], "warnings": []},
            f"/api/datasets/{REPOSITORY}/preupload/main": self.preupload,
            f"/api/datasets/{REPOSITORY}/commit/main": self.commit,
        }
        self.answer(200, routes[self.path](body))

    def create(self, body: bytes) -> object:
        self.hub.created.append(json.loads(body))
        return {"url": f"http://{self.headers['Host']}/datasets/{REPOSITORY}"}

    def preupload(self, body: bytes) -> object:
        names = [file["path"] for file in json.loads(body)["files"]]
        return {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}

    def commit(self, body: bytes) -> object:
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        address = f"http://{self.headers['Host']}/datasets/{REPOSITORY}/commit/{'0' * 40}"
        return {"success": True, "commitOid": "0" * 40, "commitUrl": address}

    def do_GET(self) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        found = re.fullmatch(rf"/datasets/{REPOSITORY}/resolve/([\w.]+)/(.+)", self.path)
        if not found or found[2] not in self.hub.files:
            self.answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
            return
        data = self.hub.files[found[2]]
        self.answer(200, data, ETag=f'"{hashlib.sha256(data).hexdigest()}"', X_Repo_Commit="0" * 40)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    stand_in = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Routes", (Handler,), {"hub": stand_in}))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    cache = str(tmp_path_factory.mktemp("hub"))
    address = f"http://127.0.0.1:{server.server_port}"
    settings = {"ENDPOINT": address, "HF_HUB_OFFLINE": False, "HF_HUB_CACHE": cache}
    settings["HUGGINGFACE_CO_URL_TEMPLATE"] = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in settings.items():
        monkeypatch.setattr(constants, name, value)
    yield stand_in
    server.shutdown()
    server.server_close()


def test_a_trace_comes_back_from_a_private_data_set_with_a_card(hub: Hub) -> None:
    trace = displayable(handmade.scd())
    address = trace.push_to_hub(REPOSITORY, "owl", token="hf_test")
    assert address == "hf://datasets/someone/runs/owl.json.gz"
    assert "private" in (hub.created[0].get("visibility"), *hub.created[0]) and hub.created[0]["type"] == "dataset"
    card = hub.files["README.md"].decode()
    assert f'ds.read("{address}")' in card and trace.prompt not in card
    assert sorted(hub.files) == ["README.md", "owl.json.gz"]
    assert ds.read(address) == trace
    assert ds.read(address.replace("runs/", "runs@v1.0/")) == trace
    assert any("/resolve/v1.0/" in request for request in hub.requests)


def test_a_card_that_is_there_is_left_as_it_is(hub: Hub) -> None:
    hub.files["README.md"] = b"mine"
    displayable(handmade.scd()).push_to_hub(REPOSITORY, "owl", private=False, token="hf_test")
    assert hub.files["README.md"] == b"mine" and hub.created[0].get("visibility") != "private"


def test_what_the_hub_refuses_or_lacks_is_one_sentence(hub: Hub) -> None:
    with pytest.raises(OSError, match=r"^hf://datasets/someone/runs/none\.json: cannot be downloaded \(.*\); check"):
        ds.read("hf://datasets/someone/runs/none.json")
    hub.files["large.json"] = b" " * (limits.FILE_BYTES + 1)
    with pytest.raises(ds.TraceError, match=r"has 33,554,433 bytes; a trace has at most 33,554,432"):
        ds.read("hf://datasets/someone/runs/large.json")
    assert not [one for one in hub.requests if one.startswith("GET")]
    hub.refuses = True
    with pytest.raises(OSError, match=r"^push_to_hub: someone/runs did not take the upload \(.*\); check"):
        displayable(handmade.scd()).push_to_hub(REPOSITORY, "owl", token="hf_test")


def test_a_hub_that_cannot_be_reached_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "HUGGINGFACE_CO_URL_TEMPLATE"):
        monkeypatch.setattr(constants, name, re.sub(r":\d+", ":9", getattr(constants, name)))
    with pytest.raises(OSError, match=r"^hf://datasets/someone/runs/a\.json: cannot be downloaded \(.*\); check"):
        ds.read("hf://datasets/someone/runs/a.json")
    with pytest.raises(OSError, match=r"^push_to_hub: someone/runs did not take the upload \(.*\); check"):
        displayable(handmade.scd()).push_to_hub(REPOSITORY, "owl", token="hf_test")


@pytest.mark.parametrize(
    "address",
    ["hf://", "hf://datasets/a/b", "hf://models/a/b/c.json", "hf://datasets/a/b/../c.json", "hf://datasets/a/b/c.exe"],
)
def test_an_address_of_another_form_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(ds.TraceError, match=r"is not an address of a trace on the hub; use hf://datasets/OWNER/NAME"):
        download(address)


@pytest.mark.parametrize(("repository", "name"), [("one", "a"), ("a/b/c", "a"), ("a/b", "../a"), ("a/b", "")])
def test_a_repository_or_name_of_another_form_is_refused(repository: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"^(repository|name): "):
        displayable(handmade.scd()).push_to_hub(repository, name)
