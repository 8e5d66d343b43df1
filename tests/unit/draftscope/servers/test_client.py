"""Requests to servers: where they go, and one sentence for all that goes wrong."""

import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from draftscope.servers.client import KEY_VARIABLE, MAX_BYTES, ServerClient, ServerError

WRONG = {"error": {"message": "n_probs\n is\x1b wrong."}}


def client(answer: Callable[[httpx.Request], httpx.Response], url: str = "http://here:1/v1/") -> ServerClient:
    return ServerClient(url, transport=httpx.MockTransport(answer))


def raises(error: type[httpx.TransportError]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error("x", request=request)

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _: httpx.Response(404), r"^http://here:1/x: has no such route or model \(404\); give the address"),
        (lambda _: httpx.Response(429), r"limits requests \(429\); lower the concurrency, or wait\.$"),
        (lambda _: httpx.Response(401), f"put the key into {KEY_VARIABLE}"),
        (lambda _: httpx.Response(307, headers={"location": "http://there/"}), "redirects to 'http://there/', which"),
        (lambda _: httpx.Response(200, text="<html>hi"), "answers with HTML where JSON is expected"),
        (lambda _: httpx.Response(200, text="busy"), "answers with b'busy' where JSON is expected"),
        (lambda _: httpx.Response(400, json=WRONG), r"an error \(400: n_probs is wrong\); look at its log"),
        (lambda _: httpx.Response(500, text="<html>"), r"answers with an error \(500\); look at its log"),
        (lambda _: httpx.Response(200, content=b"1" * (MAX_BYTES + 1)), "answers with more than 64 MB"),
        (raises(httpx.ReadError), r"closed the connection in the middle \(ReadError\)"),
        (raises(httpx.RemoteProtocolError), r"closed the connection in the middle \(RemoteProtocolError\)"),
        (raises(httpx.ReadTimeout), "sent nothing for 120 seconds"),
        (raises(httpx.ConnectError), "^http://here:1: does not answer; start the server"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_sentence(answer: Any, words: str) -> None:
    with client(answer) as server, pytest.raises(ServerError, match=words) as caught:
        server.post("/x", {})
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize("url", ["here:80", "ftp://here", "http://", "", "http://a:b:c", "file:///etc/passwd"])
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(ServerError, match=r"is not an address.*; use a form such as http://127\.0\.0\.1:8080\.$"):
        ServerClient(url)


def test_requests_go_to_the_named_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=[1])

    with client(answer, "https://here:1/base/v1?x=1") as server:
        assert server.get("/v1/models") == [1]
    (request,) = seen
    assert str(request.url) == "https://here:1/base/v1/models"
    assert request.headers["authorization"] == "Bearer secret"


def test_a_stream_arrives_object_by_object() -> None:
    parts = [b'data: {"a": 1}\n\nda', b'ta: {"a": 2}\n: ping\nevent: x\n', b"data: [DONE]\n", b'data: {"a": 3}']
    with client(lambda _: httpx.Response(200, content=iter(parts))) as server:
        assert list(server.stream("/x", {})) == [{"a": 1}, {"a": 2}, {"a": 3}]
    for content, words in (
        (b'data: {"error": {"message": "out of slots"}}\n', r"ends with an error: out of slots; look at its log"),
        (b"data: {broken\n", "where JSON is expected"),
        (b"<html>", "answers with HTML where JSON"),
    ):
        with (
            client(lambda _, content=content: httpx.Response(200, content=content)) as server,
            pytest.raises(ServerError, match=words),
        ):
            list(server.stream("/x", {}))


def test_a_request_that_is_dropped_without_an_answer_is_sent_once_more() -> None:
    """llama.cpp closes connections that it has kept, at a moment when a request may be on its way."""
    seen: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(1)
        if len(seen) == 1:
            raise httpx.RemoteProtocolError("x", request=request)
        return httpx.Response(200, json={"a": 1})

    with client(answer) as server:
        assert server.post("/x", {}) == {"a": 1}
    assert len(seen) == 2


def test_a_port_without_a_server() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        with ServerClient(address) as server, pytest.raises(ServerError, match="does not answer"):
            server.get("/v1/models")
