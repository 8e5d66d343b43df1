"""Requests to a server that the user named, and nowhere else; what goes wrong is one sentence.

Redirects are not followed, and neither proxies nor credentials are taken from the environment, except for the key in
DRAFTSCOPE_SERVER_KEY, which is sent as a bearer token. What a server sends is parsed as JSON or as text.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import httpx

from draftscope.traces.errors import format_value
from draftscope.traces.schema import printable

KEY_VARIABLE: Final = "DRAFTSCOPE_SERVER_KEY"
TIMEOUT: Final = 120.0
"""Seconds without a byte from the server."""
MAX_BYTES: Final = 64 * 2**20
"""Maximum size of one answer."""
_MAX_WORDS: Final = 200
"""Characters of a server's message that are shown."""
_STATUS: Final = {
    401: ("refuses access", f"put the key into {KEY_VARIABLE}"),
    403: ("refuses access", f"put the key into {KEY_VARIABLE}"),
    404: ("has no such route or model", "give the address of the engine itself, or choose another route"),
    405: ("has no such route", "give the address of the engine itself, or choose another route"),
    429: ("limits requests", "lower the concurrency, or wait"),
}
"""Meaning of a status, and the remedy."""


class ServerError(ValueError):
    """A server that cannot be reached, or answers with what cannot be used; the message is one sentence."""


class ServerClient:
    """A connection to one server, for several threads."""

    def __init__(self, url: str, *, timeout: float = TIMEOUT, transport: httpx.BaseTransport | None = None) -> None:
        """Take an address such as http://127.0.0.1:8080; a path `/v1` at its end is left out.

        Raises:
            ServerError: If it is not the address of a server.
        """
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ServerError(f"server: {format_value(url)} is not an address ({error}); use {_FORM}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ServerError(f"server: {format_value(url)} is not an address; use {_FORM}.")
        self.url = str(parsed.copy_with(query=None, fragment=None)).rstrip("/").removesuffix("/v1")
        key = os.environ.get(KEY_VARIABLE)
        self._http = httpx.Client(
            timeout=timeout,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=256),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def get_text(self, path: str) -> str:
        """Return the answer to GET as text; raises ServerError."""
        return b"".join(self._content("GET", path, None)).decode("utf-8", errors="replace")

    def get(self, path: str) -> Any:
        """Return the answer to GET as JSON; raises ServerError."""
        return self._json(path, b"".join(self._content("GET", path, None)))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a POST request as JSON.

        Args:
            path: Path on the server, from its root.
            body: Fields of the request, sent as JSON.

        Raises:
            ServerError: If the server does not answer, or answers with an error.
        """
        return self._json(path, b"".join(self._content("POST", path, body)))

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the JSON objects of a stream of server-sent events as they arrive.

        Args:
            path: Path on the server, from its root.
            body: Fields of the request, sent as JSON with `stream`.

        Raises:
            ServerError: If the server does not answer, or answers with an error.
        """
        unread = b""
        for part in self._content("POST", path, {**body, "stream": True}):
            *lines, unread = (unread + part).split(b"\n")
            for line in lines:
                if (event := self._event(path, line)) is not None:
                    yield event
        if unread.strip():
            if not unread.startswith(b"data:"):
                self._json(path, unread)  # an error in place of a stream
            elif (event := self._event(path, unread)) is not None:
                yield event

    def _event(self, path: str, line: bytes) -> Any:
        """The object of one line; None for lines without."""
        content = line.strip().removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or content == b"[DONE]":
            return None
        event = self._json(path, content)
        if isinstance(event, dict) and event.get("error"):
            raise ServerError(f"{self.url}{path}: ends with an error{_words(event)}; look at its log.")
        return event

    def _content(self, method: str, path: str, body: Mapping[str, Any] | None) -> Iterator[bytes]:
        """Yield the bytes of an answer as they arrive.

        A request that a server drops without any answer is sent once more: it may close a connection that it had kept.
        """
        size = 0
        with self._errors(path):
            for is_last in (False, True):
                try:
                    for part in self._parts(method, path, body):
                        size += len(part)
                        if size > MAX_BYTES:
                            megabytes = MAX_BYTES // 2**20
                            raise ServerError(f"{self.url}{path}: answers with more than {megabytes} MB; ask for less.")
                        yield part
                    return
                except httpx.RemoteProtocolError:
                    if size or is_last:
                        raise

    def _parts(self, method: str, path: str, body: Mapping[str, Any] | None) -> Iterator[bytes]:
        content = None if body is None else dict(body)
        with self._http.stream(method, self.url + path, json=content) as answer:
            if answer.status_code != httpx.codes.OK:
                raise ServerError(self._refusal(path, answer))
            yield from answer.iter_bytes()

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError:
            raise ServerError(
                f"{self.url}: does not answer; start the server, or correct the address and its port."
            ) from None
        except httpx.TimeoutException:
            raise ServerError(
                f"{self.url}{path}: sent nothing for {self._http.timeout.read:g} seconds; ask for shorter texts."
            ) from None
        except httpx.TransportError as error:
            what = type(error).__name__
            raise ServerError(
                f"{self.url}{path}: closed the connection in the middle ({what}); look at its log."
            ) from None

    def _refusal(self, path: str, answer: httpx.Response) -> str:
        code = answer.status_code
        if answer.is_redirect:
            target = format_value(printable(answer.headers.get("location", "")))
            return f"{self.url}{path}: redirects to {target}, which is not followed; give that address yourself."
        text = b""
        for part in answer.iter_bytes():
            text += part
            if len(text) > _MAX_WORDS * 20:
                break
        try:
            words = _words(json.loads(text))
        except (ValueError, RecursionError):
            words = ""
        what, remedy = _STATUS.get(code, ("answers with an error", "look at its log"))
        return f"{self.url}{path}: {what} ({code}{words}); {remedy}."

    def _json(self, path: str, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            begins = "HTML" if content.lstrip()[:1] == b"<" else format_value(content[:20])
            remedy = "give the address of the engine itself"
            raise ServerError(f"{self.url}{path}: answers with {begins} where JSON is expected; {remedy}.") from None


_FORM: Final = "a form such as http://127.0.0.1:8080"


def _words(event: Any) -> str:
    """The message of an error as the end of a clause, short and without control characters; empty if there is none.

    It is `error.message`, or `error`; in SGLang's answers `message`, in those of FastAPI's checks `detail`.
    """
    found = event if isinstance(event, dict) else {}
    error = found.get("error")
    message = error.get("message") if isinstance(error, dict) else error or found.get("message") or found.get("detail")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = message[0].get("msg")
    if not isinstance(message, str) or not message.strip():
        return ""
    return f": {' '.join(printable(message[:_MAX_WORDS]).split()).rstrip('.')}"
