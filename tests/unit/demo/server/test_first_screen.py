"""The beginning of the page is sent before the app has written the rest."""

import zlib

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from draftscope.demo.server.first_screen import FirstScreen

BEGINNING = "<!doctype html><html><head></head><body><p>first</p>"
DOCUMENT = b"<!doctype html><html><head><title>App</title></head><body>app</body></html>"


def answers(path: str, method: str = "GET", encoding: str = "", beginning: str = BEGINNING) -> list[Message]:
    """Messages in the order in which they are sent, with a mark when the app is asked."""
    sent = list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        sent.append({"type": "app", "encoding": dict(scope["headers"]).get(b"accept-encoding")})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": DOCUMENT})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"accept-encoding", encoding.encode())] if encoding else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    anyio.run(FirstScreen(app, beginning), scope, receive, send)
    return sent


def bodies(messages: list[Message]) -> bytes:
    return b"".join(message["body"] for message in messages if "body" in message)


@pytest.mark.parametrize("encoding", ["", "gzip, br"])
def test_the_beginning_comes_before_the_app_is_asked_and_the_rest_without_its_first_tags(encoding: str) -> None:
    sent = answers("/", encoding=encoding)
    assert [message["type"].rpartition(".")[2] for message in sent] == ["start", "body", "app", "body"]
    assert sent[2]["encoding"] is None  # compressed once
    assert dict(sent[0]["headers"]).get(b"content-encoding") == (b"gzip" if encoding else None)
    reader = zlib.decompressobj(31)
    first = reader.decompress(sent[1]["body"]) if encoding else sent[1]["body"]
    assert first.decode() == BEGINNING
    remainder = reader.decompress(sent[3]["body"]) + reader.flush() if encoding else sent[3]["body"]
    assert remainder == b"<title>App</title></head><body>app</body></html>"


@pytest.mark.parametrize(
    ("path", "method", "beginning"), [("/config", "GET", BEGINNING), ("/", "HEAD", BEGINNING), ("/", "GET", "")]
)
def test_everything_else_is_the_apps(path: str, method: str, beginning: str) -> None:
    sent = answers(path, method, "gzip", beginning)
    assert sent[0] == {"type": "app", "encoding": b"gzip"}
    assert bodies(sent) == DOCUMENT


def test_the_rest_is_written_once_for_every_address_and_anew_for_a_query_or_after_an_error() -> None:
    hosts, status = list[str](), [200]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        hosts.append(dict(scope["headers"]).get(b"host", b"").decode())
        await send({"type": "http.response.start", "status": status[0], "headers": []})
        await send({"type": "http.response.body", "body": DOCUMENT + hosts[-1].encode()})

    screen = FirstScreen(app, BEGINNING)

    def body(host: str, query: bytes = b"", encoding: bytes = b"") -> bytes:
        sent = list[Message]()

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        headers = [(b"host", host.encode()), (b"accept-encoding", encoding)]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": query}
        anyio.run(screen, scope, receive, send)
        return zlib.decompress(bodies(sent), 31) if encoding else bodies(sent)

    assert body("a") == body("a") == body("a", encoding=b"gzip") == body("a", encoding=b"gzip")
    assert body("a").endswith(b"</html>a") and body("b").endswith(b"</html>b")
    assert hosts == ["a", "a", "b"]  # plain, compressed, and of another address
    body("a", b"deep_link=x")
    body("a", b"deep_link=x")
    assert hosts == ["a", "a", "b", "a", "a"]
    status[0] = 500
    assert body("c") == body("c")
    assert hosts[5:] == ["c", "c"]
    status[0] = 200
    for number in range(20):
        body(f"{number}")
    body("19")
    body("a")
    assert hosts[7:] == [*map(str, range(20)), "a"] and len(screen._documents) < 20
