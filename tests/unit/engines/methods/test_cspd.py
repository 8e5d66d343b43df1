"""CSpD through the driver: the distribution of whole sequences, its limits, batches, records and refusals."""

import math
from dataclasses import replace as changed
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.engines.continuous import rejection
from draftscope.engines.continuous.path_request import projection_plane
from draftscope.engines.continuous.rejection import DensityRatio
from draftscope.engines.methods import METHODS, cspd
from draftscope.engines.methods.cspd import Config, decode
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.toys.toy_field import MODELS, ToyField, load
from draftscope.engines.models.toys.toy_raster import Weights
from draftscope.engines.runtime.driver import Job, Run, run_batch, sample_tokens
from draftscope.engines.sampling import coupling
from draftscope.engines.sampling.random_source import SeededRandom
from draftscope.engines.settings import ConfigError, make_config
from draftscope.engines.testing.conformance import finish
from draftscope.engines.testing.toy_models import SHAPE, ToyFieldModel, misfit
from draftscope.engines.testing.toy_models import SMALL as OTHER
from draftscope.engines.testing.toy_models import TARGET as CHAIN
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Fate, Step, Trace

CPU = torch.device("cpu")
QUICK = {"steps": 4, "last_timestep": 150}


def fields(shape: tuple[int, int], target: Weights, small: Weights | None = None) -> tuple[ToyField, ToyField]:
    return ToyField("target", target, CPU, shape), ToyField("small", small or target, CPU, shape)


EXACT = ("cspd", "cspd-block")
DRAFTING = (*EXACT, "cspd-release")
WAYS: tuple[dict[str, object], ...] = (
    *({"mode": mode} for mode in ("exact", "paper", "distance-only")),
    {"method": "cspd-block"},
    {"method": "cspd-block", "verdict": "maximal"},
    {"method": "cspd-release"},
)
CELLS = 24
FIELD, SMALL = fields((4, 6), *MODELS.values())


def job(
    method: str = "cspd", seed: int = 0, model: Any = None, small: Any = None, sample: int = 0, **values: object
) -> Job:
    config = make_config(METHODS[method].config, {**QUICK, **values})
    return Job(METHODS[method], model or FIELD, "", config, seed, sample, small or SMALL)


def many(count: int, **values: object) -> Tensor:
    """Samples [count, N, D] of jobs in lockstep."""
    first = job(**values)
    return torch.tensor(sample_tokens([changed(first, sample=i) for i in range(count)]), dtype=torch.float64)


DRAFTS = {"gamma": 3, "prefill_share": 0, "steps": 3}
SAMPLES = 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"coupled_steps": 2},
        pytest.param({"coupled_steps": 0, "same_noise_paths": False}, marks=pytest.mark.nightly),
        pytest.param({"coupled_steps": 1, "prefill_share": 0.25, "gamma": 8}, marks=pytest.mark.nightly),
        pytest.param({"method": "cspd-block", "prefill_share": 0.25, "gamma": 8}, marks=pytest.mark.nightly),
        {"method": "cspd-block", "verdict": "maximal"},
    ],
    ids=["tied", "not aligned", "pre-filled", "whole path, pre-filled", "maximal"],
)
def test_sequences_follow_the_target(values: dict[str, object]) -> None:
    """In addition to the defaults, which test_conformance.py covers."""
    model, small = fields(SHAPE, CHAIN, OTHER)
    square, largest = misfit(many(SAMPLES, model=model, small=small, **{**DRAFTS, **values}))
    assert square < 1.8
    assert largest < 4.5


@pytest.mark.slow
def test_ordinary_decoding_follows_the_target_and_drafts_alone_do_not() -> None:
    model, small = fields(SHAPE, CHAIN, OTHER)
    assert misfit(many(SAMPLES, method="continuous", model=model))[0] < 1.9
    assert misfit(many(SAMPLES, method="continuous", model=small))[0] > 10
    assert misfit(many(SAMPLES, method="continuous", model=model, tokens_per_step=math.prod(SHAPE)))[0] > 10


def keep_what_follows_a_rejection(mask: Tensor) -> Tensor:
    return torch.full((), len(mask) - 1)


def plain_draws(ratio: DensityRatio, *_: Any) -> Any:
    return rejection.draw_replacements(
        DensityRatio("paper", ratio.p, ratio.p, torch.full_like(ratio.log_sigma, 50.0)), *_
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "module", "name", "defect"),
    [
        ("cspd", coupling, "first_rejection", keep_what_follows_a_rejection),
        ("cspd", cspd, "draw_replacements", plain_draws),
        pytest.param(
            "cspd-block", coupling, "first_rejection", keep_what_follows_a_rejection, marks=pytest.mark.nightly
        ),
    ],
    ids=["no rollback", "replacements drawn from p", "no rollback of paths"],
)
def test_defects_are_caught(method: str, module: Any, name: str, defect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, defect)
    model, small = fields(SHAPE, CHAIN, OTHER)
    values: dict[str, object] = {"coupled_steps": 0} if method == "cspd" else {"method": method}
    assert misfit(many(SAMPLES, model=model, small=small, **values, **DRAFTS))[0] > 3


@pytest.mark.parametrize("method", DRAFTING)
@pytest.mark.parametrize(("values", "fate"), [({"gamma": 0}, Fate.SAMPLED), ({"prefill_share": 1.0}, Fate.PREFILLED)])
def test_without_drafts_it_is_ordinary_decoding_bit_for_bit(values: dict[str, object], fate: Fate, method: str) -> None:
    one = job(method, **{"prefill_share": 0, **values})
    trace = finish(one)
    assert trace.output.tokens == finish(job("continuous")).output.tokens
    assert {each for step in trace.steps for each in step.fate} == {fate}
    assert "gamma" not in values or one.method.deviation(one.config) == ""


@pytest.mark.one_quick
@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(("gamma", "prefill"), [(3, 0.0), (5, 0.0), (8, 0.25)])
def test_a_target_that_drafts_for_itself_keeps_everything(method: str, gamma: int, prefill: float) -> None:
    trace = finish(job(method, drafter="itself", gamma=gamma, prefill_share=prefill))
    assert trace.summary.acceptance == 1
    alone = round(prefill * CELLS)
    verified = [step for step in trace.steps if step.call.role == "target"]
    assert len(verified) == alone + -(-(CELLS - alone) // (gamma + 1))
    assert trace.output.tokens == finish(job("continuous")).output.tokens  # the same noise makes the same tokens


@pytest.mark.parametrize("method", EXACT)
def test_draft_calls_and_fates_of_a_verification(method: str) -> None:
    trace = finish(job(method, gamma=6, seed=3))
    done = 0
    for step in trace.steps:
        final = [p for p, fate in zip(step.position, step.fate, strict=True) if fate.final]
        assert final == list(range(done, done + len(final)))
        done += len(final)
        if step.call.mode == "verify":
            fates = [fate for fate in step.fate if fate is not Fate.ACCEPTED]
            assert fates in ([Fate.BONUS], [Fate.RESAMPLED, *[Fate.DISCARDED] * (len(fates) - 1)])
            assert step.signals["window"] == sum(draft is not None for draft in step.draft or ())
            for fate, tries in zip(step.fate, step.numbers["tries"], strict=True):
                assert (tries is not None) is (fate is Fate.RESAMPLED)
    assert done == CELLS
    assert {step.call.role for step in trace.steps} == {"draft", "target"}
    assert trace.draft_model.id == "small"


def path_pairs(trace: Trace) -> list[tuple[Any, Any, int]]:
    """Every recorded pair with its step and entry."""
    return [(pair, step, i) for step in trace.steps for i, pair in enumerate(step.paths or ()) if pair is not None]


@pytest.mark.parametrize("method", DRAFTING)
def test_every_judged_draft_has_its_paths_and_no_other_entry(method: str) -> None:
    trace = finish(job(method, gamma=5, seed=1, max_tries=200))
    for step in trace.steps:
        recorded = [pair is not None for pair in step.paths or (None,) * len(step.position)]
        assert recorded == [fate.judged for fate in step.fate]
    assert len(path_pairs(trace)) == trace.summary.judged


def test_paths_end_at_draft_and_target_and_say_how_far_apart_they_are() -> None:
    trace = finish(job(gamma=5, coupled_steps=0))
    onto = projection_plane(torch.zeros(3, dtype=torch.float64))
    for pair, step, i in path_pairs(trace):
        assert len(pair.draft) == QUICK["steps"] + 1
        assert pair.draft[0] == pair.target[0]  # the same noise
        assert pair.distance_squared[0] == 0
        assert pair.draft[-1] == pytest.approx(
            (torch.tensor(step.draft[i], dtype=torch.float64) @ onto).tolist(), abs=6e-4
        )
        assert pair.distance_squared[-1] == step.numbers["distance_squared"][i]
        assert pair.distance_squared[-2] == step.numbers["distance_squared_before"][i]


def test_paths_start_apart_without_alignment_and_meet_where_steps_are_tied() -> None:
    apart = path_pairs(finish(job(gamma=5, coupled_steps=0, same_noise_paths=False)))
    assert min(pair.distance_squared[0] for pair, *_ in apart) > 0.01
    assert any(
        0 in pair.distance_squared[1:]
        for pair, *_ in path_pairs(finish(job(gamma=5, coupled_steps=3, last_timestep=0)))
    )


@pytest.mark.parametrize("width", [1, 2, 3, 8, 16])
def test_the_plane_prefers_no_component(width: int) -> None:
    onto = projection_plane(torch.zeros(width, dtype=torch.float64))
    flat = torch.eye(2, dtype=torch.float64)
    flat[1, 1] = float(width > 1)
    torch.testing.assert_close(onto.T @ onto, flat)
    torch.testing.assert_close(onto[:, 0], torch.full((width,), width**-0.5, dtype=torch.float64))


@pytest.mark.slow
def test_the_release_keeps_to_its_clock_and_loses_what_ties_tokens_together() -> None:
    """Regression: it rejects drafts of an equal model, neighbours stop depending on each other, calls stay the same."""
    model, _ = fields((1, 24), Weights(0.9, 0.0, 0.0, 0.25))

    def run(gamma: int, method: str) -> tuple[float, float, set[int]]:
        values = {
            "method": method, "drafter": "itself", "gamma": gamma, "prefill_share": 0.0, "max_tries": 50,
            "steps": 2, "last_timestep": 0
        }  # fmt: skip
        traces = run_batch([job(seed=seed, model=model, **values) for seed in range(30)])
        x = torch.tensor([trace.output.tokens for trace in traces], dtype=torch.float64)
        lag = float((x[:, 1:] * x[:, :-1]).sum() / x[:, :-1].square().sum())
        accepted = sum(t.summary.accepted for t in traces) / sum(t.summary.judged for t in traces)
        return lag, accepted, {len(trace.steps) for trace in traces}

    exact, release, single = run(8, "cspd-block"), run(8, "cspd-release"), run(1, "cspd-release")
    assert exact[0] == pytest.approx(0.9, abs=0.05)
    assert exact[1] == 1
    assert release[0] == pytest.approx(0.47, abs=0.08)
    assert release[1] == pytest.approx(0.55, abs=0.1)
    assert single[0] == pytest.approx(0.9, abs=0.05)  # with one draft a block there is nothing that could be unseen
    assert release[2] == {24 + 3}  # 24 drafts and 24 / 8 verifications, whatever they say


def from_columns(step: Step, i: int) -> float:
    """Return the log ratio by which entry i was verified, from the densities in the trace."""
    column = {name: values[i] for name, values in step.numbers.items()}
    if "path_log_ratio" in column:
        return column["path_log_ratio"] - column.get("path_log_ratio_highest", 0)
    if "soft_log_ratio" in column:
        return column["soft_log_ratio"] - column["log_variance_ratio"]
    return column["log_density_target"] - column["log_density_draft"]


@pytest.mark.parametrize("values", WAYS, ids=str)
def test_a_trace_gives_its_acceptance_probabilities_and_says_what_deviates(values: dict[str, object]) -> None:
    """A reader of a file needs no model to check a verdict; columns have six digits."""
    trace = finish(job(**values, gamma=5, seed=2))
    checked, certain = 0, 0
    for step in trace.steps:
        for i, fate in enumerate(step.fate):
            if not fate.judged:
                continue
            log_ratio = from_columns(step, i)
            if values.get("mode") == "paper":
                log_ratio += step.numbers["log_variance_ratio"][i]
            if values.get("mode") == "distance-only":
                log_ratio = 0.5 * (step.numbers["noise_norm"][i] ** 2 - step.numbers["noise_norm_target"][i] ** 2)
            assert step.accept_prob[i] == pytest.approx(math.exp(min(log_ratio, 0.0)), abs=1e-3)
            assert (fate is Fate.ACCEPTED) is (step.coin[i] < step.accept_prob[i])
            pair = step.paths[i] if step.paths else None
            assert bool(pair and pair.log_ratio) is (pair is not None and "path_log_ratio" in step.numbers)
            if pair and pair.log_ratio:
                assert sum(pair.log_ratio) == pytest.approx(step.numbers["path_log_ratio"][i], abs=1e-3)
            checked, certain = checked + 1, certain + (step.accept_prob[i] in (0, 1))
    assert checked == trace.summary.judged > 5
    assert certain < checked
    assert loads(dumps(trace)) == trace and trace.summary.complete
    assert bool(trace.note) is (values.get("mode", "exact") != "exact" or values.get("method") == "cspd-release")
    assert len(trace.legend.frames) == len(trace.steps)


def test_a_mixture_drafts_without_denoising_and_where_it_cannot_says_who_does() -> None:
    model, mixed = ToyFieldModel(), ToyFieldModel(OTHER, mixed=True)
    trace = finish(job("cspd-block", model=model, small=mixed, drafter="mixture", verdict="maximal", gamma=2))
    assert trace.summary.complete and trace.summary.judged > 3
    assert len(path_pairs(trace)) == trace.summary.judged
    numbers = next(step.numbers for step in trace.steps if step.call.mode == "verify")
    assert not {"noise_norm", "log_variance_ratio", "last_mean_distance"} & numbers.keys()
    assert {"noise_norm_target", "distance_squared"} <= numbers.keys()
    nobody = changed(job("cspd-block", drafter="mixture", model=load()), drafter=None)
    paper = changed(job("cspd"), config=make_config(Config, {"drafter": "mixture", "mode": "paper"}))
    for wrong, problem in (
        (job("cspd-block", drafter="mixture"), "'mixture' is for models that mix Gaussians.* small denoises"),
        (job("cspd", model=model, small=mixed), "mixes Gaussians, set drafter=mixture"),
        (paper, "drafter=mixture mixes several, use exact"),
        (nobody, "as patch-mixture for patch-target does; set drafter=small"),
    ):
        with pytest.raises((ValueError, ModelError), match=problem):
            Run(wrong)


def test_models_of_different_tokens_are_refused() -> None:
    stranger = ToyField("stranger", MODELS["toy-field-small"], CPU)
    stranger.token_space = "others"
    with pytest.raises(ValueError, match="drafter: stranger and target"):
        Run(job(small=stranger))


def test_a_mixture_has_no_single_distance_to_judge_by() -> None:
    task = changed(load().make_task("", Config()), mixture=True)
    with pytest.raises(ConfigError, match="mode: 'distance-only'"):
        next(decode(task, make_config(Config, {"mode": "distance-only"}), SeededRandom(0)))
    for method in (METHODS["cspd-block"], METHODS["cspd-release"]):
        with pytest.raises(ConfigError, match=r"gamma: 8 drafts .* use method cspd, or gamma=0"):
            next(method.decode(task, method.config(), SeededRandom(0)))
