"""One request to a server and its answer: text, time to the first token, and what the engine counted."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from draftscope.servers.client import ServerClient, ServerError
from draftscope.serving_formats import first_choice, get, text_of

Route: TypeAlias = Literal["chat", "completions", "native"]
PATHS: Final[Mapping[Route, str]] = {
    "chat": "/v1/chat/completions", "completions": "/v1/completions", "native": "/completion",
}  # fmt: skip


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
    token_ids: tuple[int, ...] = ()
    """Ids, where the engine gives them."""
    top: tuple[Mapping[str, float], ...] = ()
    """Log-probabilities of the likeliest tokens at each position by token, where they were requested."""


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
        """Return the JSON of a request for a text, or for the turns of a conversation."""
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
        return body | dict(self.extra)


def send_request(
    target: Target,
    prompt: str | Sequence[Mapping[str, Any]],
    length: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Send a request and read its stream; raises ServerError."""
    path, parts, times, events = PATHS[target.route], [], [], []
    began = clock()
    for event in target.client.stream(path, target.body(prompt, length)):
        events.append(event)
        if text := _text(event):
            parts.append(text)
            times.append(clock() - began)
    if not events:
        raise ServerError(f"{target.client.url}{path}: streams nothing; use an engine that streams its answers.")
    usage = _last(events, "usage") or {}
    timings = _last(events, "timings") or {}
    meta = _last(events, "meta_info") or get(first_choice(events[-1]), "meta_info") or {}
    tokens = get(usage, "completion_tokens") or get(timings, "predicted_n") or len(parts)
    drafted, accepted = get(timings, "draft_n"), get(timings, "draft_n_accepted")
    if timings and drafted is None:
        drafted = accepted = 0
    if drafted is None:
        drafted = get(meta, "spec_num_proposed_drafts") or get(meta, "spec_draft_token_num")
        accepted = get(meta, "spec_num_correct_drafts") or get(meta, "spec_accept_token_num")
    return Answer(
        text="".join(parts),
        tokens=int(tokens),
        prompt_tokens=get(usage, "prompt_tokens") or get(timings, "prompt_n"),
        first_seconds=times[0] if times else clock() - began,
        seconds=times[-1] if times else clock() - began,
        chunks=len(parts),
        finish=str(_finish(events))[:100],
        drafted=drafted,
        accepted=accepted,
        token_ids=tuple(int(token) for event in events for token in _ids(event)),
        top=tuple(likely for event in events for likely in _top(event)),
    )


def _text(event: Any) -> str:
    """Text of an event, reasoning included."""
    part = get(first_choice(event), "delta")
    return text_of(event) or str(get(part, "reasoning_content") or "")


def _last(events: Sequence[Any], name: str) -> Any:
    return next((value for event in reversed(events) if (value := get(event, name))), None)


def _finish(events: Sequence[Any]) -> Any:
    for event in reversed(events):
        if reason := get(first_choice(event), "finish_reason") or get(event, "stop_type"):
            return reason
    return ""


def _ids(event: Any) -> Sequence[Any]:
    """Ids of an event: `tokens` of llama.cpp, `token_ids` of vLLM."""
    found = get(event, "tokens") or get(first_choice(event), "token_ids") or ()
    return found if isinstance(found, list) else ()


def _top(event: Any) -> list[dict[str, float]]:
    """The likeliest tokens at each position of an event, in the forms of llama.cpp and of OpenAI's two routes."""
    choice = first_choice(event)
    logprobs = get(choice, "logprobs")
    if isinstance(get(logprobs, "top_logprobs"), list):
        return [dict(each) for each in get(logprobs, "top_logprobs") if isinstance(each, Mapping)]
    entries = get(event, "completion_probabilities") or get(logprobs, "content") or ()
    found = []
    for entry in entries if isinstance(entries, list) else ():
        ranked = get(entry, "top_logprobs")
        if isinstance(ranked, list):
            found.append({str(get(one, "token")): float(get(one, "logprob") or 0.0) for one in ranked})
    return found
