"""One sequence, a batch, a stopped run: the same tokens, and traces that hold."""

import weakref
from typing import Any
from unittest.mock import patch

import pytest
import torch
from support.passes import passes
from torch import Tensor

from draftscope.engines.models.catalog import load_model
from draftscope.engines.models.sessions.block import BlockLayer
from draftscope.engines.models.sessions.causal import CacheLayer, SlotLayer
from draftscope.engines.models.toys import toy_raster
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job, RunningSequence, open_session, run_batch, run_passes, sample_tokens
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.distributions import to_probs
from draftscope.engines.testing.conformance import finish
from draftscope.engines.testing.toy_models import Table
from draftscope.traces.schema import Fate

TOY = toy_raster.load()


def job(method: str, model: Model = TOY, seed: int = 0, prompt: str = "", **values: object) -> Job:
    return RunRequest(method, model, prompt, seed=seed, settings=values).job()


COUPLINGS = [
    {"coupling": c, "initial_drafts": i}
    for c, i in (("none", "random"), ("maximal", "uniform"), ("gumbel", "repeat-left"))
]


@pytest.mark.one_quick
@pytest.mark.parametrize("coupling", ["none", "maximal", "gumbel"])
def test_a_window_of_one_is_ordinary_decoding_bit_for_bit(coupling: str) -> None:
    assert finish(job("scd", coupling=coupling, window=1)).output.tokens == finish(job("ar")).output.tokens


@pytest.mark.one_quick
@pytest.mark.parametrize("values", COUPLINGS, ids=lambda v: v["coupling"])
def test_every_iteration_keeps_its_bounds(values: dict[str, object]) -> None:
    trace = finish(job("scd", window=9, **values))
    done = 0
    for step in trace.steps:
        final = [p for p, fate in zip(step.position, step.fate, strict=True) if fate.final]
        assert final == list(range(done, done + len(final)))  # a prefix, contiguous, from where the last one ended
        assert 1 <= len(final) <= 9
        assert step.position == tuple(range(done, done + len(step.position)))
        assert all(q is None or q > 0 for q in step.q)  # every draft could have been drawn
        drafts = sum(draft is not None for draft in step.draft or ())
        assert step.call.query_tokens == drafts + (done > 0)  # the last final token leads the drafts
        done += len(final)
    assert done == 256
    assert 256 / 9 <= len(trace.steps) <= 256


@pytest.mark.parametrize("values", COUPLINGS, ids=lambda v: v["coupling"])
def test_a_survivors_distribution_is_the_one_that_just_judged_it(values: dict[str, object]) -> None:
    """Catches a stale q at once: q of a draft equals the p its position had an iteration before."""
    run_job = job("scd", window=9, **values)
    before: dict[int, Tensor] = {}
    checked = 0
    for _, probs, decision in passes(run_job):
        for i, position in enumerate(decision.position[: len(decision.draft)].tolist()):
            if decision.resolve().measures["age"][i] > 0:
                assert torch.equal(decision.q[i], before[position])
                checked += 1
        before = {p: probs[i] for i, p in enumerate(decision.position.tolist())}
    assert checked > 200


def test_independent_positions_accept_every_seasoned_draft() -> None:
    trace = finish(job("scd", Table(6, 3, 0, free=True), window=5, coupling="maximal"))
    for step in trace.steps:
        for fate, age in zip(step.fate, step.numbers["age"], strict=True):
            assert not (fate is Fate.RESAMPLED and age)


def test_attention_on_a_gpu_makes_no_plan_for_every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", flags.append)
    one = job("scd")
    session = open_session([one])
    assert flags == []
    monkeypatch.setattr(one.model, "device", torch.device("cuda"))
    monkeypatch.setattr(type(one.model), "open_session", lambda *_: session)
    assert open_session([one]) is session and flags == [False]


def test_jobs_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="one model and one config"):
        run_batch([job("scd"), job("scd", window=8)])


@pytest.mark.one_quick
@pytest.mark.parametrize("guidance", [1.0, 2.5])
def test_cached_equals_uncached_through_rollbacks(guidance: float) -> None:
    model: Any = load_model("studio-image-draft")
    run_job = job("scd", model, prompt="an owl at night", window=12, guidance=guidance)
    prefixes = model.open_session([run_job.task], guidance != 1)._prefixes[0]
    for request, probs, _ in passes(run_job):
        ids = torch.cat([prefixes, request.tokens.expand(len(prefixes), -1)], 1)
        with torch.inference_mode():
            logits = model.network(ids, torch.arange(ids.shape[1]).expand_as(ids))[
                :, prefixes.shape[1] - 1 + request.num_final :
            ]
        torch.testing.assert_close(probs.log(), to_probs(logits, run_job.config).log(), rtol=0, atol=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "method", "model", "values"),
    [
        (SlotLayer, "scd", "studio-image-draft", {"window": 16, "guidance": 2.0}),
        (BlockLayer, "blockwise", "text-draft", {"length": 48}),
    ],
)
def test_a_batch_is_compacted_when_sequences_end(
    layer: type[CacheLayer], method: str, model: str, values: dict[str, object]
) -> None:
    prompts = ("in the snow", "a cat", "an owl at night")
    jobs = [job(method, load_model(model), seed, prompt, **values) for seed, prompt in enumerate(prompts)]
    sequences, alone = [RunningSequence(one.decoder()) for one in jobs], [sample_tokens([one])[0] for one in jobs]
    with patch.object(layer, "update", autospec=True, side_effect=layer.update) as update:
        batches = [len(took_part) for took_part in run_passes(sequences, open_session(jobs), jobs[0].config)]
    assert [sequence.result[0].tolist() for sequence in sequences] == alone
    assert {3, 2, 1} == {*batches} and batches == sorted(batches, reverse=True)
    computed, layers = [len(call.args[1]) for call in update.mock_calls], update.call_count // len(batches)
    assert computed == [batch * (1 + jobs[0].config.uses_guidance) for batch in batches for _ in range(layers)]


@pytest.mark.parametrize(("method", "model_id"), [("ar", "studio-image"), ("blockwise", "text-target")])
def test_a_session_goes_with_its_last_user_and_waits_for_no_garbage_collection(method: str, model_id: str) -> None:
    session = weakref.ref(open_session([RunRequest(method, load_model(model_id)).job()]))
    assert session() is None
