"""Count-only traces from the speculative-decoding counters of vLLM, SGLang and llama.cpp.

The names of fields are those of vLLM 0.11 (V1 engine: `RequestOutput`, and the counters `vllm:spec_decode_*` that
`llm.get_metrics()` lists), of SGLang 0.5 (`meta_info` of a response), and of llama.cpp's server (`timings` of a
response). Objects and dicts are accepted, and no engine is imported. None reports ids of rejected drafts, p, q or
uniform numbers, and only llama.cpp reports the time of a pass.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from draftscope.builder import TraceBuilder
from draftscope.trace import Trace

_NOTE: Final = "Counts from {engine}: no ids of rejected drafts, probabilities, uniform numbers or times."
_TAKEN: Final = (
    " Every pass is assumed to have verified {drafts} drafts; a shorter draft counts as rejected at its end."
)
_SORTED: Final = " The order of the passes is not known, so they are sorted from most accepted to least."
_CUT: Final = " The last pass may have brought more than the length of the text let it keep."

_LLAMA_NOTE: Final = (
    "Counts from llama.cpp: no ids of rejected drafts, probabilities or uniform numbers. The time of a pass is that "
    "since the pass before, drafts included."
)
_LLAMA_COUNTERS: Final = ("predicted_n", "draft_n", "draft_n_accepted", "predicted_ms")

_DRAFTS: Final = "vllm:spec_decode_num_drafts"
_PLACES: Final = "vllm:spec_decode_num_accepted_tokens_per_pos"
_VLLM_COUNTERS: Final = (_DRAFTS, "vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")
_HISTOGRAMS: Final = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_PROPOSED: Final = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_SGLANG_TOTALS: Final = (
    "spec_verify_ct", "spec_accept_length", "spec_accept_rate", "spec_num_correct_drafts", "spec_accepted_drafts",
    "spec_accept_token_num", *_PROPOSED, "completion_tokens", "e2e_latency",
)  # fmt: skip


def from_vllm(
    source: Sequence[Any],
    model: str,
    *,
    speculative_tokens: int,
    before: Sequence[Any] = (),
    cumulative: bool = False,
    **head: Any,
) -> Trace:
    """Return the count-only trace of a request to vLLM, or of everything that an engine decoded.

    Args:
        source: The outputs of one request in the order of its stream (`RequestOutput`), which have ids and the order of
            passes; or the list that `llm.get_metrics()` returns, which has only counts.
        model: Id of the target.
        speculative_tokens: `num_speculative_tokens` of the engine.
        before: An earlier list of `get_metrics()`, whose counts are subtracted.
        cumulative: Whether each output repeats earlier ids (`RequestOutputKind.CUMULATIVE`, vLLM's default) or has only
            new ones (`DELTA`).
        head: Further fields of the trace, as for `TraceBuilder`.

    Raises:
        ValueError: If the passes cannot be recovered from the outputs; the message names what to request from vLLM.
    """
    _at_least_one("speculative_tokens", speculative_tokens)
    if not source:
        raise ValueError("source: is empty; give the outputs of one request, or what llm.get_metrics() returns.")
    if _get(source[0], "name") is not None:
        return _from_counters(source, before, model, speculative_tokens, head)
    ids: list[int] = []
    brought: list[int] = []
    for index, output in enumerate(source):
        completions = _get(output, "outputs")
        if not completions or _get(completions[0], "token_ids") is None:
            raise ValueError(f"source[{index}]: has no outputs[0].token_ids; give vLLM's RequestOutput objects.")
        if len(completions) > 1:
            raise ValueError(f"source[{index}].outputs: holds {len(completions)} texts; ask vLLM for n=1.")
        token_ids = list(_get(completions[0], "token_ids"))
        if cumulative and token_ids[: len(ids)] != ids:
            raise ValueError(f"source[{index}]: does not repeat the ids before it; leave out cumulative=True.")
        fresh = token_ids[len(ids) :] if cumulative else token_ids
        ids += fresh
        brought.append(len(fresh))
    first = source[0]
    prompt, fed = _get(first, "prompt") or "", _get(first, "prompt_token_ids") or ()
    builder = _builder("vLLM", model, head, speculative_tokens, prompt=prompt)
    _stream(builder, brought, speculative_tokens, len(fed), "SamplingParams(output_kind=RequestOutputKind.DELTA)")
    return builder.trace(ids, complete=bool(_get(source[-1], "finished")))


def from_sglang(
    source: Mapping[str, Any] | Sequence[Any], model: str, *, speculative_tokens: int | None = None, **head: Any
) -> Trace:
    """Return the count-only trace of a request to SGLang.

    Args:
        source: The response of `/generate` or `Engine.generate`, whose `meta_info` has the histogram of accepted
            drafts; or
            the responses of its stream in order (`stream=True`, with `stream_interval` 1), which have the order of
            passes,
            and ids if they have `output_ids`.
        model: Id of the target.
        speculative_tokens: Consecutive drafts that a pass verifies: `speculative_num_steps`, which is one less than
            `speculative_num_draft_tokens` if `speculative_eagle_topk` is 1. By default the number proposed per pass
            according to the response.
        head: Further fields of the trace, as for `TraceBuilder`.

    Raises:
        ValueError: If the passes cannot be recovered from the responses; the message names what to request from SGLang.
    """
    chunks = [source] if isinstance(source, Mapping) or hasattr(source, "meta_info") else list(source)
    metas = [_get(chunk, "meta_info") for chunk in chunks]
    if not metas or None in metas:
        raise ValueError("source: has no meta_info; give what SGLang's /generate or Engine.generate returns.")
    last = metas[-1]
    drafts = speculative_tokens
    if drafts is None:
        passes, proposed = _get(last, "spec_verify_ct"), _first(last, _PROPOSED)
        if not passes or proposed is None:
            raise ValueError("speculative_tokens: is not in meta_info; give SGLang's speculative_num_steps.")
        drafts = round(proposed / passes)
    _at_least_one("speculative_tokens", drafts)
    extensions = {"sglang": {name: last[name] for name in _SGLANG_TOTALS if name in last}}
    finished = _get(last, "finish_reason") is not None
    if len(chunks) == 1:
        histogram = _first(last, _HISTOGRAMS)
        if not histogram:
            raise ValueError(
                f"source: meta_info has no {_HISTOGRAMS[1]}, only sums; give the responses of a stream (stream=True)."
            )
        builder = _builder("SGLang", model, {"extensions": extensions, **head}, drafts, _SORTED)
        _histogram(builder, list(histogram), drafts)
        return builder.trace()
    counted = [int(_get(meta, "completion_tokens") or 0) for meta in metas]
    brought = [after - before for before, after in pairwise([0, *counted])]
    builder = _builder("SGLang", model, {"extensions": extensions, **head}, drafts)
    _stream(builder, brought, drafts, int(_get(last, "prompt_tokens") or 0), "a stream with stream_interval=1")
    ids = list(_get(chunks[-1], "output_ids") or ())
    if len(ids) < counted[-1]:  # Each response has its own ids alone.
        ids = [int(token) for chunk in chunks for token in _get(chunk, "output_ids") or ()]
    return builder.trace(ids if len(ids) == counted[-1] else (), text=_get(chunks[-1], "text"), complete=finished)


def from_llama_cpp(source: Sequence[Any], model: str, **head: Any) -> Trace:
    """Return the count-only trace of a request to llama.cpp's server.

    Args:
        source: The chunks of the stream of `/completion`, or of `/v1/chat/completions`, in order, requested with
            `"stream": true, "timings_per_token": true`; ids if `"return_tokens": true` was requested as well.
        model: Id of the target.
        head: Further fields of the trace, as for `TraceBuilder`.

    Raises:
        ValueError: If the passes cannot be recovered from the chunks; the message names what to request.
    """
    remedy = 'give the chunks of a request with "stream": true and "timings_per_token": true.'
    counted = [timings for chunk in source if (timings := _get(chunk, "timings")) is not None]
    if not counted:
        raise ValueError(f"source: no chunk has timings; {remedy}")
    extensions = {"llama.cpp": {name: _get(counted[-1], name) or 0 for name in _LLAMA_COUNTERS}}
    builder = TraceBuilder("llama.cpp", model, **{"note": _LLAMA_NOTE, "extensions": extensions, **head})
    before = dict.fromkeys(_LLAMA_COUNTERS, 0)
    for timings in counted:
        now = {name: _get(timings, name) or 0 for name in _LLAMA_COUNTERS}
        tokens, drafted, accepted, spent = (now[name] - before[name] for name in _LLAMA_COUNTERS)
        if not tokens and not drafted:
            continue  # Another chunk of the same pass.
        if tokens != accepted + 1 or drafted < accepted:
            raise ValueError(f"source: {tokens} tokens came at once, {accepted} of them drafts that passed; {remedy}")
        fed, took = drafted + 1, spent
        if not before["predicted_n"]:  # The pass that reads the prompt.
            fed, took = _get(timings, "prompt_n") or 1, spent + (_get(timings, "prompt_ms") or 0)
        mode = "verify" if drafted else "causal"
        builder.count(accepted, drafted, tokens, call={"mode": mode, "query_tokens": fed, "milliseconds": max(0, took)})
        before = now
    ids = [int(token) for chunk in source for token in _get(chunk, "tokens") or ()]
    text = "".join(str(_get(chunk, "content") or "") for chunk in source)
    ids_if_complete = ids if len(ids) == before["predicted_n"] else ()
    return builder.trace(ids_if_complete, text=text or None, complete=bool(_get(source[-1], "stop")))


def _from_counters(
    source: Sequence[Any], before: Sequence[Any], model: str, drafts: int, head: Mapping[str, Any]
) -> Trace:
    """Everything that an engine decoded between two lists of its metrics."""
    totals = {name: _total(source, name, "value") - _total(before, name, "value") for name in _VLLM_COUNTERS}
    counts = [0] * drafts
    for metrics, sign in ((source, 1), (before, -1)):
        for metric in metrics:
            if _get(metric, "name") == _PLACES:
                values = list(_get(metric, "values"))
                if len(values) > drafts:
                    raise ValueError(f"speculative_tokens: is {drafts} where {_PLACES} has {len(values)} places.")
                for position, value in enumerate(values):
                    counts[position] += sign * int(value)
    survived = [totals[_DRAFTS], *counts, 0]
    if totals[_DRAFTS] <= 0 or any(one < two for one, two in pairwise(survived)):
        problem = f"counts {totals[_DRAFTS]} drafts of which {counts} were accepted at each position"
        raise ValueError(f"source: {problem}; give get_metrics() of an engine that speculates, after some requests.")
    extensions = {"vllm": {name.removeprefix("vllm:"): count for name, count in totals.items()}}
    builder = _builder("vLLM", model, {"extensions": extensions, **head}, drafts, _SORTED)
    _histogram(builder, [one - two for one, two in pairwise(survived)], drafts)
    return builder.trace()


def _total(metrics: Sequence[Any], name: str, column: str) -> int:
    """The sum of a counter over everything that it is labelled with."""
    return sum(int(_get(metric, column) or 0) for metric in metrics if _get(metric, "name") == name)


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


def _histogram(builder: TraceBuilder, passes: Sequence[int], drafts: int) -> None:
    """Add the passes that accepted 0, 1, 2 ... drafts, the longest first."""
    if len(passes) > drafts + 1 and any(passes[drafts + 1 :]):
        raise ValueError(f"speculative_tokens: is {drafts} where a pass accepted {len(passes) - 1} drafts.")
    for accepted in reversed(range(len(passes))):
        for _ in range(int(passes[accepted])):
            builder.count(accepted, drafts, accepted + 1)


def _builder(
    engine: str, model: str, head: Mapping[str, Any], drafts: int, caveat: str = _CUT, prompt: str = ""
) -> TraceBuilder:
    note = _NOTE.format(engine=engine) + _TAKEN.format(drafts=drafts) + caveat
    return TraceBuilder(
        engine, model, **{"prompt": prompt, "config": {"speculative_tokens": drafts}, "note": note, **head}
    )


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _first(thing: Any, names: Sequence[str]) -> Any:
    return next((value for name in names if (value := _get(thing, name)) is not None), None)


def _at_least_one(field: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{field}: {value} is below 1; give the number of drafts that a pass verifies.")
