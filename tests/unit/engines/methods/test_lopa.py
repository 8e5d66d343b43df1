"""LoPA, ETE-style and FDM-style decoding: by confidence in their limits, by their own rules elsewhere."""

from itertools import pairwise
from typing import Any, cast

import pytest
import torch
from support.passes import passes
from support.tiny_diffusion_lm import tiny_diffusion_lm

from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Fate, Trace

KINDS = ["aligned", "shift", "full"]
LIMITS: dict[str, dict[str, object]] = {
    "lopa": {"k": 0},
    "ete-style": {"k": 1, "explore": False},
    "fdm-style": {"k": 1},
}


def job(method: str, kind: str = "aligned", prompt: str = "abcde", **values: object) -> Job:
    shared = {"block": "8", "length": 24, "temperature": 0.35}
    return RunRequest(method, tiny_diffusion_lm(kind), prompt, settings=shared | values).job()


def final(trace: Trace) -> list[dict[int, Any]]:
    return [
        {p: t for p, t, fate in zip(step.position, step.token, step.fate, strict=True) if fate.final}
        for step in trace.steps
    ]


@pytest.mark.one_quick
@pytest.mark.parametrize("method", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_decoding_by_confidence_and_every_pass_settles_something(kind: str, method: str) -> None:
    assert final(finish(job(method, kind, **LIMITS[method]))) == final(finish(job("blockwise", kind, threshold=0.9)))
    steps = finish(job(method, kind, "abcabc")).steps
    assert all(any(fate.final for fate in step.fate) for step in steps if step.call.mode != "draft")


def open_in(request: Any, mask: int) -> torch.Tensor:
    return request.tokens[:, request.output_index] == mask


def test_the_branch_with_the_surest_rest_wins() -> None:
    run_job = job("lopa", k=3)
    mask = cast(Any, run_job.task).mask
    compared = 0
    for request, probs, decision in passes(run_job):
        probs = probs.view(*request.tokens.shape[:1], len(request.output_index), -1)
        still = open_in(request, mask)
        means = [
            float(row.amax(-1)[left].mean()) if left.any() else 1.0 for row, left in zip(probs, still, strict=True)
        ]
        assert int(decision.step_measures["winner"]) == means.index(max(means))
        compared += len(means) > 1
    assert compared > 3


def test_a_row_that_won_is_not_asked_for_again() -> None:
    trace = finish(job("fdm-style", "full", k=3, tau=0.95))
    modes = [step.call.mode for step in trace.steps]
    assert ("lookahead", "lookahead") in pairwise(modes)
    assert max(step.call.rows for step in trace.steps) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_of_blocks_is_seen_and_blocks_finish_in_order(kind: str) -> None:
    trace = finish(job("ete-style", kind, k=3, tau=0.3))
    blocks = [step.signals["block"] for step in trace.steps]
    assert blocks == sorted(blocks)
    beyond = [
        position
        for step in trace.steps
        for position, fate in zip(step.position, step.fate, strict=True)
        if fate is Fate.UNMASKED and (position + trace.canvas.block_offset) // 8 > step.signals["block"]
    ]
    assert beyond
