"""Output of servers as objects: JSON responses whole and streamed, JSON lines of logs, and the text of `/metrics`."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from draftscope.traces.errors import format_value
from draftscope.traces.schema import Sums

_SAMPLE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+([^\s{}]+)(?:\s+-?\d+)?")
"""A line of the Prometheus text format: name, labels, value, and a time."""
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_EVENT: Final = "data:"
"""Beginning of a line with content in a stream of server-sent events."""
_MAX_SHOWN: Final = 12
"""Keys in a message."""


class Sample(NamedTuple):
    """A number of `/metrics`."""

    name: str
    """Without `_total`, which the text format appends to counters."""
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCounters:
    """Counters of speculative decoding, over everything that they are labelled with."""

    drafts: int
    """Verifications."""
    draft_tokens: int
    accepted_tokens: int
    accepted_by_position: tuple[int, ...]
    """Empty where they are not counted."""

    def sums(self) -> Sums:
        """The sums of a trace.

        The number of drafts verified at each position is known if every verification had a draft at each.
        """
        length = len(self.accepted_by_position)
        is_even = self.draft_tokens == self.drafts * length
        return Sums(
            tokens=self.drafts + self.accepted_tokens,
            forwards=self.drafts,
            verifications=self.drafts,
            drafts=self.draft_tokens,
            accepted=self.accepted_tokens,
            accepted_by_position=self.accepted_by_position,
            judged_by_position=(self.drafts, *self.accepted_by_position)[:length] if is_even else (),
        )


def parsed(source: Any) -> list[Any]:
    """Return the objects that a source holds, in order.

    Args:
        source: A text or bytes, a file, an object or a sequence of objects, or a sequence of lines.
    """
    if isinstance(source, os.PathLike):
        source = Path(source).read_bytes()
    if isinstance(source, bytes):
        source = source.decode("utf-8", errors="replace")
    if isinstance(source, str):
        return _of_text(source)
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        return [source]
    items = list(source)
    if items and all(isinstance(item, str | bytes) for item in items):
        return _of_text("\n".join(item if isinstance(item, str) else item.decode(errors="replace") for item in items))
    return items


def _of_text(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return [item for line in text.splitlines() if (item := _of_line(line.strip())) is not None]
    return document if isinstance(document, list) else [document]


def _of_line(line: str) -> Any:
    """The object or the sample in a line; None if it holds neither."""
    if line.startswith(("{", _EVENT)):
        try:
            value = json.loads(line.removeprefix(_EVENT))
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
    if line.startswith("#") or not (match := _SAMPLE.fullmatch(line)):
        return None
    try:
        return Sample(match[1].removesuffix("_total"), dict(_LABEL.findall(match[2] or "")), float(match[3]))
    except ValueError:
        return None


def samples(items: Iterable[Any]) -> Iterator[Sample]:
    """Yield the numbers among parsed objects: samples, and metrics with `value`, `values` by position or `samples`."""
    for item in items:
        if isinstance(item, Sample):
            yield item
        elif (below := get(item, "samples")) is not None:
            yield from samples(below)
        elif isinstance(name := get(item, "name"), str):
            values, labels, name = get(item, "values"), get(item, "labels") or {}, name.removesuffix("_total")
            if values is None:
                yield Sample(name, labels, float(get(item, "value") or 0))
            else:
                yield from (Sample(name, {"position": str(at)}, float(value)) for at, value in enumerate(values))


def draft_counters(source: Sequence[Any], before: Any, engine: str) -> DraftCounters:
    """Return the counters `ENGINE:spec_decode_num_...` of parsed objects, or those of SGLang, which have other names.

    Args:
        source: What `parsed` returned.
        before: An earlier state, in any form that `parsed` reads, which is subtracted.
        engine: Prefix of the names.

    Raises:
        ValueError: If these counters are not there, or count no drafts.
    """
    if engine == "sglang":
        return sglang_counters(source, before)
    start = f"{engine}:spec_decode_num_"
    found: dict[tuple[str, int], int] = {}
    names: dict[str, None] = {}
    for items, sign in ((source, 1), (parsed(before), -1)):
        for sample in samples(items):
            names[sample.name] = None
            at = sample.labels.get("position", "0")
            if sample.name.startswith(start) and at.isdecimal() and abs(sample.value) < 2**53:  # neither NaN nor inf
                key = sample.name.removeprefix(start), int(at)
                found[key] = found.get(key, 0) + sign * int(sample.value)
    known = "drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos"
    if not any(name == "drafts" for name, _ in found):
        raise ValueError(f"source: has no counter {start}drafts; {keys_text(names, [start + name for name in known])}")
    totals = [found.get((name, 0), 0) for name in known[:3]]
    last = max((at for name, at in found if name == known[3]), default=-1)
    positions = tuple(found.get((known[3], at), 0) for at in range(min(last + 1, 1024)))
    if totals[0] <= 0 or min([*totals, *positions]) < 0:
        problem = f"counts {totals[0]} drafts of which {list(positions)} were accepted at each position"
        raise ValueError(f"source: {problem}; give the metrics of an engine that speculates, after some requests.")
    return DraftCounters(
        drafts=totals[0], draft_tokens=totals[1], accepted_tokens=totals[2], accepted_by_position=positions
    )


_SGLANG: Final = ("spec_verify_calls", "generation_tokens", "num_requests", "spec_num_draft_tokens")


def sglang_counters(source: Sequence[Any], before: Any) -> DraftCounters:
    """Return the counts of drafts in SGLang's `/metrics`, from tokens and verifications of finished requests.

    The first token of a request comes from the pass that reads the prompt; of the others, each verification gives one
    that was not drafted. Drafts of a pass are taken to be those of the present setting. Nothing is known of positions.

    Args:
        source: What `parsed` returned.
        before: An earlier state, in any form that `parsed` reads, which is subtracted.

    Raises:
        ValueError: If these counters are not there, count no verification, or more accepted drafts than were made.
    """
    found = dict.fromkeys(_SGLANG, 0)
    names: dict[str, None] = {}
    for items, sign in ((source, 1), (parsed(before), -1)):
        for sample in samples(items):
            names[sample.name] = None
            name = sample.name.removeprefix("sglang:")
            if name not in _SGLANG or not abs(sample.value) < 2**53:  # NaN or inf
                continue
            if name == _SGLANG[3]:  # the same in every worker, and not a count
                found[name] = max(found[name], int(sample.value))
            else:
                found[name] += sign * int(sample.value)
    calls, tokens, requests, length = found.values()
    if "sglang:spec_verify_calls" not in names:
        text = keys_text(names, [f"sglang:{name}" for name in _SGLANG])
        remedy = "spec_accept_length and spec_accept_rate are means of the last moments, and count nothing"
        raise ValueError(f"source: has no counter sglang:spec_verify_calls; {remedy} ({text})")
    accepted = max(0, tokens - requests - calls)
    if calls <= 0 or length < 2 or accepted > calls * (length - 1):
        problem = (
            f"counts {calls} verifications, {tokens} tokens, {requests} requests and {length - 1} drafts of a pass"
        )
        raise ValueError(
            f"source: {problem}; give the metrics of an engine whose draft length stays the same, after some requests."
        )
    return DraftCounters(
        drafts=calls, draft_tokens=calls * (length - 1), accepted_tokens=accepted, accepted_by_position=()
    )


def request_details(message: Any) -> Any:
    """Return what an engine counted for one request, from its response or the last chunk of its stream.

    SGLang's `meta_info`, which its OpenAI-style routes have in `choices[0]` or, on request, as
    `sglext.spec_tokens_details`; or vLLM's `metrics.speculative_decoding`. None where there is none of them.
    """
    choice = first_choice(message)
    extra = get(get(message, "sglext") or get(choice, "sglext"), "spec_tokens_details")
    if isinstance(extra, list):  # one for each of several texts
        extra = extra[0] if extra else None
    return (
        get(message, "meta_info")
        or get(choice, "meta_info")
        or extra
        or get(get(message, "metrics"), "speculative_decoding")
    )


def keys_text(found: Iterable[str], known: Iterable[str]) -> str:
    """Return which keys were found, and which are known, for a message."""
    keys = list(found)
    shown = ", ".join(format_value(key) for key in keys[:_MAX_SHOWN]) + (", ..." if len(keys) > _MAX_SHOWN else "")
    return f"found: {shown or 'nothing'}; known: {', '.join(known)}."


def keys_of(items: Iterable[Any]) -> dict[str, None]:
    """The keys of parsed objects, those of `choices[0]` with a dot; names of samples."""
    keys: dict[str, None] = {}
    for item in items:
        if isinstance(item, Sample):
            keys[item.name] = None
        elif isinstance(item, Mapping):
            keys |= dict.fromkeys(map(str, item))
            choice = first_choice(item)
            keys |= {f"choices[0].{name}": None for name in choice} if isinstance(choice, Mapping) else {}
    return keys


def first_choice(message: Any) -> Any:
    """`choices[0]` of an OpenAI-style response; None if there is none."""
    choices = get(message, "choices")
    return choices[0] if isinstance(choices, Sequence) and choices else None


def text_of(message: Any) -> str:
    """The text of a response or of a chunk of a stream, in its native or OpenAI-style form."""
    choice = first_choice(message)
    part = get(choice, "delta") or get(choice, "message")
    return str(get(message, "content") or get(choice, "text") or get(part, "content") or "")


def is_finished(message: Any) -> bool:
    """Whether a response, or a stream with its last chunk, came to its end."""
    if get(message, "stop") or get(first_choice(message), "finish_reason") is not None:
        return True
    return get(get(message, "meta_info"), "finish_reason") is not None


def get(thing: Any, name: str) -> Any:
    """Return a key of a mapping, or an attribute of another object; None if there is none.

    Args:
        thing: Mapping or object.
        name: Key or attribute.
    """
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
