"""Distributions after post-processing, all rows at once or a few; settings and prompts: clear when they are wrong."""

import json
from typing import Any

import pytest
import torch

from engines.methods import METHODS, scd
from engines.methods.scd import Config
from engines.models.bundled.prompts import PROMPTS, Prompt, PromptError, parse_prompt
from engines.sampling import coupling, distributions
from engines.sampling import random_source as chance
from engines.sampling.coupling import residual, sample_residual
from engines.sampling.distributions import GuidedSampling, Sampling, to_probs, top_p_filter
from engines.sampling.random_source import DrawKey, SeededRandom
from engines.settings import ConfigError, config_values, make_config, settings

DEEP: Any = json.loads("[" * 900 + "]" * 900)
"""Too deep for repr."""
LOGITS = torch.tensor([[[2.0, 1.0, 1.0, -1.0]], [[0.0, 1.0, 2.0, 0.0]]], dtype=torch.float64)  # [rows, T, V]


def test_guidance_mixes_the_rows() -> None:
    guided = to_probs(LOGITS, GuidedSampling(guidance=3.0))
    expected = (3 * (LOGITS[0] - LOGITS[1]) + LOGITS[1]).softmax(-1)
    torch.testing.assert_close(guided, expected)
    torch.testing.assert_close(to_probs(LOGITS[:1], Sampling()), LOGITS[0].softmax(-1))


def test_top_k_keeps_ties_and_temperature_divides() -> None:
    probs = to_probs(LOGITS[:1], Sampling(top_k=2, temperature=0.5))
    assert (probs > 0).tolist() == [[True, True, True, False]]
    torch.testing.assert_close(probs[0, 0] / probs[0, 1], torch.tensor(2.0, dtype=torch.float64).exp())


@pytest.mark.parametrize("config", [Sampling(top_k=1, temperature=0.7), GuidedSampling(top_k=1, guidance=3.0)])
def test_the_likeliest_tokens_share_what_a_softmax_gives_them(config: Sampling) -> None:
    logits = torch.tensor([[[2.0, 5.0, 5.0, 1.0], [0.0, 1.0, 0.5, 4.0]]]).repeat(1 + config.uses_guidance, 1, 1)
    assert to_probs(logits, config).tolist() == [[0, 0.5, 0.5, 0], [0, 0, 0, 1]]


def test_top_p_keeps_the_fewest_and_breaks_ties_downwards() -> None:
    probs = torch.tensor([[0.1, 0.4, 0.4, 0.1], [0.97, 0.01, 0.01, 0.01]], dtype=torch.float64)
    kept = top_p_filter(probs, 0.4)
    torch.testing.assert_close(kept, torch.tensor([[0, 1.0, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64))
    torch.testing.assert_close(top_p_filter(probs, 0.5)[0], torch.tensor([0, 0.5, 0.5, 0], dtype=torch.float64))


def test_settings_are_read_from_text() -> None:
    config = make_config(scd.Config, {"window": "16", "alpha": "0.5", "coupling": "gumbel", "stale": "true"})
    assert (config.window, config.alpha, config.coupling, config.stale) == (16, 0.5, "gumbel", True)
    assert make_config(scd.Config, config_values(config)) == config


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"window": "0"}, "window: '0' is not allowed; use a whole number from 1 to 256"),
        ({"window": 2.5}, "window: 2.5"),
        ({"alpha": "nan"}, "alpha: 'nan'"),
        ({"coupling": "tight"}, "coupling: 'tight' is not allowed; use one of maximal, gumbel, none"),
        ({"stale": "perhaps"}, "stale: 'perhaps' is not allowed; use true or false"),
        ({"windw": "3"}, "windw: no such setting; there are"),
        ({"window": DEEP}, "window: [[[[[...]]]]] is not allowed"),
        ({"win\ndow": 3}, "'win\\ndow': no such setting"),
    ],
)
def test_bad_settings_name_setting_value_and_remedy(values: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(scd.Config, values)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "values", "said"),
    [
        ("cspd", {"sampler": "ddim", "eta": 0}, "eta: with 0 denoising is deterministic"),
        ("blockwise", {"block": "3"}, "block: '3' is not allowed"),
        ("blockwise", {"block": "4", "rule": "static", "steps": 8}, "steps: 8 is more than a block of 4"),
        ("blockwise", {"block": "4", "sub_block": "8"}, "sub_block: 8 does not divide a block of 4"),
        ("s2d2", {"router": "hysteresis", "switch_on": -5.0}, "switch_on: -5 must be above switch_off, -5"),
        ("simsd", {"block": "4", "gamma": 8}, "gamma: 8 is more than a block of 4"),
        ("psd", {"mode": "sample"}, "mode: 'sample' is not allowed; use one of greedy"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(method: str, values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_config(METHODS[method].config, values)


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_has_help_and_an_allowed_default(method: str) -> None:
    for setting in settings(METHODS[method].config):
        assert setting.knob.help.endswith("."), setting.name
        assert setting.parse(setting.default) == setting.default


def test_prompts_are_read_with_synonyms() -> None:
    assert str(parse_prompt("An OWL in the woods!")) == "an owl in the forest"
    assert str(parse_prompt("a bunny by the ocean")) == "a rabbit by the sea"
    assert parse_prompt("a baby chick") == Prompt(thing=parse_prompt("chick").thing)
    assert all(parse_prompt(str(prompt)) == prompt for prompt in [*PROMPTS, Prompt(scene=2)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("an owl on the moon", "'moon' cannot be drawn"),
        ("", "it is empty"),
        ("on the", "it is empty"),
        ("an owl and a cat at night", "it names two things, 'owl' and 'cat'; keep one"),
        ("<img src=x onerror=alert(1)>", "cannot be drawn"),
    ],
)
def test_prompts_that_cannot_be_drawn_say_what_can(text: str, problem: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_prompt(text)
    assert problem in str(caught.value)
    if "keep one" not in problem:
        assert "scene: meadow" in str(caught.value)


@pytest.mark.parametrize(
    ("method", "preset", "top_k", "top_p", "guidance", "window"),
    [
        ("scd", "Lumina-mGPT", 2000, 1.0, 3.0, 64),
        ("scd", "Janus-Pro", 1000, 1.0, 5.0, 32),
        ("scd", "Cosmos", 0, 0.8, 1.0, 128),
        ("gsd", "Lumina-mGPT, G = 3", 2000, 1.0, 3.0, 32),
        ("gsd", "Lumina-mGPT, G = 10", 2000, 1.0, 3.0, 32),
    ],
)
def test_presets_sample_as_the_paper_does(
    method: str, preset: str, top_k: int, top_p: float, guidance: float, window: int
) -> None:
    config = make_config(METHODS[method].config, METHODS[method].preset(preset))
    assert (config.top_k, config.top_p, config.guidance, config.window) == (top_k, top_p, guidance, window)
    assert config.temperature == 1
    assert (METHODS[method].deviation(config) == "") == (method == "scd")


V, W = 300, 9


def some(seed: int = 0) -> torch.Tensor:
    return torch.randn(W, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


@pytest.mark.parametrize("mass", [0.05, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("kind", ["apart", "tied", "even"])
def test_the_nucleus_is_that_of_a_stable_sort(mass: float, kind: str) -> None:
    logits = {"apart": some(), "tied": some().round(), "even": torch.zeros(W, V, dtype=torch.float64)}[kind]
    probs = logits.softmax(-1)
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    expected = torch.zeros_like(probs).scatter(-1, index, torch.where(before < mass, ordered, 0.0))
    kept = top_p_filter(probs, mass)
    assert torch.equal(kept > 0, expected > 0)
    torch.testing.assert_close(kept, expected / expected.sum(-1, keepdim=True), rtol=1e-12, atol=0)


@pytest.mark.parametrize("values", [{}, {"top_k": 5, "temperature": 0.7}, {"top_p": 0.8}])
def test_a_few_rows_at_a_time_are_all_rows_at_once(values: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(Config, values)
    expected = to_probs(some()[None, None].float(), config)
    monkeypatch.setattr(distributions, "CHUNK_NUMEL", 2 * V)
    assert torch.equal(to_probs(some()[None, None].float(), config), expected)
    assert (expected.sum(-1) - 1).abs().max() < 1e-12


def test_draws_are_the_same_for_some_rows_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q, position = some().softmax(-1), some(1).softmax(-1), torch.arange(4, 4 + W)
    draw, where = DrawKey("sample", 3, position), torch.arange(W) % 3 > 0
    expected = SeededRandom(1).categorical(p, draw)
    redrawn = SeededRandom(1).categorical(residual(q, p), draw)
    for module in (chance, coupling):
        monkeypatch.setattr(module, "CHUNK_NUMEL", 2 * V)
    assert torch.equal(SeededRandom(1).categorical(p, draw, where=where)[where], expected[where])
    assert torch.equal(
        sample_residual(position, q, p, SeededRandom(1), draw, where), torch.where(where, redrawn, position)
    )
    one = [SeededRandom(1).categorical(p[i : i + 1], DrawKey("sample", 3, position[i : i + 1])) for i in range(W)]
    assert torch.equal(torch.cat(one), expected)  # a single number is hashed on its own
    alike = p[:1].expand(W, -1)
    assert torch.equal(SeededRandom(1).categorical(alike, draw), SeededRandom(1).categorical(alike.clone(), draw))


def test_gumbel_noise_that_is_kept_is_the_noise_of_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    p, kept = some().softmax(-1), SeededRandom(1)
    noise = -(-kept.uniform(DrawKey("gumbel", 0, torch.arange(W)), V).log()).log()
    expected = (p.log() + noise).argmax(-1)
    monkeypatch.setattr(chance, "CHUNK_NUMEL", 2 * V)
    hashed: list[int] = []
    proper = SeededRandom.uniform

    def counted(self: SeededRandom, draw: DrawKey, count: int) -> torch.Tensor:
        hashed.extend(draw.position.tolist())
        return proper(self, draw, count)

    monkeypatch.setattr(SeededRandom, "uniform", counted)
    for first in range(4):  # a window that moves on
        here = torch.arange(first, first + 5)
        assert torch.equal(kept.gumbel_argmax(p[here], here), expected[here])
    assert hashed == list(range(8))  # each position once
    assert len(kept._races) == 5
    shut = p.clone()
    shut[:, 100:] = 0
    assert kept.gumbel_argmax(shut, torch.arange(W)).max() < 100
