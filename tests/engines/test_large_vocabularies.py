"""What a CPU does a few rows at a time, or keeps from pass to pass, changes no draw and no distribution."""

import pytest
import torch

from engines.config import make_config
from engines.methods.scd import Config
from engines.sampling import chance, distributions
from engines.sampling.chance import Draw, SeededChance
from engines.sampling.coupling import redraw, residual
from engines.sampling.distributions import to_probs, truncate_mass

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
    kept = truncate_mass(probs, mass)
    assert torch.equal(kept > 0, expected > 0)
    torch.testing.assert_close(kept, expected / expected.sum(-1, keepdim=True), rtol=1e-12, atol=0)


@pytest.mark.parametrize("values", [{}, {"top_k": 5, "temperature": 0.7}, {"top_p": 0.8}])
def test_a_few_rows_at_a_time_are_all_rows_at_once(values: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(Config, values)
    expected = to_probs(some()[None, None].float(), config)
    monkeypatch.setattr(distributions, "AT_ONCE", 2 * V)
    assert torch.equal(to_probs(some()[None, None].float(), config), expected)
    assert (expected.sum(-1) - 1).abs().max() < 1e-12


def test_draws_are_the_same_for_some_rows_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q, position = some().softmax(-1), some(1).softmax(-1), torch.arange(4, 4 + W)
    draw, where = Draw("sample", 3, position), torch.arange(W) % 3 > 0
    expected = SeededChance(1).categorical(p, draw)
    redrawn = SeededChance(1).categorical(residual(q, p), draw)
    monkeypatch.setattr(chance, "AT_ONCE", 2 * V)
    assert torch.equal(SeededChance(1).categorical(p, draw, where=where)[where], expected[where])
    assert torch.equal(redraw(q, p, SeededChance(1), draw, where)[where], redrawn[where])
    one = [SeededChance(1).categorical(p[i : i + 1], Draw("sample", 3, position[i : i + 1])) for i in range(W)]
    assert torch.equal(torch.cat(one), expected)  # a single number is hashed on its own
    alike = p[:1].expand(W, -1)
    assert torch.equal(SeededChance(1).categorical(alike, draw), SeededChance(1).categorical(alike.clone(), draw))


def test_gumbel_noise_that_is_kept_is_the_noise_of_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    p, kept = some().softmax(-1), SeededChance(1)
    noise = -(-kept.uniform(Draw("gumbel", 0, torch.arange(W)), V).log()).log()
    expected = (p.log() + noise).argmax(-1)
    monkeypatch.setattr(chance, "AT_ONCE", 2 * V)
    hashed: list[int] = []
    proper = SeededChance.uniform

    def counted(self: SeededChance, draw: Draw, count: int) -> torch.Tensor:
        hashed.extend(draw.position.tolist())
        return proper(self, draw, count)

    monkeypatch.setattr(SeededChance, "uniform", counted)
    for first in range(4):  # a window that moves on
        here = torch.arange(first, first + 5)
        assert torch.equal(kept.gumbel_argmax(p[here], here), expected[here])
    assert hashed == list(range(8))  # each position once
    assert len(kept._races) == 5
    shut = p.clone()
    shut[:, 100:] = 0
    assert kept.gumbel_argmax(shut, torch.arange(W)).max() < 100
