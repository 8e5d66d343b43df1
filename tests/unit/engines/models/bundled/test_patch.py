"""Transformers over continuous tokens at toy size: caches, heads, guidance, and MAR's stacked rows."""

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL
from support.passes import passes
from torch import Tensor

from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled.image_networks import TransformerSize
from draftscope.engines.models.bundled.patch import (
    PREFIX,
    SIZES,
    WIDTH,
    MaskedPatch,
    MaskedPatchTransformer,
    PatchTokenizer,
    PatchTransformer,
    StudioPatch,
    condition_vectors,
)
from draftscope.engines.models.checkpoints.images.mar import MAR, MARModel, MARSize
from draftscope.engines.models.sessions.denoising import _Rows
from draftscope.engines.runtime.driver import Job, RunningSequence, make_trace, open_session, run_passes
from draftscope.engines.settings import ConfigError, make_config, settings
from draftscope.traces import dumps, loads
from draftscope.traces.labels import is_baseline, method_name
from draftscope.traces.schema import ModelCard, Trace

CPU = torch.device("cpu")
QUICK = {"steps": 3, "last_timestep": 200, "gamma": 6, "prefill_share": 0.0}


def awake(network: torch.nn.Module, seed: int) -> Any:
    """Random weights with opinions, also where training starts from zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5 / parameter.shape[-1] ** 0.5)
    return network.eval()


@cache
def patch(seed: int = 0, kind: str = "draft") -> StudioPatch:
    size = replace(SIZES[kind], trunk=TransformerSize(32, 2, 2, 48), head_width=24, head_depth=1)
    model, transformer = (MaskedPatch, MaskedPatchTransformer) if kind == "masked" else (StudioPatch, PatchTransformer)
    return model(PatchTokenizer().eval(), awake(transformer(size), seed), ModelCard(id=f"{kind}-{seed}"), CPU)


@cache
def mar(seed: int = 0) -> MARModel:
    network = awake(
        MAR(MARSize(side=3, token=4, width=16, depth=2, heads=2, buffer=4, head_width=16, head_depth=1)), seed
    )
    autoencoder = awake(AutoencoderKL(block_out_channels=(32,), latent_channels=4), seed)
    return MARModel(network, autoencoder, ModelCard(id=f"mar-{seed}"), CPU)


def job(model: Any, prompt: str, method: str = "cspd", small: Any = None, seed: int = 0, **values: object) -> Job:
    names = {setting.name for setting in settings(METHODS[method].config)}
    known = {k: value for k, value in (QUICK | values).items() if k in names}
    return Job(METHODS[method], model, prompt, make_config(METHODS[method].config, known), seed, 0, small)


def finish(a_job: Job, passes: int = 1000) -> Trace:
    return together([a_job], passes)[0]


def together(jobs: list[Job], passes: int = 1000) -> list[Trace]:
    """Traces of jobs in lockstep, stopped after some passes."""
    sequences = [RunningSequence(one.decoder()) for one in jobs]
    for _ in islice(run_passes(sequences, open_session(jobs), jobs[0].config), passes):
        pass
    return [make_trace(one, sequence) for one, sequence in zip(jobs, sequences, strict=True)]


def values(trace: Trace) -> Tensor:
    return torch.tensor([token for token in trace.output.tokens if token is not None])


PROMPT = "an owl in the forest"


@pytest.mark.parametrize("method", ["cspd", "cspd-block", "cspd-release"])
@pytest.mark.parametrize("guidance", [1.0, 2.5])
def test_cached_equals_uncached_through_rollbacks(guidance: float, method: str) -> None:
    run_job = job(patch(0), PROMPT, method, patch(1), guidance=guidance)
    models = {"target": patch(0), "draft": patch(1)}
    sessions = {role: model.open_session([run_job.task], guidance != 1) for role, model in models.items()}
    networks = {role: model.network for role, model in models.items()}
    labels = torch.tensor([run_job.task.conditions, (-1, -1)][: 1 + (guidance != 1)])
    for request, _, _ in islice(passes(run_job), 25):
        conditions = sessions[request.role].conditions({0: request})
        inputs = torch.cat([condition_vectors(labels), request.tokens.float().expand(len(labels), -1, -1)], 1)
        positions = torch.arange(inputs.shape[1]).expand(len(labels), -1)
        with torch.inference_mode():
            fresh = networks[request.role](inputs, positions)[:, PREFIX - 1 + request.num_final :][
                :, : request.num_requested
            ]
        torch.testing.assert_close(conditions[0], fresh, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_sequences_of_different_lengths_do_not_disturb_each_other() -> None:
    prompts = (PROMPT, "a taxi at sunset", "a bus")
    jobs = [job(patch(0), prompt, small=patch(1), seed=i, gamma=3) for i, prompt in enumerate(prompts)]
    for trace, one in zip(together(jobs, 20), jobs, strict=True):
        alone = finish(one, 20)
        torch.testing.assert_close(values(trace), values(alone), atol=1e-3, rtol=1e-3)
        assert len(values(trace)) > 2


@pytest.mark.parametrize(("kind", "method"), [("draft", "cspd"), ("draft", "cspd-block"), ("mixture", "cspd")])
def test_every_head_decodes_and_a_model_that_drafts_for_itself_is_hardly_rejected(kind: str, method: str) -> None:
    trace = finish(job(patch(0, kind), PROMPT, method, drafter="itself", gamma=5), 18)
    assert trace.summary.acceptance > 0.9  # a pass over many tokens rounds otherwise than passes over one
    assert values(trace).shape[1] == WIDTH
    assert loads(dumps(trace)) == trace


def test_a_mixture_is_verified_by_another_mixture() -> None:
    trace = finish(job(patch(0, "mixture"), PROMPT, small=patch(3, "mixture"), gamma=3), 40)
    assert 0 < trace.summary.accepted < trace.summary.judged


def test_guidance_mixes_the_noise_estimates_alone() -> None:
    model = patch(0)
    run_job = job(model, PROMPT, "continuous")
    session = model.open_session([model.make_task(PROMPT, run_job.config)], guided=True)
    noise = torch.randn(1, 3, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    empty = torch.zeros(0, WIDTH, dtype=torch.float64)
    request = PathRequest(empty, 0, 0, noise, torch.tensor([2.5], dtype=torch.float64))
    condition = session.conditions({0: request})[0]
    x, schedule = noise[:, 0].float(), run_job.config.schedule
    with torch.inference_mode():
        head = model.network.head
        (eps_c, v_c), (eps_u, _) = (head.lean()(condition[row], schedule)(x, schedule, 2) for row in (0, 1))
        eps, v = _Rows(session._head, condition, request.guidance, run_job.config).all_rows(x, schedule, 2)
    torch.testing.assert_close(eps, eps_u + 2.5 * (eps_c - eps_u))
    torch.testing.assert_close(v, v_c)
    assert not torch.equal(eps_c, eps_u)


@pytest.mark.parametrize("method", ["cspd", "cspd-block"])
def test_a_mar_that_drafts_for_itself_keeps_everything(method: str) -> None:
    trace = finish(job(mar(0), "7", method, drafter="itself", gamma=2))
    assert trace.summary.acceptance == pytest.approx(1, abs=0.15)
    plain = finish(job(mar(0), "7", "continuous"))
    torch.testing.assert_close(
        torch.tensor(trace.output.tokens), torch.tensor(plain.output.tokens), atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize("parallel", [1, 5])
def test_tokens_of_a_step_see_what_was_there_before_it_and_nothing_else(parallel: int) -> None:
    model = patch(0, "masked")
    run_job = job(model, PROMPT, "continuous", tokens_per_step=parallel, guidance=2.0)
    session = model.open_session([run_job.task], True)
    network, order = MaskedPatchTransformer.forward, torch.tensor(run_job.task.canvas.order)
    labels = torch.tensor([run_job.task.conditions, (-1, -1)])
    for begun, (request, _, _) in zip(range(0, 4 * parallel, parallel), passes(run_job), strict=False):
        conditions, drawn = session.conditions({0: request})[0], order[begun : begun + parallel]
        tokens = torch.full((2, len(order), WIDTH), 99.0)  # these must not be visible
        tokens[:, order[:begun]] = request.tokens[:begun].float()
        visible = torch.zeros(2, len(order), dtype=torch.bool)
        visible[:, order[:begun]] = True
        with torch.inference_mode():
            alone = network(model.network, tokens, visible, labels)[:, drawn]
        torch.testing.assert_close(conditions, alone, atol=1e-5, rtol=1e-5)


def test_masked_generation_takes_a_pass_for_several_tokens_and_is_said_to_be_lossy() -> None:
    trace = finish(job(patch(0, "masked"), PROMPT, "continuous", tokens_per_step=10))
    assert trace.summary.forwards == 15  # of 144 tokens
    assert "Lossy: the tokens of a step are drawn without seeing each other." in trace.note
    assert method_name(trace) == "Masked generation"
    assert not is_baseline(trace)
    assert sorted(trace.canvas.order or ()) == list(range(144))
    assert loads(dumps(trace)) == trace


def test_a_causal_model_refuses_several_tokens_per_step() -> None:
    with pytest.raises(ConfigError, match="tokens_per_step: 10 tokens per step need a model that decodes in any order"):
        finish(job(patch(0), PROMPT, "continuous", tokens_per_step=10))


def test_pictures_of_any_order_lie_as_those_in_raster_order() -> None:
    tokens = torch.randn(1, 144, WIDTH, generator=torch.Generator().manual_seed(1))
    masked, causal = patch(0, "masked"), patch(0)
    masked._autoencoder.load_state_dict(causal._autoencoder.state_dict())
    torch.testing.assert_close(masked.pixels(tokens[:, masked.sequence]), causal.pixels(tokens))


def test_every_prefix_is_a_row_of_a_masked_model_that_drafts_for_itself() -> None:
    run_job = job(patch(0, "masked"), PROMPT, "cspd", drafter="itself", gamma=3)
    trace = finish(run_job, 16)
    assert trace.summary.acceptance == pytest.approx(1, abs=0.1)
    assert {step.call.rows for step in trace.steps if step.call.mode == "verify"} == {4}
