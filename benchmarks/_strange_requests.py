"""Strange HTTP requests to the app, as bytes: what a client library would never send included.

Like other strange documents they follow from a `random.Random`. Most are sound around what is odd about them, so that
they come past the parser of HTTP.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote

from benchmarks._mutation import ODD, TEXTS, as_json, changed, damaged, nested

READ: Final = (
    "/", "/config", "/healthz", "/readyz", "/line", "/theme.css", "/manifest.json", "/robots.txt", "/favicon.ico",
    "/gradio_api/info", "/gradio_api/info?all_endpoints=true", "/gradio_api/openapi.json", "/monitoring",
    "/pwa_icon/0", "/gradio_api/startup-events", "/gradio_api/queue/status", "/gradio_api/upload_progress?upload_id=a",
    "/gradio_api/queue/data?session_hash=s", "/gradio_api/heartbeat/s", "/gradio_api/call/run/none",
    "/gradio_api/mcp/", "/gradio_api/app_id", "/gradio_api/token", "/gradio_api/user", "/gradio_api/runs",
    "/gradio_api/run-history/records", "/config?page=x&deep_link=../..", "/?deep_link=%00",
    "/gradio_api/deep_link?session_hash=s", "/login", "/x/y", "/gradio_api/stream/s/r/1/playlist.m3u8",
    "/gradio_api/vibe-code/", "/gradio_api/mcp/schema", "/static/img/x",
)  # fmt: skip
"""Addresses that answer a GET, or did once."""
FILES: Final = (
    "/gradio_api/file=", "/gradio_api/file/", "/file=", "/file/", "/static/", "/assets/", "/svelte/",
    "/traces/traces/", "/traces/", "/gradio_api/proxy=", "/gradio_api/custom_component/file/client/component/",
)  # fmt: skip
"""What stands before the name of a file."""
CALLS: Final = (
    "call/run", "call/summary", "call/methods", "call/validate", "call/v2/summary", "run/summary", "api/methods",
)  # fmt: skip
_METHODS: Final = (
    "GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "G\x00T",
)  # fmt: skip
_TYPES: Final = (
    "application/json", "application/json; charset=utf-16", "application/json; charset=nonsense", "text/plain", "",
    "multipart/form-data", "multipart/form-data; boundary=", "application/x-www-form-urlencoded", "a" * 3000, "/",
)  # fmt: skip
_FIELD: Final = b"Content-Disposition: form-data; name="


@dataclass(frozen=True, slots=True)
class Strange:
    """A request, byte by byte."""

    data: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an app that requests are made for."""

    secret: str
    """The path of a file that nobody may be sent."""
    events: Sequence[Mapping[str, Any]]
    """Sound bodies for its queue."""


def request(known: Known, chance: Random) -> Strange:
    """One strange request."""
    kind = chance.choice(list(_KINDS))
    return Strange(_KINDS[kind](known, chance), kind)


def composed(
    method: str, target: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = (), version: str = "HTTP/1.1"
) -> bytes:
    """A request whose parts are what they are given as."""
    given = {name.lower() for name, _ in headers}
    own = [("Host", "127.0.0.1")] if "host" not in given else []
    if method not in ("GET", "HEAD") and not given & {"content-length", "transfer-encoding"}:
        own.append(("Content-Length", f"{len(body)}"))
    lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in (*own, *headers))]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


def _reading(_: Known, chance: Random) -> bytes:
    """An address of the app, by another method, with another query or headers than it is made for."""
    target = chance.choice(READ)
    if chance.random() < 0.4:
        target += (
            chance.choice("?&")
            + quote(chance.choice(TEXTS))
            + "="
            + quote(str(chance.choice(ODD))[:500], errors="replace")
        )
    if chance.random() < 0.2:
        target = "/" * chance.choice((2, 5)) + target
    method = "GET" if chance.random() < 0.6 else chance.choice(_METHODS)
    return composed(method, target, headers=_headers(chance))


def _headers(chance: Random) -> list[tuple[str, str]]:
    """Headers that say odd things."""
    odd = (
        ("Accept-Encoding", "br;q=nan, gzip;q=-1"),
        ("Accept-Language", ",".join(TEXTS)[:900].replace("\\", "")),
        ("Cookie", "a" * 3000 + "=;;==;" + "session=" * 200),
        (
            "Range",
            chance.choice(
                ("bytes=-1", "bytes=0-99999999999999999999", "bytes=9-1", "bytes=a-b", "lines=1-2", "bytes=0-1-2")
            ),
        ),
        ("If-None-Match", "*"),
        ("If-Modified-Since", "yesterday"),
        ("X-Forwarded-For", chance.choice(("::1, 999.1.1.1", "," * 500, "unknown", "fe80::1%eth0"))),
        ("X-Forwarded-Proto", "javascript"),
        ("X-Forwarded-Host", chance.choice(("evil.example/<script>", "a:99999", "[::"))),
        ("Host", chance.choice(("[", "a:b:c", "", "evil.example", "127.0.0.1:99999", "\u00e4"))),
        ("Origin", chance.choice(("null", "http://[", "https://evil.example", "http://127.0.0.1"))),
        ("Authorization", "Bearer " + "x" * 2000),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("Connection", chance.choice(("close", "upgrade", "keep-alive, host", ""))),
        ("Mcp-Session-Id", "../../etc"),
        ("\u00e9-header", "1"),
    )
    return [one for one in odd if chance.random() < 0.12]


def _escaping(known: Known, chance: Random) -> bytes:
    """The name of a file that is not the visitor's."""
    path = chance.choice(
        (known.secret, known.secret, "/etc/passwd", "/proc/self/environ", "/dev/zero", "/proc/self/cwd/app.py")
    )
    up = "../" * chance.choice((1, 3, 12))
    relative = up + path.lstrip("/")
    name = chance.choice((
        path, "/" + path, path.lstrip("/"), relative, f"./{relative}", f"/x/{relative}",
        quote(path, safe=""), quote(relative, safe=""), relative.replace("..", "%2e%2e"), relative.replace("/", "%2f"),
        quote(quote(relative, safe=""), safe=""), relative.replace("/", "\\"), relative.replace("/", "%5c"),
        relative.replace("../", "....//"), relative.replace(".", "%c0%ae"), relative.replace("..", "\u2025"),
        path + "%00.json.gz", path + "/.",
        f"file://{path}", f"file:{path}", f"http://127.0.0.1:9{path}", f"//127.0.0.1{path}", f"gopher://127.0.0.1{path}",
        f"\\\\127.0.0.1\\c$\\{path}", f"C:\\{path}", f"\\\\?\\{path}", "~/.bashrc", "~root/.bashrc", f"data:,{path}",
        "app.py", "./app.py", "assets/models/MANIFEST.json", ".", "", "%00", "a" * 5000, path + "#x", path + "?x",
    ))  # fmt: skip
    ranged = [("Range", "bytes=0-99")] if chance.random() < 0.3 else []
    return composed(
        chance.choice(("GET", "GET", "HEAD")), chance.choice(FILES) + name.replace(" ", "%20"), headers=ranged
    )


def _calling(_: Known, chance: Random) -> bytes:
    """A call of an endpoint for programs, or one of the page's, with values of another type."""
    name = chance.choice(CALLS)
    data: Any = {"data": ["ar", "", 0, "toy-raster", {}, None]}
    if "v2" in name:
        data = {"method": "ar", "prompt": "", "seed": 0, "model": "toy-raster"}
    elif name.endswith("validate"):
        data = {"data": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]}
    return _posted(f"/gradio_api/{name}", data, chance)


def _joining(known: Known, chance: Random) -> bytes:
    """An event of the page, sound but for what is odd about it."""
    event = dict(chance.choice(known.events))
    if chance.random() < 0.2:
        event["fn_index"] = chance.choice((-1, 10**6, *ODD))
    if chance.random() < 0.2:
        event["session_hash"] = chance.choice(ODD)
    place = chance.choice(
        ("queue/join", "queue/join", "queue/join", "run/predict", "cancel", "reset", "component_server", "stream/x")
    )
    return _posted(f"/gradio_api/{place}", event, chance)


def _posted(target: str, document: Any, chance: Random) -> bytes:
    """A JSON body, changed, damaged, or said to be what it is not."""
    body = (
        as_json(changed(document, chance, 2))
        if chance.random() < 0.8
        else as_json(nested(chance.choice((100, 5000, 100_000)), chance))
    )
    headers = [("Content-Type", "application/json" if chance.random() < 0.85 else chance.choice(_TYPES))]
    kind = chance.random()
    if kind < 0.1:
        body = damaged(body, chance)
    elif kind < 0.15:
        body, headers = gzip.compress(b"[" * 10**7), [*headers, ("Content-Encoding", "gzip")]
    elif kind < 0.2:
        body = body.decode().encode(chance.choice(("utf-16", "utf-32", "utf-8-sig")))
    return composed("POST", target, body, [*headers, *(_headers(chance) if chance.random() < 0.3 else ())])


def _uploading(_: Known, chance: Random) -> bytes:
    """Files in parts, whose borders, names and lengths are odd."""
    border = chance.choice((b"x", b"x", b"x", b"-" * 70, b"", b"x" * 5000, b"\xff\x00"))
    names = (
        b'"a.json"',
        b'"../../../../tmp/a"',
        b'"/etc/cron.d/a"',
        b'"a\x00b"',
        b'""',
        b'"' + b"n" * 7000 + b'"',
        b"\xff\xfe",
        b'"..."',
        b'"<img src=x>.html"',
    )
    parts = []
    for _number in range(chance.choice((1, 1, 2, 30, 1200))):
        field = chance.choice((b'"files"', b'"files"', b'"other"', b"", b'"files'))
        named = b"; filename=" + chance.choice(names) if chance.random() < 0.85 else b""
        head = _FIELD + field + named if chance.random() < 0.95 else b"X: y"
        parts.append(
            b"--" + border + b"\r\n" + head + b"\r\n\r\n" + chance.randbytes(chance.choice((0, 3, 500))) + b"\r\n"
        )
    body = b"".join(parts) + (b"--" + border + b"--\r\n" if chance.random() < 0.8 else b"")
    body = damaged(body, chance) if chance.random() < 0.3 else body
    said = (
        chance.choice(_TYPES) if chance.random() < 0.1 else f"multipart/form-data; boundary={border.decode('latin-1')}"
    )
    target = chance.choice(
        ("/gradio_api/upload", "/gradio_api/upload", "/gradio_api/upload?upload_id=a", "/gradio_api/process_recording")
    )
    head = composed("POST", target, body, [("Content-Type", said)] if chance.random() < 0.95 else [])
    return head


def _lying(_: Known, chance: Random) -> bytes:
    """A body of another length than is said, or cut into chunks that are none."""
    target = chance.choice(("/gradio_api/upload", "/gradio_api/call/methods", "/gradio_api/queue/join", "/healthz"))
    said = ("Content-Type", chance.choice(("application/json", "multipart/form-data; boundary=x")))
    lengths = ("0", "1", "99", "-1", "1e3", "0x10", "10, 20", "9" * 30, f"{2**63}", "", "\u0665", "40000000000")
    chunks = (
        b"5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\na",
        b"-1\r\n\r\n",
        b"5;" + b"e" * 20_000 + b"\r\nhello\r\n0\r\n\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"5\r\nhel",
        b"zz\r\n",
        b"1\r\na\r\n" * 3000 + b"0\r\n\r\n",
    )
    kind = chance.random()
    if kind < 0.4:
        return composed("POST", target, b'{"data": []}', [said, ("Content-Length", chance.choice(lengths))])
    body = chance.choice(chunks)
    also = [("Content-Length", "5")] if kind > 0.8 else []
    return composed(
        "POST",
        target,
        body,
        [said, ("Transfer-Encoding", chance.choice(("chunked", "chunked", "gzip, chunked", "x"))), *also],
    )


def _malformed(_: Known, chance: Random) -> bytes:
    """What is hardly HTTP."""
    sound = composed("GET", "/healthz", headers=_headers(chance))
    return chance.choice(
        (
            lambda: damaged(sound, chance),
            lambda: composed(
                chance.choice(_METHODS),
                chance.choice(("*", "http://evil.example/", "healthz", "", "/\x00", "/%", "/%zz", "/\u20ac")),
            ),
            lambda: composed("GET", "/" + "a" * chance.choice((8000, 70_000))),
            lambda: composed("GET", "/healthz", headers=[("X-Long", "a" * chance.choice((9000, 70_000, 300_000)))]),
            lambda: composed("GET", "/healthz", headers=[(f"X-{number}", "a") for number in range(5000)]),
            lambda: composed(
                "GET", "/healthz", version=chance.choice(("HTTP/0.9", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "", "ICY"))
            ),
            lambda: sound.replace(b"\r\n", chance.choice((b"\n", b"\r", b"\r\n "))),
            lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40),
            lambda: b"\x16\x03\x01\x02\x00" + chance.randbytes(500),
            lambda: b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nNo colon\r\n\r\n",
            lambda: sound * 50,
        )
    )()


_KINDS: Final[Mapping[str, Callable[[Known, Random], bytes]]] = {
    "read": _reading,
    "file": _escaping,
    "call": _calling,
    "event": _joining,
    "upload": _uploading,
    "length": _lying,
    "malformed": _malformed,
}


def events_of(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sound bodies for the queue of an app, from what it tells its page: each event with the page's first values."""
    values = {one["id"]: one.get("props", {}).get("value") for one in config["components"]}
    small = {name: value for name, value in values.items() if len(json.dumps(value)) < 2000}
    return [
        {
            "data": [small.get(name) for name in one["inputs"]],
            "fn_index": one["id"],
            "session_hash": "fuzz",
            "trigger_id": 1,
        }
        for one in config["dependencies"]
        if one.get("backend_fn", True)
    ]
