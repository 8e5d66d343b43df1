"""A trace as events of Chrome's "Trace Event Format", which ui.perfetto.dev and chrome://tracing open.

Target and drafter are tracks, a forward pass is a slice with its stages inside, a verdict an instant at its end.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from draftscope.traces.schema import Step, Trace
from draftscope.traces.stats import STAGES
from draftscope.traces.words import step_words

_PROCESS: Final = 1
_TRACKS: Final = {"target": 1, "draft": 2, "self": 3}
"""Role of a pass -> number of its track."""
_UNTIMED: Final = 1000.0
"""Microseconds of a pass in a trace without times."""


def to_perfetto(trace: Trace) -> dict[str, Any]:
    """The trace as plain data of the JSON object format. Where no pass was timed, each takes a millisecond."""
    timed = any(step.call.milliseconds.total for step in trace.steps)
    roles = {step.call.role for step in trace.steps}
    listed = [_metadata("process_name", 0, {"name": f"{trace.method} on {trace.model.id}"})]
    listed += [_metadata("thread_name", _TRACKS[role], {"name": role}) for role in _TRACKS if role in roles]
    at = 0.0
    for index, (step, words) in enumerate(zip(trace.steps, step_words(trace), strict=True)):
        took = 1000 * step.call.milliseconds.total if timed else _UNTIMED
        listed += _pass(index, step, at, took, words)
        at += took
    about = {"method": trace.method, "model": trace.model.id, "prompt": trace.prompt, "seed": trace.seed}
    return {"traceEvents": listed, "displayTimeUnit": "ms", "otherData": {**about, "timed": timed}}


def _metadata(name: str, track: int, about: Mapping[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _PROCESS, "tid": track, "args": about}


def _pass(index: int, step: Step, at: float, took: float, words: Sequence[str | None]) -> Iterator[dict[str, Any]]:
    call, where = step.call, {"pid": _PROCESS, "tid": _TRACKS[step.call.role]}
    fed = {"pass": index, "query_tokens": call.query_tokens, "rows": call.rows, "batch": call.batch}
    yield {"ph": "X", "cat": "pass", "name": call.mode, "ts": at, "dur": took, **where, "args": fed}
    since = at
    for stage in STAGES:
        if spent := 1000 * getattr(call.milliseconds, stage):
            yield {"ph": "X", "cat": "stage", "name": stage, "ts": since, "dur": spent, **where}
            since += spent
    for entry, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
        if not (fate.judged or fate.final):
            continue
        token = step.token[entry] if step.token else None
        columns = {"p": step.p, "q": step.q, "accept_prob": step.accept_prob, "coin": step.coin}
        known: dict[str, Any] = {
            name: column[entry] for name, column in columns.items() if column and column[entry] is not None
        }
        if isinstance(token, int):
            known |= {"token": token} | ({} if words[entry] is None else {"text": words[entry]})
        about = {"pass": index, "position": position, **known}
        yield {"ph": "i", "cat": "verdict", "name": fate.value, "ts": at + took, "s": "t", **where, "args": about}
