"""Block-wise decoding of diffusion language models: masks, caches, the grid of blocks, and tokens that are edited."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.passes import WholeTexts, passes
from support.tiny_diffusion_lm import END, MASK, TinyLM, job, tiny_diffusion_lm

from draftscope.engines.diffusion_lm import masks, unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask
from draftscope.engines.runtime.driver import open_session, run_batch, sample_tokens
from draftscope.engines.testing.conformance import finish
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Canvas, Fate

KINDS = ["aligned", "shift", "full"]
REFUSED = {"s2d2": ("full",), "simsd": ("full", "shift")}


def test_runs_begin_with_what_may_not_be_seen() -> None:
    seen = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    assert masks.run_lengths(seen) == ((0, 2, 1, 1), (4,), (1, 3), (0, 4), (3, 1))
    assert masks.run_lengths(seen[:1]) == ((0, 2, 1, 1),)


def test_policies_break_ties_by_position_and_always_choose() -> None:
    confidence = torch.tensor([0.5, 0.9, 0.9, 0.2])
    assert unmasking.top_confident(confidence, 1).tolist() == [False, True, False, False]
    positions = torch.arange(4)
    above = unmasking.above_threshold(confidence, positions, 0.95)
    assert unmasking.above_threshold(confidence, positions, 0.9).tolist() == [False, True, True, False]
    assert unmasking.at_least_one(above, confidence).tolist() == [False, True, False, False]
    assert unmasking.dynamic(confidence, 0.4, 2).tolist() == [True, True, True, False]
    assert unmasking.dynamic(confidence, 0.4, 4).tolist() == [True] * 4
    assert [unmasking.schedule(8, 3, num_revealed) for num_revealed in range(3)] == [3, 3, 2]


def on_every_kind(cases: Sequence[tuple[str, dict[str, object]]]) -> list[tuple[str, str, dict[str, object]]]:
    """The cases on models of every kind that their methods take."""
    return [(kind, *case) for kind in KINDS for case in cases if kind not in REFUSED.get(case[0], ())]


LONG: dict[str, object] = {"block": "8", "length": 24, "temperature": 0.35}
CACHED: list[tuple[str, dict[str, object]]] = [
    *(("blockwise", {"block": size, "mode": "sample", "threshold": 0.3}) for size in "1248"),
    *((method, LONG) for method in ("psd", "lopa", "fdm-style", "ete-style")),
    ("psd", {**LONG, "policy": "greedy", "row_cost": 0.1}),
    *(("simsd", {"verifier": verifier, "mode": "sample", "verdict": "ratio"}) for verifier in ("eq1", "exact", "2L")),
    ("s2d2", {"ar_cache": False}),
]


@pytest.mark.one_quick
@pytest.mark.parametrize(("kind", "method", "values"), on_every_kind(CACHED), ids=str)
def test_rows_behind_a_cache_equal_rows_of_whole_texts(kind: str, method: str, values: dict[str, object]) -> None:
    run_job = job(method, kind, model=tiny_diffusion_lm(kind, seed=int(kind == "shift")), **values)
    models: dict[str, Any] = {"self": run_job.model, "target": run_job.model, "draft": run_job.drafter}
    whole_texts = {
        role: WholeTexts(model.everything, MASK, int(run_job.config.block)) for role, model in models.items()
    }
    max_error, count = 0, 0
    for request, probs, _ in passes(run_job):
        expected = whole_texts[request.role](request, run_job.config.temperature)
        if request.ahead:  # outputs of other rows for the next block are not used
            expected[:-1, -request.ahead :] = probs[:-1, -request.ahead :]
        torch.testing.assert_close(probs.log(), expected.log(), rtol=0, atol=3e-4)
        max_error, count = max(max_error, len(request.tokens)), count + 1
    assert count > 1
    assert (max_error > 1) == (method in ("psd", "lopa", "fdm-style") or values.get("verifier") == "exact")


DRAWN: dict[str, object] = {"mode": "sample", "verdict": "ratio"}
TOGETHER: list[tuple[str, dict[str, object]]] = [
    *(("blockwise", {"rule": r, "steps": 2, "mode": "sample"}) for r in ("confidence", "greedy", "static", "dynamic")),
    *(
        ("s2d2", v)
        for v in (DRAWN, {"router": "bandit", "estimator": "random"}, {"router": "span", "edit_threshold": 0.2})
    ),
    ("simsd", DRAWN),
    *(("psd", LONG | {"policy": "greedy", "row_cost": cost}) for cost in (0.0, 0.1)),
    *((method, LONG) for method in ("lopa", "ete-style", "fdm-style")),
]


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("kind", "method", "values"),
    [pytest.param(*case, marks=[pytest.mark.nightly] if case[0] == "full" else []) for case in on_every_kind(TOGETHER)],
    ids=str,
)
def test_sequences_of_a_batch_do_not_disturb_each_other(kind: str, method: str, values: dict[str, object]) -> None:
    jobs = [job(method, kind, "abc" * (i + 1), seed=i, **values) for i in range(3)]
    for trace, one, tokens in zip(run_batch(jobs), jobs, sample_tokens(jobs), strict=True):
        alone = finish(one)
        assert trace.output.tokens == alone.output.tokens
        assert tokens == [MASK if token is None else token for token in alone.output.tokens]
        assert dumps(loads(dumps(alone))) == dumps(alone) and alone.summary.complete


def test_the_schedule_reveals_what_it_says() -> None:
    trace = finish(job(prompt="abcd", rule="static", steps=2, block="8"))
    full = [step for step in trace.steps if step.signals["open"] == 8]  # the first block has 3 open positions
    assert full
    assert all(step.signals["committed"] == 4 for step in full)


def test_a_step_reveals_all_confident_tokens_or_the_best_one() -> None:
    trace = finish(job(threshold=0.4, mode="greedy"))
    assert {fate for step in trace.steps for fate in step.fate} <= {Fate.UNMASKED, Fate.FALLBACK, Fate.DRAFTED}
    for step in trace.steps:
        sure = [c >= 0.4 for c in step.numbers["confidence"] if c is not None]
        final = [fate.final for fate in step.fate]
        assert final == sure if any(sure) else sum(final) == 1


@pytest.mark.parametrize("prompt", ["abc", "abcdefgh"])
def test_a_block_larger_than_the_answer_is_recorded_as_far_as_it_goes(prompt: str) -> None:
    known: Any = tiny_diffusion_lm()
    model = TinyLM(known.network, known._tokenizer, replace(known.kind, sizes=()), known.card, known.device)
    canvas = loads(dumps(finish(job(prompt=prompt, model=model, block="32", length=8)))).canvas
    offset = len(prompt) + 1  # with the line break after it
    assert canvas == Canvas(kind="text", shape=(8,), block=8 + offset, block_offset=offset)


def test_decoding_stops_at_an_end_with_nothing_open_before_it() -> None:
    task = TextTask(
        Canvas(kind="text", shape=(6,)), 9, torch.device("cpu"), prompt_ids=(3, 4), mask=MASK, eos_token_ids=(END,)
    )
    row = BlockSequence(task, 4)
    assert row.next_block(torch.tensor([5, 6])).tolist() == [4, 5, 6, 7]
    assert not len(row.next_block(torch.tensor([5, END])))
    assert not len(BlockSequence(replace(task, causal=True), 4).next_block(torch.tensor([5, 6])))
    row.fill([4], [END])
    assert not row.ended
    row.fill([2, 3], [5, 6])
    assert row.ended


def test_a_prompt_without_room_is_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="prompt: the prompt has 301 tokens"):
        open_session([job(prompt="a" * 300)])
