"""Counts of an engine for one request, as sums: from histograms of SGLang and vLLM, or timings of llama.cpp."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from draftscope.serving_formats import get, keys_of, keys_text, request_details
from draftscope.traces.schema import Sums

LLAMA_COUNTERS: Final = ("predicted_n", "draft_n", "draft_n_accepted", "predicted_ms")
PROPOSED: Final = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num", "num_draft_tokens")
_PASSES: Final = ("spec_verify_ct", "num_spec_steps")
_HISTOGRAMS: Final = ("spec_correct_drafts_histogram", "spec_accept_histogram", "acceptance_histogram")


def request_sums(messages: Sequence[Any]) -> Sums | None:
    """Return the sums of one request: of its whole response, or of the chunks of its stream.

    None where the engine counts no drafts by request.
    """
    usage = next((found for each in reversed(messages) if (found := get(each, "usage"))), None)
    for message in reversed(messages):
        if _first(details := request_details(message), _HISTOGRAMS):
            return histogram_sums(details, tokens=get(usage, "completion_tokens"))
        if (timings := get(message, "timings")) is not None:
            return timing_sums(timings)
    return None


def draft_length(details: Any) -> int:
    """Return the drafts of a pass that the details of a request tell.

    Raises:
        ValueError: If they do not.
    """
    passes, proposed = _first(details, _PASSES), _first(details, PROPOSED)
    if length := get(details, "num_spec_tokens"):
        return int(length)
    if not passes or proposed is None:
        known = keys_text(keys_of([details]), [_PASSES[0], *PROPOSED])
        raise ValueError(f"speculative_tokens: is not in meta_info; give SGLang's speculative_num_steps ({known})")
    return round(int(proposed) / int(passes))


def histogram_sums(details: Any, drafts: int | None = None, tokens: int | None = None) -> Sums:
    """Return the sums of one request by the number of passes that accepted 0, 1, 2 ... drafts.

    Args:
        details: What `request_details` returned.
        drafts: Drafts of a pass; by default those that the details tell.
        tokens: Tokens of the text, of which the last pass may have brought more, where the details do not say.

    Raises:
        ValueError: If there is no such histogram, or it has passes that accepted more drafts.
    """
    drafts = draft_length(details) if drafts is None else drafts
    histogram = _first(details, _HISTOGRAMS)
    if not histogram:
        known = keys_text(keys_of([details]), _HISTOGRAMS)
        raise ValueError(
            f"source: meta_info has no {_HISTOGRAMS[1]}, only sums; give the responses of a stream (stream=True) "
            f"({known})"
        )
    counts = [int(count) for count in histogram]
    while len(counts) > 1 and not counts[-1]:
        counts.pop()
    if len(counts) > drafts + 1:
        raise ValueError(f"speculative_tokens: is {drafts} where a pass accepted {len(counts) - 1} drafts.")
    passes, *accepted = _at_least(counts)
    accepted += [0] if len(counts) <= drafts else []
    proposed, reported = _first(details, PROPOSED), get(details, "completion_tokens")
    reported = tokens if reported is None else reported
    brought = passes + sum(accepted)
    return Sums(
        tokens=brought if reported is None else min(brought, int(reported)),
        forwards=passes,
        verifications=passes,
        drafts=passes * drafts if proposed is None else int(proposed),
        accepted=sum(accepted),
        accepted_by_position=tuple(accepted),
        judged_by_position=_judged(details, passes, accepted, proposed in (None, passes * drafts)),
    )


def timing_sums(timings: Any) -> Sums:
    """Return the sums of one response of llama.cpp; every pass gives one token that was not drafted."""
    tokens, drafts, accepted, _ = (int(get(timings, name) or 0) for name in LLAMA_COUNTERS)
    spent = (get(timings, "predicted_ms") or 0) + (get(timings, "prompt_ms") or 0)
    return Sums(
        tokens=tokens, forwards=tokens - accepted, drafts=drafts, accepted=accepted, seconds=max(0.0, spent / 1000)
    )


def _judged(details: Any, passes: int, accepted: Sequence[int], is_even: bool) -> tuple[int, ...]:
    """The drafts verified at each position: known if all are of one length, or counted by length as vLLM does."""
    if is_even:
        return (passes, *accepted[:-1])
    by_length = get(details, "acceptance_histogram_by_draft_length")
    if not isinstance(by_length, Mapping):
        return ()
    judged = [0] * len(accepted)
    for length, counts in by_length.items():
        reached = _at_least([int(count) for count in counts])
        for position in range(min(int(length), len(judged), len(reached))):
            judged[position] += reached[position]
    return tuple(judged)


def _at_least(counts: Sequence[int]) -> list[int]:
    """How many passes accepted at least 0, 1, 2 ... drafts."""
    return [*accumulate(reversed(counts))][::-1]


def _first(thing: Any, names: Sequence[str]) -> Any:
    return next((value for name in names if (value := get(thing, name)) is not None), None)
