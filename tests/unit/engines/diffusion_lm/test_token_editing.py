"""Token editing: filled tokens are replaced while a block fills and when it is full."""

from typing import Any

import pytest
import torch
from support.tiny_diffusion_lm import END, MASK, job

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.runtime.driver import Job
from draftscope.engines.testing.conformance import finish
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Fate


def edited_job(method: str = "editing", **values: Any) -> Job:
    return job(method, **{"threshold": 0.3, **values})


def test_edits_are_confident_and_change_something() -> None:
    confidence = torch.tensor([0.9, 0.95, 0.95])
    chosen = unmasking.edits(confidence, torch.tensor([1, 2, 3]), torch.tensor([0, 2, 0]), 0.9)
    assert chosen.tolist() == [False, False, True]


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["aligned", "shift", "full"])
@pytest.mark.parametrize("mode", ["greedy", "sample"])
def test_a_threshold_of_one_is_ordinary_decoding(kind: str, mode: str) -> None:
    off = finish(edited_job(kind=kind, edit_threshold=1.0, mode=mode, seed=1))
    plain = finish(edited_job("blockwise", kind=kind, mode=mode, rule="dynamic", steps=4, seed=1))
    assert off.output.tokens == plain.output.tokens
    assert len(off.steps) == len(plain.steps)


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["aligned", "shift", "full"])
def test_tokens_are_edited_while_a_block_fills_and_when_it_is_full(kind: str) -> None:
    trace = finish(edited_job(kind=kind, edit_threshold=0.1, mode="sample", length=32))
    repaired = [step.call.mode for step in trace.steps if Fate.EDITED in step.fate]
    assert {"draft", "edit"} <= set(repaired)
    assert MASK not in trace.output.tokens
    again = loads(dumps(trace))
    assert again.output.tokens == trace.output.tokens
    assert again.summary.forwards == len(trace.steps)


@pytest.mark.parametrize("passes", [0, 2, 16])
def test_a_full_block_is_read_until_a_pass_edits_nothing(passes: int) -> None:
    trace = finish(edited_job(edit_threshold=0.1, mode="sample", max_edit_passes=passes))
    runs: list[list[bool]] = [[]]
    for step in trace.steps:
        if step.call.mode == "edit":
            runs[-1].append(Fate.EDITED in step.fate)
        elif runs[-1]:
            runs.append([])
    assert all(len(run) <= passes and all(run[:-1]) for run in runs)
    assert all(len(run) == passes or not run[-1] for run in runs if run)
    assert any(runs) == (passes > 0)


def test_a_block_that_needs_no_repair_costs_one_more_pass() -> None:
    trace = finish(edited_job(edit_threshold=0.999))
    blocks = {step.signals["block"] for step in trace.steps}
    assert sum(step.call.mode == "edit" for step in trace.steps) == len(blocks)


def test_what_is_behind_the_end_stays_open() -> None:
    traces = [
        finish(edited_job(seed=seed, mode="sample", edit_threshold=0.5, block="8", threshold=1.0)) for seed in range(6)
    ]
    assert any(END in trace.output.tokens[:-1] for trace in traces)
    for trace in traces:
        if END in trace.output.tokens:
            before = trace.output.tokens[: trace.output.tokens.index(END)]
            assert None not in before
