"""No HTTP request makes the app answer with an error of its own, a traceback or a file, or keeps it from answering.

Requests are sent byte by byte, to the loopback alone, since a client library would mend what is wrong with them.
"""

import gzip
import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robustness.conftest import SECRET, App
from robustness.strategies import TEXTS, as_json, changed, damaged, examples, nested, odd

from draftscope.traces.files import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
PATIENCE_SECONDS = 60.0
"""For an answer: a run or a drawing may be waited for."""
STREAM_SECONDS = 0.1
"""For an answer that goes on for ever, and for one to a request that may have no end."""
READ = (
    "/", "/config", "/healthz", "/readyz", "/line", "/theme.css", "/manifest.json", "/monitoring", "/login", "/x/y",
    "/gradio_api/info?all_endpoints=true", "/gradio_api/openapi.json", "/pwa_icon/0", "/gradio_api/startup-events",
    "/gradio_api/queue/data?session_hash=s", "/gradio_api/heartbeat/s", "/gradio_api/call/run/none", "/gradio_api/mcp/",
    "/?deep_link=%00", "/config?page=x&deep_link=../..", "/gradio_api/stream/s/r/1/playlist.m3u8", "/static/img/x",
)  # fmt: skip
FILES = (
    "/gradio_api/file=", "/gradio_api/file/", "/file=", "/static/", "/assets/", "/svelte/", "/traces/traces/",
    "/traces/", "/gradio_api/proxy=", "/gradio_api/custom_component/file/client/component/",
)  # fmt: skip
"""Prefixes of a file name."""
POSTS = ("call/run", "call/summary", "call/validate", "call/v2/summary", "queue/join", "run/predict", "cancel", "reset")
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "get", "G\x00T")
JSON = "application/json"
TYPES = (JSON, f"{JSON}; charset=utf-16", "text/plain", "", "multipart/form-data; boundary=", "/")
HEADERS = (
    *(("Accept-Encoding", "br;q=nan, gzip;q=-1"), ("Cookie", "a" * 3000 + "=;;==;" + "session=" * 200)),
    *(("Range", "bytes=0-99999999999999999999"), ("Range", "bytes=9-1"), ("If-Modified-Since", "yesterday")),
    *(("X-Forwarded-For", "::1, 999.1.1.1"), ("X-Forwarded-Host", "evil.example/<script>"), ("Host", "[")),
    *(("Host", "127.0.0.1:99999"), ("Origin", "https://evil.example"), ("Origin", "http://["), ("\u00e9-header", "1")),
    *(("Upgrade", "websocket"), ("Expect", "100-continue"), ("Connection", "keep-alive, host")),
)


def composed(method: str, target: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """A request whose parts are what they are given as."""
    names = {name.lower() for name, _ in headers}
    host = [] if "host" in names else [("Host", "127.0.0.1")]
    if method not in ("GET", "HEAD") and not names & {"content-length", "transfer-encoding"}:
        host.append(("Content-Length", f"{len(body)}"))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (*host, *headers))]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


def exchange(address: str, data: bytes, patience: float = PATIENCE_SECONDS) -> bytes:
    """The answer to a request; what came of it within the patience, or until a stream of events begins."""
    parts, answer, late = urlsplit(address), bytearray(), time.monotonic() + patience
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as line:
        try:
            line.sendall(data)
            while not complete(answer):
                streamed = b"text/event-stream" in answer[:2000].lower()
                line.settimeout(STREAM_SECONDS if streamed else max(0.01, late - time.monotonic()))
                part = line.recv(65536)
                if not part:
                    break
                answer += part
        except TimeoutError:
            assert streamed or patience == STREAM_SECONDS, "no answer in time"
        except OSError:  # it may close the connection if the request is not HTTP
            pass
    return bytes(answer)


def complete(answer: bytes | bytearray) -> bool:
    head = answer.find(b"\r\n\r\n")
    promised = re.search(rb"\r\ncontent-length: (\d+)\r\n", answer[: head + 2], re.IGNORECASE) if head >= 0 else None
    return promised is not None and len(answer) >= head + 4 + int(promised[1])


def status(answer: bytes) -> int:
    line = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(line[1]) if line else 0


def check(request: bytes, answer: bytes) -> None:
    """Fail if an answer is a server error, or contains a secret."""
    code, body = status(answer), answer.decode("utf-8", "replace")
    assert code < 500 or code in (503, 507), body[-200:]  # those two say a limit
    assert SECRET not in body and "root:x:0:" not in body
    assert "Traceback (most" not in body
    for path in (str(ROOT), str(Path.home()), sys.prefix):
        assert len(path) < 2 or path not in body or path in unquote(request.decode("utf-8", "replace")), path


def send(app: App, data: bytes, patience: float = PATIENCE_SECONDS) -> None:
    """Send a request, check the answer, and see that the log has no traceback and that others are answered at once."""
    logged = app.log.stat().st_size
    check(data, exchange(app.address, data, patience))
    assert status(exchange(app.address, composed("GET", "/healthz"))) == 200
    with app.log.open("rb") as log:
        log.seek(logged)
        assert b"Traceback" not in log.read()


headers = st.lists(st.sampled_from(HEADERS), max_size=3)


@st.composite
def reading(draw: st.DrawFn) -> bytes:
    """An address of the app, by another method, with another query or headers than it is made for."""
    target = draw(st.sampled_from(("", "/", "////"))) + draw(st.sampled_from(READ))
    if draw(st.booleans()):
        target += f"?{quote(draw(st.sampled_from(TEXTS)))}={quote(str(draw(odd))[:500], errors='replace')}"
    return composed(draw(st.just("GET") | st.sampled_from(METHODS)), target, headers=draw(headers))


@st.composite
def escaping(draw: st.DrawFn, secret: str) -> bytes:
    """The name of a file that is not the visitor's."""
    path = draw(st.sampled_from((secret, "/etc/passwd", "/proc/self/environ", "/proc/self/cwd/app.py")))
    up = "../" * draw(st.sampled_from((1, 3, 12))) + path.lstrip("/")
    name = draw(st.sampled_from((
        path, "/" + path, up, f"/x/{up}", quote(path, safe=""), quote(up, safe=""), up.replace("..", "%2e%2e"),
        quote(quote(up, safe=""), safe=""), up.replace("/", "\\"), up.replace("../", "....//"),
        up.replace(".", "%c0%ae"), up.replace("..", "\u2025"), path + "%00.json.gz", path + "/.", f"file://{path}",
        f"http://127.0.0.1:9{path}", f"//127.0.0.1{path}", f"\\\\127.0.0.1\\c$\\{path}", f"C:\\{path}", "~/.bashrc",
        f"data:,{path}", "app.py", "assets/models/MANIFEST.json", ".", "", "%00", "a" * 5000, path + "#x",
    )))  # fmt: skip
    return composed("GET", draw(st.sampled_from(FILES)) + name.replace(" ", "%20"), headers=draw(headers))


@st.composite
def posting(draw: st.DrawFn, events: Sequence[dict[str, object]]) -> bytes:
    """A call for programs or an event of the page, changed, damaged, or said to be what it is not."""
    sound = {"data": ["ar", "", 0, "toy-raster", {}, None], "method": "ar", "model": "toy-raster"}
    document = draw(changed(draw(st.just(sound) | st.sampled_from(events)), 2))
    body, fields = as_json(document), [("Content-Type", draw(st.just(JSON) | st.sampled_from(TYPES)))]
    kind = draw(st.sampled_from(("sound", "sound", "sound", "damaged", "bomb", "deep", "utf-32")))
    if kind == "damaged":
        body = draw(damaged(body))
    elif kind == "bomb":
        body, fields = gzip.compress(b"[" * 10**7), [*fields, ("Content-Encoding", "gzip")]
    elif kind == "deep":
        body = nested(draw(st.sampled_from((100_000, 100_001)))).encode()
    elif kind == "utf-32":
        body = body.decode().encode(kind)
    return composed("POST", f"/gradio_api/{draw(st.sampled_from(POSTS))}", body, [*fields, *draw(headers)])


@st.composite
def endless(draw: st.DrawFn) -> bytes:
    """Barely HTTP: a body of another length than declared, invalid chunks, lines that never end."""
    target = draw(st.sampled_from(("/gradio_api/upload", "/gradio_api/call/methods", "/gradio_api/queue/join")))
    lengths = ("0", "99", "-1", "1e3", "0x10", "10, 20", "9" * 30, "", "\u0665", "40000000000")
    chunks = (b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffffff\r\na", b"-1\r\n\r\n", b"zz\r\n", b"5\r\nhel")
    lying = [composed("POST", target, b'{"data": []}', [("Content-Length", length)]) for length in lengths]
    chunked = [composed("POST", target, body, [("Transfer-Encoding", "chunked")]) for body in chunks]
    sound = composed("GET", "/healthz", headers=draw(headers))
    malformed = (
        *(sound.replace(b"\r\n", ending) for ending in (b"\n", b"\r", b"\r\n ")),
        *(composed("GET", bad) for bad in ("*", "http://evil.example/", "", "/\x00", "/%zz", "/" + "a" * 70_000)),
        composed("GET", "/healthz", headers=[("X-Long", "a" * 300_000)]),
        composed("GET", "/healthz", headers=[(f"X-{number}", "a") for number in range(5000)]),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40),
        b"\x16\x03\x01\x02\x00" + bytes(range(256)),
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nNo colon\r\n\r\n",
        sound * 50,
    )
    return draw(st.sampled_from((*lying, *chunked, *malformed)) | damaged(sound))


@pytest.mark.slow
@examples(40, 500)
@given(data=st.data())
def test_no_request_gets_an_error_of_the_server_or_a_secret(app: App, data: st.DataObject) -> None:
    kinds = {"file": escaping(str(app.secret)), "post": posting(app.events), "read": reading()}
    kind = data.draw(st.sampled_from((*kinds, "endless")))
    send(app, data.draw(kinds.get(kind, endless())), STREAM_SECONDS if kind == "endless" else PATIENCE_SECONDS)


@pytest.mark.slow
def test_no_event_of_the_page_fails_on_nothing(app: App) -> None:
    for event in app.events:
        nothing = {"data": [None] * len(event["data"]), "event_data": {"index": -1, "run": "", "chosen": None}}
        body = as_json({**event, **nothing})
        send(app, composed("POST", "/gradio_api/run/predict", body, [("Content-Type", JSON)]))


@pytest.mark.parametrize(
    ("code", "body"),
    [(500, "Error"), (200, SECRET), (403, f"{ROOT}/app.py"), (200, "Traceback (most recent call last)")],
)
def test_what_a_server_gives_away_is_found(code: int, body: str) -> None:
    with pytest.raises(AssertionError):
        check(composed("GET", "/x"), f"HTTP/1.1 {code} x\r\n\r\n{body}".encode())
    check(composed("GET", f"{ROOT}/x"), f"HTTP/1.1 403 x\r\n\r\n{ROOT}/x is not allowed".encode())
