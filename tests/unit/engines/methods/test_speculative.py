"""Speculative decoding: its distribution by enumeration, its drafters, adaptive drafts, ends of texts, bad input."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.passes import passes
from support.tiny_diffusion_lm import tiny_diffusion_lm
from torch import Tensor

from benchmarks._toy_runs import decode_toy_raster
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.methods import METHODS, speculative
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import Job, Run
from draftscope.engines.settings import ConfigError, make_config
from draftscope.engines.testing.enumeration import by_role, exact_distribution, largest_error
from draftscope.engines.testing.toy_models import Table
from draftscope.traces import Fate, check
from draftscope.traces.replay import state_after

EXACT = 1e-12


def enumerated(
    target: Table, small: Table, ends: tuple[int, ...] = (), method: str = "speculative", **values: object
) -> dict[Any, float]:
    """The output distribution, every branch walked."""
    config = make_config(METHODS[method].config, values)
    task = replace(target.task, eos_token_ids=ends)
    models = {"target": target, "draft": small}
    return exact_distribution(lambda rng: METHODS[method].decode(task, config, rng), by_role(models))


@pytest.mark.parametrize("values", [{"gamma": 1}, {"gamma": 2}, {"gamma": 3}, {"gamma": 2, "adaptive": True}], ids=str)
@pytest.mark.parametrize("drafter", ["small", "lookup", "itself", *speculative.EAGLE_DRAFTERS])
def test_it_is_lossless(drafter: str, values: dict[str, Any]) -> None:
    for length, vocabulary in ((4, 2), (3, 3)):
        target, small = (Table(length, vocabulary, seed=seed) for seed in (1, 7))
        drafting = target if drafter == "itself" else small
        fitting = values | {"gamma": min(values["gamma"], length - 1)}
        assert largest_error(enumerated(target, drafting, drafter=drafter, **fitting), target.joint()) < EXACT


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("ar", {}),
        ("speculative", {"gamma": 3}),
        ("scd", {"window": 3, "coupling": "maximal", "initial_drafts": "left-argmax"}),
        ("scd", {"window": 3, "coupling": "gumbel", "initial_drafts": "left-argmax"}),
        ("scd", {"window": 3, "coupling": "none", "initial_drafts": "left-argmax"}),
        ("gsd", {"window": 3, "group": 0, "initial_drafts": "left-argmax"}),
    ],
    ids=str,
)
def test_a_text_ends_where_ordinary_decoding_ends_it(method: str, values: dict[str, object]) -> None:
    target, end = Table(4, 2, seed=3), 1
    wanted: defaultdict[Any, float] = defaultdict(float)
    for tokens, probability in target.joint().items():
        wanted[tokens[: tokens.index(end) + 1] if end in tokens else tokens] += probability
    assert largest_error(enumerated(target, Table(4, 2, seed=9), (end,), method, **values), wanted) < EXACT


SAME_NOISE: tuple[tuple[str, dict[str, object]], ...] = (
    *(
        ("scd", {"coupling": c, "initial_drafts": i})
        for c in ("none", "maximal", "gumbel")
        for i in ("random", "uniform")
    ),
    *(("speculative", {"drafter": drafter}) for drafter in ("small", "lookup", "itself")),
)


@pytest.mark.parametrize(("method", "values"), SAME_NOISE, ids=str)
def test_with_the_same_noise_tokens_are_those_of_ordinary_decoding(method: str, values: dict[str, object]) -> None:
    baseline, accelerated = (
        decode_toy_raster("ar", same_noise=True),
        decode_toy_raster(method, same_noise=True, **values),
    )
    check(accelerated)
    assert accelerated.output.tokens == baseline.output.tokens != decode_toy_raster("ar").output.tokens
    assert method == "speculative" or accelerated.summary.forwards < baseline.summary.forwards / 2


def test_groups_and_the_same_noise_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match=r"same_noise: True is not possible.*use False"):
        decode_toy_raster("gsd", same_noise=True)


def test_a_run_is_recorded_with_its_drafts() -> None:
    trace = decode_toy_raster("speculative", gamma=3)
    check(trace)
    assert trace.draft_model is not None and trace.draft_model.id == "toy-raster-small"
    roles = [step.call.role for step in trace.steps]
    assert roles[:4] == ["draft"] * 3 + ["target"]
    fates = {fate for step in trace.steps for fate in step.fate}
    assert fates >= {Fate.DRAFTED, Fate.ACCEPTED, Fate.RESAMPLED, Fate.DISCARDED, Fate.BONUS}
    assert state_after(trace, len(trace.steps)).tokens == trace.output.tokens
    assert 0.3 < (trace.summary.acceptance or 0) < 1
    assert trace.summary.accepted == sum(fate is Fate.ACCEPTED for step in trace.steps for fate in step.fate)


def test_own_drafts_are_all_accepted_and_without_drafts_it_is_ordinary_decoding() -> None:
    trace = decode_toy_raster("speculative", gamma=3, drafter="itself")
    assert trace.summary.acceptance == 1
    assert sum(step.call.role == "target" for step in trace.steps) == 256 / 4
    trace = decode_toy_raster("speculative", gamma=0)
    assert len(trace.steps) == 256
    assert {fate for step in trace.steps for fate in step.fate} == {Fate.SAMPLED}
    trace = decode_toy_raster("speculative", gamma=1, drafter="itself", adaptive=True)
    windows = [step.signals["window"] for step in trace.steps if step.call.role == "target"]
    assert windows[:4] == [1, 3, 5, 7]


def text_job(method: str, shift: bool = False, **values: object) -> Job:
    config = make_config(METHODS[method].config, {"length": 16, **values})
    target, small = (tiny_diffusion_lm("shift" if shift else "block", seed) for seed in (0, 1))
    return Job(METHODS[method], target, "badcab", config, 2, drafter=small)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("drafter", ["small", "itself", "lookup"])
def test_the_session_of_single_tokens_gives_what_whole_texts_give(drafter: str, shift: bool) -> None:
    """With caches and rolled back drafts, compared with every position computed from the whole text."""
    one = text_job("speculative", shift, gamma=3, drafter=drafter)
    models: dict[str, Any] = {"target": one.model, "draft": one.load_drafter() or one.model}
    prompt, compared = torch.tensor(one.task.prompt_ids), 0
    for request, probs, _ in passes(one):
        torch.testing.assert_close(probs, slowly(models[request.role], prompt, request, shift), rtol=0, atol=1e-5)
        compared += 1
    assert compared > 4


def slowly(model: Any, prompt: Tensor, request: ProbsRequest, shift: bool) -> Tensor:
    """Return the distributions of the requested positions, one uncached causal pass each."""
    text, rows = torch.cat([prompt, request.tokens]), []
    for i in range(len(prompt) + request.num_final, len(text) + 1):
        ids = text[:i] if shift else torch.cat([text[:i], torch.tensor([model.kind.mask])])
        causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        logits = model.everything(ids, torch.arange(len(ids)), causal)[-1].double()
        logits[model.kind.mask] = -torch.inf
        rows.append(logits.softmax(-1))
    return torch.stack(rows)


def test_too_many_drafts_a_missing_drafter_and_another_family_are_refused() -> None:
    with pytest.raises(ValueError, match=r"gamma: 40 drafts do not fit an output of 16 tokens; use 0 to 15\."):
        Run(text_job("speculative", gamma=40))
    config = make_config(speculative.Config, {})
    with pytest.raises(RuntimeError, match=r"--drafter\), or set .* drafter=lookup"):
        Run(Job(METHODS["speculative"], load_model("toy-raster-small"), "", config))
    config = make_config(METHODS["s2d2"].config, {})
    with pytest.raises(ConfigError, match=r"model: s2d2 runs on models of the family diffusion-lm.*use tally-target"):
        Job(METHODS["s2d2"], load_model("toy-raster"), "", config)
