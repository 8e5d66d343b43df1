"""Servers that answer as vLLM's and SGLang's do, or fail in the ways that servers fail."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from support.captured import sglang_stream, vllm_stream

BAD = {
    "busy": (429, '{"error": {"message": "Too many requests"}}', r"limits requests \(429: Too many requests\); lower"),
    "no route": (404, '{"detail": "Not Found"}', r"has no such route or model \(404: Not Found\); give the address"),
    "html": (200, "<html>log in", "answers with HTML where JSON is expected; give the address of the engine itself"),
    "nothing": (200, "", "streams nothing; use an engine that streams|answers with b'' where JSON is expected"),
    "null": (200, "null", r"streams nothing; use an engine that streams|gives no choices\[0\].text; use a server"),
    "refusal": (400, '{"object": "error", "message": "max_tokens is too large"}', "400: max_tokens is too large"),
    "check": (422, '{"detail": [{"loc": ["body"], "msg": "Field required"}]}', r"\(422: Field required\); look at"),
    "fault": (500, "Internal Server Error", r"answers with an error \(500\); look at its log"),
    "broken": (200, "data: {bro\n\n", "answers with b'{bro' where JSON is expected|answers with b'data: {bro"),
}
"""Status and content of bad answers, and the words of their errors, for streams and others."""


class FakeServer(BaseHTTPRequestHandler):
    """Does with each request for a text what `behaviour` says: "answer" if nothing is left of it."""

    behaviour: ClassVar[list[str]]
    kind: ClassVar[str]
    counters: ClassVar[dict[str, int]]

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def _send(self, text: str, kind: str = "application/json", status: int = 200) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            return self._send(json.dumps({"object": "list", "data": [{"id": "m", "owned_by": self.kind}]}))
        lines = [f"vllm:spec_decode_num_{name}_total {value}" for name, value in self.counters.items()]
        lines += [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {self.counters["drafts"]}']
        return self._send("\n".join(lines if self.kind == "vllm" else ["# nothing"]), "text/plain")

    def do_POST(self) -> None:
        request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        todo = self.behaviour.pop(0) if self.behaviour else "answer"
        if todo in BAD:
            return self._send(BAD[todo][1], status=BAD[todo][0])
        if todo == "die":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b'data: {"choices": [{"text": "x", "delta": {"content": "x"}}]}\n')
            return self.connection.shutdown(socket.SHUT_RDWR)
        if todo == "numbers":
            return self._send('data: {"choices": [{"text": "x"}], "usage": {"completion_tokens": "many"}}\n\n')
        for name, gained in (("drafts", 3), ("draft_tokens", 9), ("accepted_tokens", 3)):
            self.counters[name] += gained
        if not request_body.get("stream"):
            return self._send(
                json.dumps({"choices": [{"text": todo.removeprefix("text "), "finish_reason": "length"}]})
            )
        words = ("Once upon",) if todo == "one chunk" else ("Once ", "upon")
        if self.kind == "sglang":
            stream = sglang_stream(*words) if request_body.get("return_spec_tokens_details") else sglang_stream()
        else:
            stream = vllm_stream(*words, reasoning="Hm. " if todo == "thoughts" else "")
        return self._send(stream if "/chat/" in self.path else _texts(stream), "text/event-stream")


def _texts(stream: str) -> str:
    """A chat stream as the route for texts has it."""
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        choice["text"] = choice.pop("delta").get("content") or ""
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


@contextmanager
def fake_server(*behaviour: str, kind: str = "vllm") -> Iterator[str]:
    """Yield the address of a server that runs until the context ends."""
    about = {"behaviour": list(behaviour), "kind": kind}
    about["counters"] = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (FakeServer,), about))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
