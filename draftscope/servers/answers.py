"""One request to a server and its answer: text, time to the first token, and what the engine counted."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from draftscope.servers.client import ServerClient, ServerError
from draftscope.serving_formats import first_choice, get, text_of
from draftscope.serving_sums import request_sums
from draftscope.traces.schema import Sums

Route: TypeAlias = Literal["chat", "completions", "native"]
PATHS: Final[Mapping[Route, str]] = {
    "chat": "/v1/chat/completions", "completions": "/v1/completions", "native": "/completion",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TokenAt:
    """A token of an answer."""

    token: str
    """Its id or, where that is unknown, its text."""
    word: str
    top: Mapping[str, float] | None = None
    """Log-probabilities of the likeliest tokens at its position; None where the engine gave none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to one request, with its times."""

    text: str
    tokens: int
    """Number that the engine reports, or of chunks of the stream if it reports none."""
    prompt_tokens: int | None
    first_seconds: float
    """From sending the request to the first text."""
    seconds: float
    """From sending the request to the last text."""
    chunks: int
    """Parts of the stream with text."""
    finish: str
    """Reason of the end, as the engine gives it."""
    drafted: int | None = None
    """Drafts, where the engine reports them per request."""
    accepted: int | None = None
    sums: Sums | None = None
    """Counts of the engine for this request, by position if it has them."""
    positions: tuple[TokenAt, ...] = ()
    """The tokens one by one, as far as the engine tells them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Server, and the form of its requests."""

    client: ServerClient
    kind: str
    """Engine, as it names itself."""
    model: str
    route: Route
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every request."""

    def body(self, prompt: str | Sequence[Mapping[str, Any]], length: int) -> dict[str, Any]:
        """Return the JSON of a request.

        Args:
            prompt: A text, or the turns of a conversation.
            length: Most tokens to generate.

        Raises:
            ServerError: For a conversation on a route without chat.
        """
        body: dict[str, Any] = {"model": self.model}
        if self.route == "chat":
            body["messages"] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        elif isinstance(prompt, str):
            body["prompt"] = prompt
        else:
            raise ServerError(f"prompts: conversations need a chat route; leave out the route {self.route!r}.")
        body |= {"n_predict": length} if self.route == "native" else {"max_tokens": length}
        if self.route != "native":
            body["stream_options"] = {"include_usage": True}
        if self.kind == "llamacpp":
            body["cache_prompt"] = False
        if self.kind == "sglang":
            body["return_spec_tokens_details"] = True
        return body | dict(self.extra)


def send_request(
    target: Target,
    prompt: str | Sequence[Mapping[str, Any]],
    length: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Send a request and read its stream.

    Args:
        target: Server, route and further fields.
        prompt: A text, or the turns of a conversation.
        length: Most tokens to generate.
        clock: Returns seconds.

    Raises:
        ServerError: If the server fails, streams nothing, or answers in an unknown form.
    """
    path, parts, times, events = PATHS[target.route], [], [], []
    began = clock()
    for event in target.client.stream(path, target.body(prompt, length)):
        events.append(event)
        if text := _text(event):
            parts.append(text)
            times.append(clock() - began)
    if not events:
        raise ServerError(f"{target.client.url}{path}: streams nothing; use an engine that streams its answers.")
    ends = times[-1] if times else clock() - began
    try:
        return _answer(events, parts, first=times[0] if times else ends, ends=ends)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:  # texts for numbers, for instance
        what = " ".join(str(error).split())[:100]
        raise ServerError(
            f"{target.client.url}{path}: answers in a form that is not known ({what}); {_ENGINES}."
        ) from None


_ENGINES: Final = "use a release of vLLM, SGLang or llama.cpp, or another server that has OpenAI's routes"


def _answer(events: Sequence[Any], parts: Sequence[str], *, first: float, ends: float) -> Answer:
    """The answer in the events of a stream."""
    usage, timings = _last(events, "usage") or {}, _last(events, "timings") or {}
    sums = request_sums(events)
    return Answer(
        text="".join(parts),
        tokens=int(get(usage, "completion_tokens") or get(timings, "predicted_n") or len(parts)),
        prompt_tokens=get(usage, "prompt_tokens") or get(timings, "prompt_n"),
        first_seconds=first,
        seconds=ends,
        chunks=len(parts),
        finish=str(_finish(events))[:100],
        drafted=sums.drafts if sums else None,
        accepted=sums.accepted if sums else None,
        sums=sums,
        positions=tuple(token for event in events for token in _positions(event)),
    )


def _text(event: Any) -> str:
    """Text of an event; reasoning is included, which vLLM calls `reasoning` and others `reasoning_content`."""
    part = get(first_choice(event), "delta")
    return text_of(event) or str(get(part, "reasoning_content") or get(part, "reasoning") or "")


def _last(events: Sequence[Any], name: str) -> Any:
    return next((value for event in reversed(events) if (value := get(event, name))), None)


def _finish(events: Sequence[Any]) -> Any:
    for event in reversed(events):
        if reason := get(first_choice(event), "finish_reason") or get(event, "stop_type"):
            return reason
    return ""


def _positions(event: Any) -> list[TokenAt]:
    """The tokens of an event, in the forms of llama.cpp and of OpenAI's two routes."""
    logprobs, ids = get(first_choice(event), "logprobs"), get(event, "tokens")
    entries = get(event, "completion_probabilities") or get(logprobs, "content")
    if isinstance(entries, list) and entries:
        return [TokenAt(_key(one), str(get(one, "token") or ""), _likely(get(one, "top_logprobs"))) for one in entries]
    names = get(logprobs, "tokens")
    if isinstance(names, list) and names:
        tops = get(logprobs, "top_logprobs") or [None] * len(names)
        return [TokenAt(_bare(name), str(name), _named(top)) for name, top in zip(names, tops, strict=False)]
    text = _text(event)
    ids = ids if isinstance(ids, list) and ids else get(first_choice(event), "token_ids")
    if isinstance(ids, list) and ids:
        return [TokenAt(str(token), text if len(ids) == 1 else "") for token in ids]
    return [TokenAt(text, text)] if text else []


def _key(entry: Any) -> str:
    """The id of a token, or its text where the id is unknown."""
    found = get(entry, "id")
    return _bare(get(entry, "token") if found is None else found)


def _bare(name: Any) -> str:
    """A token of vLLM's `return_tokens_as_token_ids` as its id."""
    return str(name).removeprefix("token_id:")


def _likely(ranked: Any) -> dict[str, float] | None:
    """Log-probabilities by token; None where an engine did not compute them."""
    if not isinstance(ranked, list):
        return None
    return _plausible({_key(one): float(get(one, "logprob") or 0.0) for one in ranked})


def _named(top: Any) -> dict[str, float] | None:
    return _plausible({_bare(name): float(value) for name, value in top.items()}) if isinstance(top, Mapping) else None


def _plausible(top: dict[str, float]) -> dict[str, float] | None:
    """The log-probabilities; None for a single one, or one of exactly 0, which llama.cpp gives accepted drafts."""
    return top if len(top) > 1 and max(top.values()) < 0 else None
