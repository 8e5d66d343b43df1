"""Distributions: guidance, temperature, top-k, top-p, and draws from them."""

import pytest
import torch

from draftscope.engines.methods.scd import Config
from draftscope.engines.sampling import coupling, distributions
from draftscope.engines.sampling import random_source as chance
from draftscope.engines.sampling.coupling import residual, sample_residual
from draftscope.engines.sampling.distributions import GuidedSampling, Sampling, to_probs, top_p_filter
from draftscope.engines.sampling.random_source import DrawKey, SeededRandom
from draftscope.engines.settings import make_config

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
    filtered = top_p_filter(probs, 0.4)
    torch.testing.assert_close(filtered, torch.tensor([[0, 1.0, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64))
    torch.testing.assert_close(top_p_filter(probs, 0.5)[0], torch.tensor([0, 0.5, 0.5, 0], dtype=torch.float64))


V, W = 300, 9


def some_logits(seed: int = 0) -> torch.Tensor:
    return torch.randn(W, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


@pytest.mark.parametrize("mass", [0.05, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("kind", ["apart", "tied", "even"])
def test_the_nucleus_is_that_of_a_stable_sort(mass: float, kind: str) -> None:
    logits = {"apart": some_logits(), "tied": some_logits().round(), "even": torch.zeros(W, V, dtype=torch.float64)}[
        kind
    ]
    probs = logits.softmax(-1)
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    expected = torch.zeros_like(probs).scatter(-1, index, torch.where(before < mass, ordered, 0.0))
    filtered = top_p_filter(probs, mass)
    assert torch.equal(filtered > 0, expected > 0)
    torch.testing.assert_close(filtered, expected / expected.sum(-1, keepdim=True), rtol=1e-12, atol=0)


@pytest.mark.parametrize("values", [{}, {"top_k": 5, "temperature": 0.7}, {"top_p": 0.8}])
def test_a_few_rows_at_a_time_are_all_rows_at_once(values: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(Config, values)
    expected = to_probs(some_logits()[None, None].float(), config)
    monkeypatch.setattr(distributions, "CHUNK_NUMEL", 2 * V)
    assert torch.equal(to_probs(some_logits()[None, None].float(), config), expected)
    assert (expected.sum(-1) - 1).abs().max() < 1e-12


def test_draws_are_the_same_for_some_rows_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q, position = some_logits().softmax(-1), some_logits(1).softmax(-1), torch.arange(4, 4 + W)
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
    p, source = some_logits().softmax(-1), SeededRandom(1)
    noise = -(-source.uniform(DrawKey("gumbel", 0, torch.arange(W)), V).log()).log()
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
        assert torch.equal(source.gumbel_argmax(p[here], here), expected[here])
    assert hashed == list(range(8))  # each position once
    assert len(source._races) == 5
    shut = p.clone()
    shut[:, 100:] = 0
    assert source.gumbel_argmax(shut, torch.arange(W)).max() < 100
