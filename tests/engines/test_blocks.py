"""Block-wise decoding of diffusion language models: masks, caches, the grid of blocks, and ordinary decoding."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from support.language import END, MASK, TinyLM, tiny
from torch import Tensor

from engines.config import ConfigError, make_config
from engines.diffusion_lm import masks, unmasking
from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import Row, TextTask
from engines.methods import blockwise
from engines.methods.method import Method, lossless
from engines.runtime.driver import Job, Run, open_session, run_batch, sample_tokens
from traces import dumps, loads
from traces.schema import Canvas, Fate, Trace

PROMPT = "abcde"
BLOCKWISE = Method(
    "blockwise", "Block diffusion decoding", "diffusion-lm", blockwise.Config, blockwise.decode, "", "", lossless
)


def job(prompt: str = PROMPT, seed: int = 0, model: Any = None, **values: object) -> Job:
    method = BLOCKWISE
    settings = {"block": "4", "length": 16, **values}
    return Job(method, cast(Any, model or tiny()), prompt, make_config(method.config, settings), seed)


def finish(asked: Job) -> Trace:
    run = Run(asked)
    for _ in run:
        pass
    return run.trace()


def test_block_causal_of_size_one_is_causal() -> None:
    assert masks.block_causal(torch.arange(4), 1).equal(torch.ones(4, 4).tril().bool())


def test_the_verifier_is_causal_over_filled_tokens_and_its_copies_see_only_what_is_before() -> None:
    seen = masks.verifier(4, 2)
    assert seen[:4, :4].equal(torch.ones(4, 4).tril().bool())
    assert not seen[:4, 4:].any()
    assert seen[4:].int().tolist() == [[1, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1]]


def test_under_the_temporal_mask_every_row_sees_each_position_once() -> None:
    order = torch.tensor([2, 0, 3, 1])
    seen = masks.temporal(order)
    assert (seen[:, :4].int() + seen[:, 4:].int()).eq(1).all()
    identity = masks.temporal(torch.arange(4))
    lower = torch.ones(4, 4).tril().bool()
    assert identity[:4, :4].equal(lower)
    assert identity[:4, 4:].equal(~lower)
    assert identity[4:, :4].equal(torch.ones(4, 4).tril(-1).bool())
    assert identity[4:, 4:].equal(torch.ones(4, 4).triu().bool())


def test_runs_begin_with_what_may_not_be_seen() -> None:
    seen = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    assert masks.runs(seen) == ((0, 2, 1, 1), (4,), (1, 3), (0, 4), (3, 1))
    assert masks.runs(seen[:1]) == ((0, 2, 1, 1),)


def test_policies_break_ties_by_position_and_always_choose() -> None:
    confidence = torch.tensor([0.5, 0.9, 0.9, 0.2])
    assert unmasking.most_confident(confidence, 1).tolist() == [False, True, False, False]
    place = torch.arange(4)
    above = unmasking.confident(confidence, place, 0.95)
    assert unmasking.confident(confidence, place, 0.9).tolist() == [False, True, True, False]
    assert unmasking.at_least_one(above, confidence).tolist() == [False, True, False, False]
    assert unmasking.dynamic(confidence, 0.4, 2).tolist() == [True, True, True, False]
    assert unmasking.dynamic(confidence, 0.4, 4).tolist() == [True] * 4
    assert [unmasking.schedule(8, 3, taken) for taken in range(3)] == [3, 3, 2]


class Uncached:
    """The same distributions from the whole row every time, under an explicit mask, nothing kept between calls."""

    rows, prefix = 1, 0

    def __init__(self, model: Any, task: TextTask, size: int) -> None:
        self._model, self._size = model, size
        self._finished = torch.empty(0, dtype=torch.long)

    def logits(self, requests: Any) -> Tensor:
        (request,) = requests.values()
        assert isinstance(request, BlockForward)
        past = self._finished[: request.finished]
        ids = torch.cat([past, request.tokens[0]])
        position = torch.cat([torch.arange(len(past)), request.position])
        seen = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        seen[: len(past), : len(past)] = masks.block_causal(torch.arange(len(past)), self._size)
        seen[len(past) :, : len(past)] = True
        seen[len(past) :, len(past) :] = request.seen
        out = self._model.everything(ids, position, seen)[len(past) + request.read]
        self._finished = torch.cat([past, request.tokens[0, : request.keep]])
        out[..., MASK] = -torch.inf
        return cast(Tensor, out[None, None, None])


@pytest.mark.parametrize("size", ["1", "2", "4", "8"])
@pytest.mark.parametrize("kind", ["aligned", "shift", "full"])
def test_cached_equals_uncached(size: str, kind: str) -> None:
    asked = job(model=tiny(kind), block=size, mode="sample", threshold=0.3)
    cached, uncached = open_session([asked]), Uncached(asked.model, cast(TextTask, asked.task), int(size))
    decoder = asked.decoder()
    answer: Any = None
    worst = 0.0
    while True:
        try:
            request = decoder.send(answer)
        except StopIteration:
            break
        fast, slow = cached.logits({0: request}), uncached.logits({0: request})
        finite = slow.isfinite()
        assert fast.isfinite().equal(finite)
        worst = max(worst, float((fast - slow)[finite].abs().max()))
        decision: Any = decoder.send(cast(BlockForward, request).cut(fast[0, :, 0].double().softmax(-1)))
        answer = tuple(int(value) for value in decision.readback)
    assert worst < 1e-4


@pytest.mark.parametrize("kind", ["aligned", "shift"])
def test_block_size_one_is_autoregressive_decoding_in_one_pass_a_token(kind: str) -> None:
    model: Any = tiny(kind)
    asked = job(model=model, block="1")
    trace = finish(asked)
    ids = list(cast(TextTask, asked.task).prompt)
    for token in trace.output.tokens:
        if token is None:
            break
        fed = torch.tensor(ids if kind == "shift" else [*ids, MASK])
        count = len(fed)
        logits = model.everything(fed, torch.arange(count), torch.ones(count, count).tril().bool())[-1]
        logits[MASK] = -torch.inf
        assert token == int(logits.argmax())
        ids.append(token)
    assert len(trace.steps) == trace.summary.tokens


@pytest.mark.parametrize("kind", ["aligned", "shift", "full"])
@pytest.mark.parametrize("rule", ["confidence", "greedy", "static", "dynamic"])
def test_lanes_of_different_prompts_do_not_disturb_each_other(kind: str, rule: str) -> None:
    model = tiny(kind)
    jobs = [job("abc" * (i + 1), seed=i, model=model, rule=rule, steps=2, mode="sample") for i in range(3)]
    for trace, alone in zip(run_batch(jobs), map(finish, jobs), strict=True):
        assert trace.output.tokens == alone.output.tokens
    assert sample_tokens(jobs[:1])[0] == [MASK if token is None else token for token in finish(jobs[0]).output.tokens]


def test_the_schedule_reveals_what_it_says() -> None:
    trace = finish(job("abcd", rule="static", steps=2, block="8"))  # blocks of 8 from 0: the first has 3 open positions
    full = [step for step in trace.steps if step.signals["open"] == 8]
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
    known: Any = tiny()
    model = TinyLM(known._network, known._tokenizer, replace(known.kind, sizes=()), known.card, known.device)
    canvas = loads(dumps(finish(job(prompt, model=model, block="32", length=8)))).canvas
    offset = len(prompt) + 1  # with the line break behind it
    assert canvas == Canvas(kind="text", shape=(8,), block=8 + offset, block_offset=offset)


def test_decoding_stops_at_an_end_with_nothing_open_before_it() -> None:
    task = TextTask(Canvas(kind="text", shape=(6,)), 9, torch.device("cpu"), prompt=(3, 4), mask=MASK, ends=(END,))
    row = Row(task, 4)
    row.fill([4], [END])
    assert not row.ended
    row.fill([2, 3], [5, 6])
    assert row.ended


@pytest.mark.parametrize(
    ("values", "prompt", "said"),
    [
        ({}, " ", "prompt: is empty"),
        ({}, "a" * 300, "prompt: has 301 tokens"),
        ({"block": "3"}, PROMPT, "block: '3' is not allowed"),
        ({"block": "16"}, PROMPT, "block: tiny knows no blocks of 16"),
        ({"rule": "static", "steps": 8}, PROMPT, "steps: 8 is more than a block of 4"),
    ],
)
def test_bad_settings_are_refused_before_any_work(values: dict[str, object], prompt: str, said: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=said):
        open_session([job(prompt, **values)])
