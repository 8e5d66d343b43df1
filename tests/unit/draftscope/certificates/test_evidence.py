"""The sequential test: how often it is wrong, and what it says that it would have found."""

from typing import Any

import numpy as np
import pytest

from draftscope.certificates.evidence import FALSE_ALARM, NEVER, Bettor, defects, lookup_guesses


def rows(count: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distributions of target and drafter."""
    p = rng.dirichlet(np.full(6, 0.8), count)
    return p, 0.3 * p + 0.7 * rng.dirichlet(np.full(6, 0.8), count)


def draw(probs: np.ndarray, rng: Any) -> np.ndarray:
    return np.minimum((probs.cumsum(-1) < rng.random((len(probs), 1))).sum(-1), probs.shape[-1] - 1)


def bettor(tokens: np.ndarray, p: np.ndarray, q: np.ndarray) -> Bettor:
    test = Bettor()
    test.bet(tokens, p, defects(p, q, None))
    return test


def test_each_defect_is_a_distribution_and_none_is_the_exact_one() -> None:
    p, q = rows(50, np.random.default_rng(0))
    for d in defects(p, q, p**2 / (p**2).sum(-1, keepdims=True)).values():
        np.testing.assert_allclose(d.sum(-1), 1)
        assert (d >= 0).all() and np.abs(d - p).sum(-1).mean() > 0.02


def test_nothing_is_bet_where_drafter_and_target_agree() -> None:
    p, _ = rows(50, np.random.default_rng(0))
    for name in ("the first draft is not verified", "the residual is p"):
        np.testing.assert_allclose(defects(p, p, None)[name], p)


@pytest.mark.slow
def test_the_stated_error_rates_hold() -> None:
    """At least 57 of 60 runs with the smallest share of a defect are found, and none of 100 lossless ones."""
    rng = np.random.default_rng(1)
    p, q = rows(1000, rng)
    alternatives = defects(p, q, None)
    fits = {fit.name: fit for fit in bettor(draw(p, rng), p, q).fits()}
    for name in ("the first draft is not verified", "a draft is accepted if it is the likeliest token"):
        share = fits[name].found_share
        assert share < NEVER
        biased = (1 - share) * p + share * alternatives[name]
        tests = [bettor(draw(biased, rng), p, q) for _ in range(60)]
        assert sum(test.found_after is not None for test in tests) >= 57
        assert sum(test.fits()[0].name == name for test in tests) >= 45
    assert not any(bettor(draw(p, rng), p, q).found_after for _ in range(100))


def test_the_wealth_starts_at_one_and_is_fair() -> None:
    """Over all tokens that can come, the expected factor is 1."""
    p, q = rows(1, np.random.default_rng(2))
    wealth = [np.exp(bettor(np.array([token]), p, q).curve[-1][1]) for token in range(p.shape[-1])]
    assert float(np.dot(p[0], wealth)) == pytest.approx(1)
    assert FALSE_ALARM == 1e-4


def test_a_lookup_guesses_what_followed_the_last_two_tokens() -> None:
    guesses = lookup_guesses(["abcab"], np.array([[2, 0, 3, 0, 1]]), "abcdefgh")
    assert guesses.tolist() == [[2, 0, 1, -1, -1]]
