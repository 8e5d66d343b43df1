"""The stated power of the tests is what they have."""

from math import sqrt

import pytest
import torch
from scipy import stats

from draftscope.engines.testing.chi_square import CELLS, HIGHEST, _score
from draftscope.engines.testing.power import (
    FOUND,
    compared_rate,
    enumerated_variation,
    sampled_shift,
    sampled_variation,
)


@pytest.mark.parametrize(("samples", "cells"), [(3000, 16), (1500, 16), (500, 36)])
def test_the_variation_is_that_of_the_noncentral_distribution(samples: int, cells: int) -> None:
    tv, k = sampled_variation(samples, cells, HIGHEST), cells - 1
    limit = k * (1 - 2 / (9 * k) + HIGHEST * sqrt(2 / (9 * k))) ** 3
    assert stats.ncx2.sf(limit, k, 4 * tv**2 * samples) == pytest.approx(FOUND, abs=4e-3)


def test_a_bias_of_that_size_is_found_and_a_third_of_it_is_not() -> None:
    generator = torch.Generator().manual_seed(0)

    def found(tv: float) -> float:
        probs = torch.full((CELLS,), 1 / CELLS)
        probs[::2] += 2 * tv / CELLS
        probs[1::2] -= 2 * tv / CELLS
        draws = torch.multinomial(probs.expand(300, -1), 3000, replacement=True, generator=generator)
        return sum(_score(row, CELLS) >= HIGHEST for row in draws) / 300

    tv = sampled_variation(3000, CELLS, HIGHEST)
    assert found(tv) > 0.96
    assert found(tv / 3) < 0.1


def test_an_enumeration_sees_what_exceeds_its_bound_somewhere() -> None:
    tv, outcomes = enumerated_variation(1e-12, 16), 16
    assert tv == pytest.approx(outcomes * 1e-12 / 2)


def test_a_shift_of_that_size_exceeds_the_bound() -> None:
    shift = sampled_shift(1800, 4.5)
    assert stats.norm.sf(4.5 - shift * sqrt(1800)) == pytest.approx(FOUND)


def test_a_rate_of_that_size_shows_at_least_once() -> None:
    assert 1 - (1 - compared_rate(500)) ** 500 == pytest.approx(FOUND)
    assert compared_rate(0) == 1
