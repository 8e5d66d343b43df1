"""Sending strange requests to an app on the loopback, and what it made of each.

A request has failed where the answer is an error of the server's, shows a traceback, a file that is nobody's business
or where things lie on the disk, where the app's log shows a traceback, and where the app does not answer others right
after it.
"""

import re
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import unquote, urlsplit

import orjson

from benchmarks._attempts import Tried, chance_of, held_in
from benchmarks._mutation import shortened
from benchmarks._strange_requests import Known, Strange, composed, events_of, request

AREA: Final = "requests"
ROOT: Final = Path(__file__).parents[1]
SECRET: Final = "draftscope-secret-of-the-fuzzer"
"""Stands in a file and in the environment of the app; no answer may hold it."""
LIMITS: Final = {
    "DRAFTSCOPE_RUN_SECONDS": "2",
    "DRAFTSCOPE_REPEAT_SECONDS": "2",
    "DRAFTSCOPE_WAITING": "4",
    "DRAFTSCOPE_KEPT_MEGABYTES": "2000",
    "DRAFTSCOPE_FUZZ": SECRET,
}
"""Of the app that is tried: what a request sets going is over soon."""
_PATIENCE_SECONDS: Final = 60.0
"""For an answer to whoever asked: a run or a drawing may be waited for, while others are answered within a second."""
_STREAM_SECONDS: Final = 0.1
"""An answer that goes on for ever is read for as long, and one awaited to a request that may have no end."""
_ENDLESS: Final = ("length", "malformed")
_ALIVE_SECONDS: Final = 1.0
_MOST_BYTES: Final = 8 * 2**20
_PROMISED: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_SAID_SO: Final = (503, 507)
"""Errors of a server's that say a limit."""


@dataclass(frozen=True, slots=True)
class App:
    """A running app."""

    address: str
    known: Known
    log: Path | None = None
    """Where its standard error goes."""
    process: int | None = None


@contextmanager
def started() -> Iterator[App]:
    """The app, in a process of its own."""
    from benchmarks.app import served

    with TemporaryDirectory() as folder:
        secret, log = Path(folder, "secret.json.gz"), Path(folder, "log")
        secret.write_text(SECRET, encoding="utf-8")
        with log.open("wb") as errors, served(LIMITS, errors) as (address, _, process):
            yield App(address, known(address, secret), log, process.pid)


def known(address: str, secret: Path) -> Known:
    """What requests to an app are made of."""
    with urllib.request.urlopen(f"{address}/config", timeout=60) as answer:
        return Known(str(secret), events_of(orjson.loads(answer.read())))


def answered(app: App, seed: int, numbers: range) -> Iterator[Tried]:
    """Send one after the other; each on a connection of its own."""
    for number in numbers:
        yield sent(app, number, request(app.known, chance_of(seed, AREA, number)))


def sent(app: App, number: int, strange: Strange) -> Tried:
    """Send one request, and see what comes of it: the seconds are those that the next one waits for an answer."""
    logged = app.log.stat().st_size if app.log else 0
    held = _megabytes(app.process, reset=True)
    endless = strange.kind in _ENDLESS
    answer, why = _exchanged(app.address, strange.data, _STREAM_SECONDS if endless else _PATIENCE_SECONDS)
    why = "" if endless else why
    seconds, dead = _waited(app.address)
    why = why or _wrong(strange.data, answer) or dead
    if app.log and not why:
        with app.log.open("rb") as errors:
            errors.seek(logged)
            told = errors.read().decode(errors="replace")
        why = f"a traceback in the log: {told.strip()[-300:]}" if "Traceback" in told else ""
    status = _status(answer)
    verdict = "crashed" if why else "accepted" if 200 <= status < 400 else "refused"
    if why.startswith("dead"):
        verdict = "hung"
    return Tried(
        number=number,
        verdict=verdict,
        seconds=seconds,
        megabytes=max(0.0, _megabytes(app.process) - held),
        said=why or f"{strange.kind}: {status}",
        document=shortened(strange.data) if why else "",
    )


def _exchanged(address: str, data: bytes, patience: float = _PATIENCE_SECONDS) -> tuple[bytes, str]:
    """The answer's bytes, and what is wrong with how they came."""
    place = urlsplit(address)
    answer, late = bytearray(), time.monotonic() + patience
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=5) as line:
        try:
            line.sendall(data)
            while len(answer) < _MOST_BYTES:
                streamed = b"text/event-stream" in answer[:2000].lower()
                line.settimeout(_STREAM_SECONDS if streamed else max(0.01, late - time.monotonic()))
                part = line.recv(65536)
                if not part:
                    break
                answer += part
                if _whole(answer):
                    break
        except TimeoutError:
            return bytes(answer), "" if b"text/event-stream" in answer[:2000].lower() else "no answer in time"
        except OSError:  # it may hang up on what is no HTTP
            return bytes(answer), ""
    return bytes(answer), ""


def _whole(answer: bytearray) -> bool:
    head = answer.find(b"\r\n\r\n")
    promised = _PROMISED.search(answer[: head + 2]) if head >= 0 else None
    return promised is not None and len(answer) >= head + 4 + int(promised[1])


def _status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(found[1]) if found else 0


def _wrong(asked: bytes, answer: bytes) -> str:
    """What an answer says that none may say."""
    status = _status(answer)
    if status >= 500 and status not in _SAID_SO:
        return f"{status}: {answer[-200:].decode(errors='replace')}"
    body = answer.decode("utf-8", "replace")
    if SECRET in body or "root:x:0:" in body:
        return "a file or the environment of the server"
    if "Traceback (most" in body:
        return "a traceback in the answer"
    own = unquote(asked.decode("utf-8", "replace"))
    for place in (str(ROOT), str(Path.home()), sys.prefix):
        if len(place) > 1 and place in body and place not in own:
            return f"where things lie: {body[max(0, body.index(place) - 60) :][:200]}"
    return ""


def _waited(address: str) -> tuple[float, str]:
    """Seconds until the app answers others, and what is wrong with it; a busy machine is asked three times."""
    took, late = 0.0, ""
    for _ in range(3):
        start = time.monotonic()
        answer, why = _exchanged(address, composed("GET", "/healthz"))
        took = time.monotonic() - start
        late = why or ("" if _status(answer) == 200 else f"/healthz answered {_status(answer)}")
        if not late and took < _ALIVE_SECONDS:
            return took, ""
        late = late or f"/healthz took {took:.1f} s"
    return took, f"dead: {late}"


def _megabytes(process: int | None, *, reset: bool = False) -> float:
    """That a process holds now, or held at most since the last reset."""
    return held_in(Path(f"/proc/{process}"), reset=reset) if process else 0.0


def alone(number: int, seed: int) -> Tried:
    """Try one request at an app of its own, and show it."""
    with started() as app:
        strange = request(app.known, chance_of(seed, AREA, number))
        print(shortened(strange.data, 20_000))
        return sent(app, number, strange)
