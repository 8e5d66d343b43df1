"""Tokens in the plane: counts over a grid against probabilities that are integrated, mode by mode."""

from functools import cache

import pytest
import torch
from torch import Tensor

from engines.continuous.denoising import ContinuousSampling, Schedule
from engines.continuous.mixture2d import (
    CELLS,
    MODES,
    Mode,
    Plane,
    counted,
    distribution,
    edges,
    sample,
    total_variation,
)
from engines.models.toy_field import ideal
from engines.sampling.chance import SeededChance

CHANCE = SeededChance(5)
COUNT = 40_000
PLAIN = Plane()


@cache
def drawn_by_target(plane: Plane) -> Tensor:
    return distribution(plane.target, plane.sampling)


def off(mode: Mode, plane: Plane) -> float:
    """z-score of the chi-square of cells against what the target draws; the cells left out are one more."""
    expected = COUNT * drawn_by_target(plane)
    counts = counted(sample(mode, plane, torch.arange(COUNT), CHANCE).token)
    large = expected >= 5
    cells = [torch.cat([each[large], (COUNT - each[large].sum())[None]]) for each in (counts, expected)]
    chi = float(((cells[0] - cells[1]).square() / cells[1]).sum())
    free = int(large.sum())
    return (chi - free) / (2 * free) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("plane", [PLAIN, Plane(variance=1.2, shift=0.4, steps=4, align=False)], ids=str)
def test_exact_tokens_follow_the_target_as_its_own_do(plane: Plane) -> None:
    assert abs(off("vanilla", plane)) < 4
    assert abs(off("exact", plane)) < 4


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("mode", "variance", "least"),
    [("paper", 1.2, 30), ("paper", 0.7, 100), ("release", 0.7, 100), ("distance-only", 0.7, 10)],
)
def test_the_others_are_far_off_where_variances_differ(mode: Mode, variance: float, least: float) -> None:
    assert off(mode, Plane(variance=variance)) > least


def test_the_release_returns_nearly_the_distribution_of_narrower_drafts() -> None:
    target, draft = drawn_by_target(PLAIN), distribution(PLAIN.draft, PLAIN.sampling)
    out = sample("release", PLAIN, torch.arange(COUNT), CHANCE)
    share = counted(out.token) / COUNT
    assert float(out.kept.double().mean()) > 0.99
    assert total_variation(share, draft) < total_variation(share, target) - 0.02


def test_a_draft_equal_to_the_target_is_kept_and_a_vanilla_token_has_none() -> None:
    same = Plane(variance=1, shift=0)
    for mode in MODES:
        out = sample(mode, same, torch.arange(1000), CHANCE)
        assert bool(out.kept.all()) is (mode != "vanilla")
        assert not out.tries.any() and not out.capped.any()


def test_integration_returns_a_distribution_in_closed_form() -> None:
    """A standard normal stays one from the first step to the last."""

    def head(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
        eps, v = ideal(x, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(len(x), -1), schedule, i)
        return eps, v

    part = torch.special.ndtr(edges()).diff()
    for steps in (2, 9):
        torch.testing.assert_close(
            distribution(head, ContinuousSampling(steps=steps, last=150)), part[:, None] * part, atol=2e-6, rtol=0
        )


def test_tokens_outside_all_cells_count_as_one_more() -> None:
    target = torch.full((CELLS, CELLS), 0.9 / CELLS**2, dtype=torch.float64)
    assert total_variation(target, target) == 0
    assert total_variation(0 * target, target) == pytest.approx(0.9)
    assert total_variation(target / 0.9, target) == pytest.approx(0.1)
    counts = counted(torch.tensor([[-2.9, 2.9], [9.0, 0.0]], dtype=torch.float64))
    assert counts.sum() == counts[0, -1] == 1
