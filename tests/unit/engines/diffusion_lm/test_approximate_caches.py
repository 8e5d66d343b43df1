"""Approximate caches of bidirectional models and of sub-blocks: what they feed, and how far off what comes out is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support import tiny_text_checkpoints as checkpoints
from support.passes import passes
from support.tiny_text_checkpoints import Memory, job, write
from torch import Tensor

from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.models import loading
from draftscope.engines.runtime.driver import Job, Run
from draftscope.traces.schema import Fate

LENGTH = 16
SETTINGS: dict[str, Any] = {"block": "8", "threshold": 0.4}
FINAL = [code for code, fate in enumerate(Fate) if fate.final]


@dataclass(frozen=True)
class Step:
    request: BlockRequest
    row: Tensor
    """The text before the pass, masks included."""
    probs: Tensor
    open: list[int]
    """Requested positions."""


def steps(job: Job) -> Iterator[Step]:
    """A run pass by pass."""
    task: Any = job.task
    row = torch.tensor([*task.prompt_ids, *[task.mask] * LENGTH])
    for request, probs, decision in passes(job):
        where = decision.position + len(task.prompt_ids)
        yield Step(request, row.clone(), probs, where.tolist())
        final = torch.isin(decision.resolve().fate, torch.tensor(FINAL))
        row[where[final]] = decision.token[final]


def distributions(family: str, job: Job, request: BlockRequest, memory: Memory) -> Tensor:
    """Return the distributions of an independent forward pass with a given memory."""
    task: Any = job.task
    fed = len(request.position)
    seen = torch.cat([torch.ones(fed, len(memory.seen)).bool(), request.attention_mask], 1)
    logits = checkpoints.forward(family, request.tokens[0], request.position, seen, memory)[
        request.output_index, : task.vocab_size
    ]
    logits[:, task.mask] = -torch.inf
    return logits.softmax(-1)


CACHES: list[tuple[str, dict[str, object]]] = [
    (family, {"cache": cache}) for family in ("llada", "Dream") for cache in ("prefix", "dual", "delayed")
]
SUB_BLOCKS = ("Fast_dLLM_Qwen", {"cache": "dual", "sub_block": "4"})


@pytest.mark.one_quick
@pytest.mark.parametrize(("family", "values"), [*CACHES, SUB_BLOCKS])
def test_a_stale_cache_equals_a_forward_with_that_memory(
    tmp_path: Path, family: str, values: dict[str, object]
) -> None:
    stale_job = job(loading.load(write(tmp_path / "it", family)), **SETTINGS | values, refresh=4)
    memory: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    worst, less, passes = 0.0, 0, 0
    for step in steps(stale_job):
        request = step.request
        past = (
            range(request.finished) if request.cache_mask is None else request.cache_mask.nonzero().squeeze(1).tolist()
        )
        expected = distributions(family, stale_job, request, Memory(memory, list(past), request.num_to_cache))
        worst, passes = max(worst, float((expected - step.probs).abs().max())), passes + 1
        less += len(request.position) < len(step.row) if family != "Fast_dLLM_Qwen" else len(request.position) == 4
    assert worst < 1e-5
    assert less > passes / (4 if family == "Fast_dLLM_Qwen" else 3), "many passes feed less"


@pytest.mark.parametrize("family", ["llada", "Dream"])
def test_what_each_cache_feeds_and_what_it_has_stored(tmp_path: Path, family: str) -> None:
    model, shift = loading.load(write(tmp_path / "it", family)), family == "Dream"
    cached_job = job(model, **SETTINGS)
    first, end = len(cached_job.task.prompt_ids), len(cached_job.task.prompt_ids) + LENGTH
    for cache in ("prefix", "dual"):
        begun: set[int] = set()
        for step in steps(job(model, **SETTINGS, cache=cache)):
            start = first + (step.open[0] - first) // 8 * 8
            stop = end if cache == "prefix" else start + 8
            fed = range(end) if start not in begun else range(start, stop)
            assert step.request.position.tolist() == list(fed)
            begun.add(start)
        assert len(begun) == 2
    stored: set[int] = set()
    for number, step in enumerate(steps(job(model, **SETTINGS, cache="delayed", refresh=4))):
        stored = set() if number % 4 == 0 else stored
        again = {i - 1 for i in step.open} if shift else set()
        assert set(step.request.position.tolist()) == (set(range(end)) - stored) | again
        stored = set((step.row != cast(Any, cached_job.task).mask).nonzero().squeeze(1).tolist())
        assert set(step.request.position[: step.request.num_to_cache].tolist()) <= stored


@pytest.mark.parametrize("family", ["llada", "Dream"])
def test_feeding_all_again_in_every_pass_is_exact(tmp_path: Path, family: str) -> None:
    model = loading.load(write(tmp_path / "it", family))
    runs = [Run(job(model, **SETTINGS, **values)) for values in ({}, {"cache": "delayed", "refresh": 1})]
    for run in runs:
        assert len(list(run)) > 3
    exact, again = (run.trace() for run in runs)
    assert exact.output.tokens == again.output.tokens and len(exact.steps) == len(again.steps)
    assert exact.note and "approximate" not in exact.note and "an approximate cache" in again.note
