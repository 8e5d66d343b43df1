"""Traces from what vLLM, SGLang and llama.cpp report about speculative decoding.

The names of fields are those of vLLM 0.29 (V1 engine: `RequestOutput`, OpenAI-style responses with `return_token_ids`
or with `metrics.speculative_decoding`, and the counters `vllm:spec_decode_*` of `llm.get_metrics()` and `/metrics`), of
SGLang 0.5 (`meta_info` or `sglext` of a response, and `/metrics`), and of llama.cpp's server (`timings` of a response,
and `llamacpp:spec_decode_*`). No engine is imported. None reports ids of rejected drafts, p, q or uniform numbers, and
only llama.cpp reports the time of a pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from draftscope.builder import TraceBuilder
from draftscope.serving_formats import (
    Sample,
    draft_counters,
    get,
    is_finished,
    keys_of,
    keys_text,
    parsed,
    request_details,
    text_of,
)
from draftscope.serving_sums import LLAMA_COUNTERS, PROPOSED, draft_length, histogram_sums, timing_sums
from draftscope.trace import Trace
from draftscope.traces.schema import Sums
from draftscope.traces.stats import add_sums

_NOTE: Final = "Counts from {engine}: no ids of rejected drafts, probabilities, uniform numbers or times."
_TAKEN: Final = (
    " Every pass is assumed to have verified {drafts} drafts; a shorter draft counts as rejected at its end."
)
_CUT: Final = " The last pass may have brought more than the length of the text let it keep."
_SUMS: Final = (
    "Sums from {engine} over all passes: no ids of rejected drafts, probabilities or uniform numbers, and nothing on "
    "single passes."
)
_SHORT: Final = " Some drafts were shorter than others, so how many were verified at each position is not known."

_LLAMA_NOTE: Final = (
    "Counts from llama.cpp: no ids of rejected drafts, probabilities or uniform numbers. The time of a pass is that "
    "since the pass before, drafts included."
)
_SGLANG: Final = (
    " Verifications and tokens are those of finished requests; drafts are taken to have the present length, and "
    "nothing is known of positions."
)
_SGLANG_TOTALS: Final = (
    "spec_verify_ct", "spec_accept_length", "spec_accept_rate", "spec_num_correct_drafts", "spec_accepted_drafts",
    "spec_accept_token_num", *PROPOSED, "completion_tokens", "e2e_latency",
)  # fmt: skip


def from_vllm(
    source: Any,
    model: str,
    *,
    speculative_tokens: int | None = None,
    before: Any = (),
    cumulative: bool = False,
    **head: Any,
) -> Trace:
    """Return the trace of a request to vLLM, or the sums of everything that an engine decoded.

    Args:
        source: The text of `/metrics`, or the list that `llm.get_metrics()` returns, which have sums; or the outputs of
            one request in the order of its stream, which have ids and the order of passes: `RequestOutput`, or the
            stream of an OpenAI-style route requested with `"return_token_ids": true`; or responses, whole or streamed,
            of a server with `--per-request-spec-decode-metrics summary`, which have sums, or `detailed`, which has the
            drafts of every pass of one request. As objects, lines or text.
        model: Id of the target.
        speculative_tokens: `num_speculative_tokens` of the engine, for a stream with ids; for sums, by default what
            they have positions for.
        before: An earlier state of the metrics, whose counts are subtracted.
        cumulative: Whether each output repeats earlier ids (`RequestOutputKind.CUMULATIVE`, vLLM's default) or has only
            new ones (`DELTA`).
        head: Further fields of the trace, as for `TraceBuilder`.

    Returns:
        A trace with steps, if the source has the order of passes, or with sums.

    Raises:
        ValueError: If the passes cannot be recovered from the source; the message names what to request from vLLM.
    """
    items = parsed(source)
    if not items:
        raise ValueError("source: is empty; give the outputs of one request, or what llm.get_metrics() returns.")
    if speculative_tokens is not None:
        _at_least_one("speculative_tokens", speculative_tokens)
    if isinstance(items[0], Sample) or get(items[0], "name") is not None:
        sums = _counted(items, before, "vllm", speculative_tokens)
        return _sums_trace("vLLM", model, sums, {"speculative_tokens": len(sums.accepted_by_position)}, head)
    if speculative_tokens is None and (details := [found for item in items if (found := request_details(item))]):
        return _of_requests(items, details, model, head)
    if speculative_tokens is None:
        raise ValueError("speculative_tokens: is needed for a stream; give num_speculative_tokens of the engine.")
    ids, brought = _ids_of_outputs(items, cumulative)
    first = items[0]
    prompt, fed = get(first, "prompt") or "", get(first, "prompt_token_ids") or ()
    builder = _builder("vLLM", model, head, speculative_tokens, prompt=prompt)
    remedy = "SamplingParams(output_kind=RequestOutputKind.DELTA) or a stream"
    _stream(builder, brought, speculative_tokens, len(fed), remedy)
    text = "".join(map(text_of, items)) or None
    return builder.trace(ids, text=text, complete=any(get(each, "finished") or is_finished(each) for each in items))


def _ids_of_outputs(items: Sequence[Any], cumulative: bool) -> tuple[list[int], list[int]]:
    """The ids of a stream of vLLM, and how many of them each output brought."""
    ids: list[int] = []
    brought: list[int] = []
    for index, output in enumerate(items):
        completions = get(output, "outputs") or get(output, "choices")
        if not completions and get(output, "usage"):
            continue  # The last chunk of an OpenAI-style stream.
        if not completions or get(completions[0], "token_ids") is None:
            known = keys_text(keys_of([output]), ["outputs[0].token_ids", "choices[0].token_ids", "vllm:spec_decode_*"])
            raise ValueError(
                f"source[{index}]: has no outputs[0].token_ids; give vLLM's RequestOutput objects, a stream with "
                f'"return_token_ids": true, or the text of /metrics ({known})'
            )
        if len(completions) > 1:
            raise ValueError(f"source[{index}].outputs: holds {len(completions)} texts; ask vLLM for n=1.")
        token_ids = list(get(completions[0], "token_ids"))
        if cumulative and token_ids[: len(ids)] != ids:
            raise ValueError(f"source[{index}]: does not repeat the ids before it; leave out cumulative=True.")
        fresh = token_ids[len(ids) :] if cumulative else token_ids
        ids += fresh
        brought.append(len(fresh))
    return ids, brought


def from_sglang(
    source: Any, model: str, *, speculative_tokens: int | None = None, before: Any = (), **head: Any
) -> Trace:
    """Return the trace of a request to SGLang, or the sums of several.

    Args:
        source: Responses of `/generate`, `Engine.generate` or an OpenAI-style route, whose `meta_info` or, requested
            with `return_spec_tokens_details`, `sglext` has the histogram of accepted drafts; or the responses of one
            stream of `/generate` in order (`stream=True`, with `stream_interval` 1), which have the order of passes,
            and ids if they have `output_ids`; or the text of `/metrics`, which has sums without positions. As objects,
            lines or text.
        model: Id of the target.
        speculative_tokens: Consecutive drafts that a pass verifies: `speculative_num_steps`, which is one less than
            `speculative_num_draft_tokens` if `speculative_eagle_topk` is 1. By default the number proposed per pass
            according to the response.
        before: An earlier text of `/metrics`, whose counts are subtracted.
        head: Further fields of the trace, as for `TraceBuilder`.

    Returns:
        A trace with steps, if the source has the order of passes, or with sums.

    Raises:
        ValueError: If the passes cannot be recovered from the responses; the message names what to request from SGLang.
    """
    chunks = parsed(source)
    if chunks and isinstance(chunks[0], Sample):
        sums = _counted(chunks, before, "sglang", None)
        about: dict[str, Any] = {"note": _SUMS.format(engine="SGLang") + _SGLANG, **head}
        return _sums_trace("SGLang", model, sums, {}, about)
    metas = [meta for chunk in chunks if (meta := request_details(chunk))]
    if not metas:
        words = "give what SGLang's /generate or Engine.generate returns, or an OpenAI-style response that has it"
        known = keys_text(keys_of(chunks), ["meta_info", "choices[0].meta_info", "sglext.spec_tokens_details"])
        raise ValueError(f"source: has no meta_info; {words} ({known})")
    last = metas[-1]
    drafts = draft_length(last) if speculative_tokens is None else speculative_tokens
    _at_least_one("speculative_tokens", drafts)
    extensions = {"sglang": {name: last[name] for name in _SGLANG_TOTALS if name in last}}
    about = {"extensions": extensions, **head}
    if len(metas) == 1 or all(map(is_finished, chunks)):
        usage = [get(chunk, "usage") for chunk in chunks] if len(metas) == 1 else []
        tokens = next((get(each, "completion_tokens") for each in reversed(usage) if each), None)
        sums = add_sums([histogram_sums(meta, drafts, tokens) for meta in metas])
        text = "".join(text_of(chunk) or get(chunk, "text") or "" for chunk in chunks) if len(metas) == 1 else None
        head = about if len(metas) == 1 else head
        return _sums_trace("SGLang", model, sums, {"speculative_tokens": drafts}, head, text)
    counted = [int(get(meta, "completion_tokens") or 0) for meta in metas]
    brought = [after - before for before, after in pairwise([0, *counted])]
    builder = _builder("SGLang", model, about, drafts)
    _stream(builder, brought, drafts, int(get(last, "prompt_tokens") or 0), "a stream with stream_interval=1")
    ids = list(get(chunks[-1], "output_ids") or ())
    if len(ids) < counted[-1]:  # Each response has its own ids alone.
        ids = [int(token) for chunk in chunks for token in get(chunk, "output_ids") or ()]
    text = get(chunks[-1], "text") or "".join(map(text_of, chunks)) or None
    return builder.trace(ids if len(ids) == counted[-1] else (), text=text, complete=is_finished(chunks[-1]))


def from_llama_cpp(source: Any, model: str, *, before: Any = (), **head: Any) -> Trace:
    """Return the trace of a request to llama.cpp's server, or the sums of several.

    Args:
        source: The chunks of the stream of `/completion`, `/v1/completions` or `/v1/chat/completions`, in order,
            requested with `"stream": true, "timings_per_token": true`, which have the order of passes, and ids if
            `"return_tokens": true` was requested as well; or whole responses, or the text of `/metrics`, which have
            sums. As objects, lines or text.
        model: Id of the target.
        before: An earlier text of `/metrics`, whose counts are subtracted.
        head: Further fields of the trace, as for `TraceBuilder`.

    Returns:
        A trace with steps, if the source has the order of passes, or with sums.

    Raises:
        ValueError: If the passes cannot be recovered from the chunks; the message names what to request.
    """
    remedy = 'give the chunks of a request with "stream": true and "timings_per_token": true.'
    items = parsed(source)
    if items and isinstance(items[0], Sample):
        return _sums_trace("llama.cpp", model, _counted(items, before, "llamacpp", None), {}, head)
    counted = [timings for chunk in items if (timings := get(chunk, "timings")) is not None]
    if not counted:
        known = keys_text(keys_of(items), ["timings", "llamacpp:spec_decode_num_drafts"])
        raise ValueError(f"source: no chunk has timings; {remedy[:-1]} ({known})")
    extensions = {"llama.cpp": {name: get(counted[-1], name) or 0 for name in LLAMA_COUNTERS}}
    if len(counted) == len(items) and all(map(is_finished, items)):
        sums = add_sums([timing_sums(timings) for timings in counted])
        single = len(items) == 1
        about = {"extensions": extensions, **head} if single else head
        return _sums_trace("llama.cpp", model, sums, {}, about, text_of(items[0]) if single else None)
    builder = TraceBuilder("llama.cpp", model, **{"note": _LLAMA_NOTE, "extensions": extensions, **head})
    for index, one in enumerate(passes := _llama_passes(counted, remedy)):
        fed, took = one.drafted + 1, one.milliseconds
        if not index:  # The pass that reads the prompt.
            fed, took = get(counted[0], "prompt_n") or 1, took + (get(counted[0], "prompt_ms") or 0)
        call = {"mode": "verify" if one.drafted else "causal", "query_tokens": fed, "milliseconds": max(0, took)}
        builder.count(min(one.accepted, one.tokens), one.drafted, one.tokens, call=call)
    ids = [int(token) for chunk in items for token in get(chunk, "tokens") or ()]
    text = "".join(map(text_of, items))
    ids_if_complete = ids if len(ids) == sum(one.tokens for one in passes) else ()
    return builder.trace(ids_if_complete, text=text or None, complete=any(map(is_finished, items)))


def _counted(items: Sequence[Any], before: Any, engine: str, positions: int | None) -> Sums:
    """Everything that an engine decoded between two states of its counters."""
    counters = draft_counters(items, before, engine)
    accepted = counters.accepted_by_position
    if positions is not None and len(accepted) > positions:
        raise ValueError(f"speculative_tokens: is {positions} where the counters have {len(accepted)} positions.")
    if any(one < two for one, two in pairwise((counters.drafts, *accepted))):
        problem = f"counts {counters.drafts} drafts of which {list(accepted)} were accepted at each position"
        raise ValueError(f"source: {problem}; give the metrics of one engine, read at one time.")
    return counters.sums()


@dataclass(slots=True)
class _LlamaPass:
    """A pass in a stream of llama.cpp."""

    drafted: int
    accepted: int
    tokens: int = 0
    milliseconds: float = 0.0


def _llama_passes(counted: Sequence[Any], remedy: str) -> list[_LlamaPass]:
    """The passes of a stream, whose tokens come at once or one by one after the drafts of their pass were counted."""
    passes: list[_LlamaPass] = []
    earlier = dict.fromkeys(LLAMA_COUNTERS, 0)
    for timings in counted:
        now = {name: get(timings, name) or 0 for name in LLAMA_COUNTERS}
        tokens, drafted, accepted, spent = (now[name] - earlier[name] for name in LLAMA_COUNTERS)
        earlier = now
        if not tokens and not drafted:
            continue  # Another chunk of the same token.
        is_full = not passes or passes[-1].tokens == passes[-1].accepted + 1
        is_next = bool(drafted or accepted or is_full)
        if is_next:
            passes.append(_LlamaPass(drafted, accepted))
        last = passes[-1]
        last.tokens += tokens
        last.milliseconds += spent
        if last.tokens > last.accepted + 1 or accepted > drafted or (is_next and not is_full):
            raise ValueError(f"source: {tokens} tokens came at once, {accepted} of them drafts that passed; {remedy}")
    return passes


def _of_requests(items: Sequence[Any], details: Sequence[Any], model: str, head: Mapping[str, Any]) -> Trace:
    """Counts of vLLM for each of some requests; for a single one in detail, its passes."""
    length = max(draft_length(each) for each in details)
    single = len(details) == 1
    text = "".join(map(text_of, items)) if single else None
    accepted, drafted = (get(details[0], f"per_step_{kind}") for kind in ("accepted", "drafted"))
    if single and accepted and drafted and len(accepted) == len(drafted):
        about = {"config": {"speculative_tokens": length}, "note": _NOTE.format(engine="vLLM") + _CUT, **head}
        builder = TraceBuilder("vLLM", model, **about)
        for one, all_drafts in zip(accepted, drafted, strict=True):
            builder.count(int(one), int(all_drafts), int(one) + 1)
        return builder.trace(text=text or None, complete=any(map(is_finished, items)))
    usage = next((found for item in reversed(items) if (found := get(item, "usage"))), None) if single else None
    sums = add_sums([histogram_sums(each, tokens=get(usage, "completion_tokens")) for each in details])
    return _sums_trace("vLLM", model, sums, {"speculative_tokens": length}, head, text)


def _sums_trace(
    engine: str, model: str, sums: Sums, config: Mapping[str, Any], head: Mapping[str, Any], text: str | None = None
) -> Trace:
    unknown = sums.accepted_by_position and not sums.judged_by_position
    note = _SUMS.format(engine=engine) + (_SHORT if unknown else "")
    builder = TraceBuilder(engine, model, **{"config": config, "note": note, **head})
    return builder.trace(text=text or None, sums=sums)


def _stream(builder: TraceBuilder, brought: Sequence[int], drafts: int, prompt: int, remedy: str) -> None:
    """Add a pass for each output of a stream; the first read the prompt and drew one token."""
    passes = [count for count in brought if count]
    for index, count in enumerate(passes):
        if not 0 < count <= (drafts + 1 if index else 1):
            limit = f"at most {drafts + 1}" if index else "one after the prompt"
            raise ValueError(f"source: {count} tokens came at once where a pass brings {limit}; ask for {remedy}.")
        if index:
            builder.count(count - 1, drafts, count)
        else:
            builder.count(0, 0, 1, call={"mode": "causal", "query_tokens": max(1, prompt)})


def _builder(engine: str, model: str, head: Mapping[str, Any], drafts: int, prompt: str = "") -> TraceBuilder:
    note = _NOTE.format(engine=engine) + _TAKEN.format(drafts=drafts) + _CUT
    return TraceBuilder(
        engine, model, **{"prompt": prompt, "config": {"speculative_tokens": drafts}, "note": note, **head}
    )


def _at_least_one(field: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{field}: {value} is below 1; give the number of drafts that a pass verifies.")
