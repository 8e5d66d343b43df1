"""The acceptance rate in a file of a visitor: results of `draftscope bench`, a log or metrics of a server, or a trace.

Rows of results and responses of a server are prompts; the interval of the rate comes from how far these are apart.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.analysis.acceptance_rate import AcceptanceEvidence, AcceptanceRate, DraftCounts, counts_of, evidence
from draftscope.analysis.groups import gathered
from draftscope.analysis.results import SweepError, read_json, read_results, unpacked
from draftscope.serving_engines import from_llama_cpp, from_sglang, from_vllm
from draftscope.serving_formats import Sample, first_choice, get, is_finished, parsed
from draftscope.traces import limits, loads
from draftscope.traces.labels import run_title
from draftscope.traces.schema import Sums, Trace

_KNOWN: Final = (
    "give a result of draftscope bench or of an experiment, a trace, the text of /metrics, the log of vLLM or "
    "llama.cpp, or responses of vLLM, SGLang or llama.cpp as JSON or JSON lines"
)
_ENGINES: Final = {"vllm": ("vLLM", from_vllm), "llamacpp": ("llama.cpp", from_llama_cpp)}
"""Prefix of the counters of /metrics -> name and reader of an engine."""
_VLLM_LINE: Final = re.compile(
    r"SpecDecoding metrics: Mean acceptance length: ([0-9.]{1,15}), [^\n]{0,200}?Accepted: ([0-9]{1,15}) tokens, "
    r"Drafted: ([0-9]{1,15}) tokens(?:, Per-position acceptance rate: ((?:[0-9.]{1,15}(?:, )?){1,64}))?"
)
"""A line that vLLM logs every few seconds (vllm/v1/spec_decode/metrics.py)."""
_LLAMA_CPP_LINE: Final = re.compile(
    r"(?<!prompt )eval time =[^\n]{0,80}?/ *([0-9]{1,15}) tokens"
    r"|draft acceptance(?: rate)? = [0-9.]{1,15} \( *([0-9]{1,15}) accepted / *([0-9]{1,15}) generated\)"
)
"""Tokens and drafts of a request, which llama.cpp's server logs one after the other when it is done."""


def opened_acceptance(data: bytes) -> tuple[AcceptanceEvidence, ...]:
    """Return the acceptance of every setting in a file.

    Args:
        data: Contents of the file, gzipped or not.

    Raises:
        ValueError: If it is of no known form, or no draft was verified; one sentence.
    """
    text = unpacked(data, "file")
    if not text.strip():
        raise SweepError(f"file: is empty; {_KNOWN}")
    document = _document(text)
    if document.get("schema") == "draftscope-trace":
        found = [of_trace(loads(text, name="file"))]
    elif "requests" in document and "table" in document:
        found = _of_server_bench(document)
    elif "rows" in document or _is_row(text):
        found = _of_rows(text, document)
    else:
        found = [_of_server(text)]
    known = tuple(one for one in found if one is not None)
    if not known:
        raise SweepError("file: no draft was verified in it; give runs with drafts, with what was accepted of them")
    return known


def of_trace(trace: Trace) -> AcceptanceEvidence | None:
    """Return the acceptance of a run; None if it verified no drafts. Its passes are taken for prompts."""
    if trace.sums is not None:
        counts = [_of_sums(trace.sums)]
    else:
        by_pass = (acceptance_by_draft_position([[step]]) for step in trace.steps)
        counts = [counts_of(one) for one in by_pass if one is not None]
    return evidence(f"the run {run_title(trace)}", counts)


def drafter_rates(named: Iterable[tuple[str, Trace]]) -> list[tuple[str, AcceptanceRate]]:
    """Return the acceptance rates of runs in which another model drafts tokens, to start a calculation from.

    Args:
        named: A name of each trace.

    Returns:
        The rate over all passes of a run, with the name by which the calculator offers it.
    """
    found = [(name, of_trace(trace)) for name, trace in named if trace.draft_model and trace.method == "speculative"]
    return [(f"recorded: {name}", one.rates[0]) for name, one in found if one is not None]


def _of_sums(sums: Sums, kind: str = "") -> DraftCounts:
    positions = acceptance_by_draft_position([sums])
    if positions is not None and all(each.judged is not None for each in positions.positions):
        return counts_of(positions, kind)
    passes = sums.verifications or sums.forwards
    return DraftCounts(accepted=sums.accepted, judged=None, passes=passes, drafts=sums.drafts, kind=kind)


def _of_rows(data: bytes, document: Mapping[str, Any]) -> list[AcceptanceEvidence | None]:
    """The settings of results that drafted, the kinds of prompts as `draftscope bench` names them."""
    categories = document.get("categories")
    kinds = categories if isinstance(categories, Mapping) else {}
    found = []
    for group in gathered(read_results(data).rows, scored=False):
        counts = [
            DraftCounts(
                accepted=sum(row.accepted_by_place), judged=sum(row.judged_by_place), passes=row.verifications,
                kind=_name(kinds.get(str(row.problem), "")),
            )
            for row in group.rows
        ]  # fmt: skip
        found.append(evidence(f"bench of {group.model or 'a model'}, {group.label}", counts))
    return found


def _of_server_bench(document: Mapping[str, Any]) -> list[AcceptanceEvidence | None]:
    """The server of a bench: its requests, or else its counters over all of them."""
    counts, requests = [], document["requests"]
    for request in requests if isinstance(requests, list) else ():
        answer = get(request, "answer")
        tokens, drafts, accepted = (_count(get(answer, name)) for name in ("tokens", "drafted", "accepted"))
        if get(request, "server") == "server" and drafts:
            kind = _name(get(request, "category"))
            passes = max(1, tokens - accepted)
            counts.append(DraftCounts(accepted=accepted, judged=None, passes=passes, drafts=drafts, kind=kind))
    served = get(get(document.get("about"), "servers"), "server")
    name = _name(get(served, "kind")) or "a server"
    if counts:
        return [evidence(f"bench of {name}", counts)]
    sums = get(document.get("sums"), "server")
    if not isinstance(sums, Mapping):
        return []
    by_position = get(sums, "accepted_by_position")
    passes, drafts, accepted = (_count(get(sums, key)) for key in ("verifications", "drafts", "accepted"))
    if isinstance(by_position, list) and by_position and drafts == passes * len(by_position):
        judged = passes + sum(_count(each) for each in by_position[:-1])
        return [evidence(f"bench of {name}", [DraftCounts(accepted=accepted, judged=judged, passes=passes)])]
    passes = passes or _count(get(sums, "forwards"))
    return [evidence(f"bench of {name}", [DraftCounts(accepted=accepted, judged=None, passes=passes, drafts=drafts)])]


def _of_server(text: bytes) -> AcceptanceEvidence | None:
    """A log or the metrics of an engine, which is known by its names."""
    items = parsed(text)
    samples = [item for item in items if isinstance(item, Sample)]
    for prefix, (name, read) in _ENGINES.items():
        if any(sample.name.startswith(f"{prefix}:") for sample in samples):
            sums = read(samples, "unknown").sums
            return evidence(f"{name}'s /metrics", [_of_sums(sums)] if sums else [])
    if any(_meta(item) is not None for item in items):
        return _of_responses("SGLang", from_sglang, items)
    if any(get(item, "timings") is not None for item in items):
        return _of_responses("llama.cpp", from_llama_cpp, items)
    log = text.decode("utf-8", errors="replace")
    if intervals := [_interval_counts(*found) for found in _VLLM_LINE.findall(log)]:
        return evidence("a log of vLLM", intervals)
    if requests := _request_counts(log):
        return evidence("a log of llama.cpp", requests)
    raise SweepError(f"file: is of no known form; {_KNOWN}")


def _request_counts(log: str) -> list[DraftCounts]:
    """Counts of the requests in a log of llama.cpp's server."""
    requests, tokens = list[DraftCounts](), 0
    for generated, accepted, drafts in _LLAMA_CPP_LINE.findall(log):
        tokens = int(generated or tokens)
        if drafts:
            passes = max(1, tokens - int(accepted)) if int(drafts) else 0
            requests.append(DraftCounts(accepted=int(accepted), judged=None, passes=passes, drafts=int(drafts)))
    return requests


def _interval_counts(length: str, accepted: str, drafts: str, by_position: str) -> DraftCounts:
    """Counts of an interval in a log of vLLM, which writes the share of passes that accepted a draft at a position."""
    shares = [min(1.0, _decimal(share)) for share in by_position.split(", ") if share]
    if shares:
        passes = int(drafts) / len(shares)
        return DraftCounts(accepted=int(accepted), judged=passes * (1 + sum(shares[:-1])), passes=passes)
    passes = int(accepted) / (_decimal(length) - 1) if _decimal(length) > 1 else int(drafts)
    return DraftCounts(accepted=int(accepted), judged=None, passes=passes, drafts=int(drafts))


def _of_responses(name: str, read: Callable[..., Trace], items: Sequence[Any]) -> AcceptanceEvidence | None:
    """Whole responses one by one, or the chunks of one stream."""
    are_whole = len(items) > 1 and all(map(is_finished, items))
    traces = [read([item], "unknown") for item in items] if are_whole else [read(items, "unknown")]
    counts = []
    for trace in traces:
        positions = acceptance_by_draft_position([trace.steps]) if trace.sums is None else None
        if trace.sums is not None and trace.sums.drafts:
            counts.append(_of_sums(trace.sums))
        elif positions is not None:
            counts.append(counts_of(positions))
    return evidence(f"a log of {name}", counts)


def _meta(item: Any) -> Any:
    return get(item, "meta_info") or get(first_choice(item), "meta_info")


def _document(text: bytes) -> Mapping[str, Any]:
    """The JSON object that the file is; empty for lines and other texts."""
    if not text.lstrip().startswith(b"{"):
        return {}
    try:
        document = read_json(text, "file", limits.VALUES)
    except SweepError:
        return {}
    return document if isinstance(document, Mapping) else {}


def _is_row(text: bytes) -> bool:
    """Whether the first line is a row of results, or the record of how they were made."""
    first = _document(text.lstrip().split(b"\n", 1)[0])
    return "about" in first or {"method", "label", "problem"} <= first.keys()


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= limits.EXACT else 0


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _name(value: object) -> str:
    return value[: limits.NAME_CHARACTERS] if isinstance(value, str) else ""
