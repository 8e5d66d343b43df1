"""Evidence from sampled texts: a sequential test against the exact distribution, and the defect that fits best.

The test is a bet. It divides its wealth among defects; a defect that says d where the exact distribution says p
multiplies its part by 1 + w (d(x) / p(x) - 1) if token x comes, w being the share of tokens that have it. If tokens
follow p, the expected factor is at most 1 whatever came before, so the wealth ever exceeds 1 / alpha with probability
at most alpha (Ville 1939): one may stop at any time. With a defect the wealth grows, and the richest part names it.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Final

import numpy as np
from jaxtyping import Float, Int64

from draftscope.analysis.certificates import Fit

FALSE_ALARM: Final = 1e-4
"""Probability that a lossless engine is called biased."""
MISSED: Final = 0.01
"""Probability that a bias of the stated size is not found."""
FILTERS: Final = "filters act on other probabilities than they should"
SHARES: Final = (0.003, 0.01, 0.02, 0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0)
"""Shares of tokens with a defect that are bet on."""
_Z: Final = 2.3263478740408408
"""Quantile of the standard normal distribution at 1 - MISSED."""
_TINY: Final = 1e-300
_MOST: Final = 30.0
"""Largest logarithm of a factor that power is computed with: a token that cannot come ends the test by itself."""
NEVER: Final = 2.0
"""In place of a share: a defect that would not have been found in any."""

Rows = Float[np.ndarray, "T V"]


def defects(p: Rows, q: Rows | None, unfiltered: Rows | None) -> dict[str, Rows]:
    """Return the distribution of a token under each defect.

    Args:
        p: The exact distribution of each token.
        q: The distribution that drafts come from, one-hot for a lookup; equal to p where nothing is drafted. None where
            it is not known.
        unfiltered: The distribution without the filters or with those of another order; None where there are none.
    """
    one_hot = np.eye(p.shape[-1])
    found = {
        "tokens are sharper than they should be": _normalised(p**1.3),
        "tokens are flatter than they should be": _normalised(p**0.75),
        "the likeliest token is taken": one_hot[p.argmax(-1)],
    }
    if unfiltered is not None:
        found[FILTERS] = unfiltered
    if q is None:
        return found
    uniform, residual = np.full_like(p, 1 / p.shape[-1]), _normalised(np.maximum(p - q, 0), p)
    colder = _normalised(np.maximum(q, _TINY) ** 1.5)
    likeliest = p.argmax(-1)[:, None]
    drafted = np.take_along_axis(q, likeliest, -1)
    passed = np.zeros_like(p)
    np.put_along_axis(passed, likeliest, drafted, -1)
    return found | {
        "the first draft is not verified": q,
        "the residual is p": np.minimum(p, q) + (1 - np.minimum(p, q).sum(-1, keepdims=True)) * p,
        "a draft is accepted if it is the likeliest token": passed + (1 - drafted) * residual,
        "q is another distribution than the drafts come from": _verified(p, q, uniform),
        "q is sharper than the distribution of the drafts": _verified(p, q, colder),
        "drafts are the drafter's likeliest tokens, q is not": _verified(p, one_hot[q.argmax(-1)], q),
    }


def _verified(p: Rows, drawn: Rows, reported: Rows) -> Rows:
    """Tokens of speculative sampling whose drafts come from `drawn` and are verified with `reported` as q."""
    passed = drawn * np.minimum(1, p / np.maximum(reported, _TINY))
    residual = _normalised(np.maximum(p - reported, 0), p)
    return np.asarray(passed + (1 - passed.sum(-1, keepdims=True)) * residual)


def _normalised(values: Rows, otherwise: Rows | None = None) -> Rows:
    total = values.sum(-1, keepdims=True)
    scaled = values / np.maximum(total, _TINY)
    return np.asarray(scaled if otherwise is None else np.where(total > 1e-12, scaled, otherwise))


def _growth(p: Rows, d: Rows) -> Float[np.ndarray, "2 S"]:
    """Return mean and variance, summed over tokens, of the logarithm of a bet's factor under its own defect."""
    sums = []
    for share in SHARES:
        mixed = (1 - share) * p + share * d
        gain = np.log(np.maximum(mixed, _TINY) / np.maximum(p, _TINY)).clip(max=_MOST)
        mean = (mixed * gain).sum(-1)
        sums.append((mean.sum(), ((mixed * gain**2).sum(-1) - mean**2).sum()))
    return np.array(sums).T


class Bettor:
    """The sequential test; tokens come in rows."""

    def __init__(self) -> None:
        self._log_wealth: dict[str, Float[np.ndarray, " S"]] = {}
        self._variation: dict[str, float] = {}
        self._growth: dict[str, Float[np.ndarray, "2 S"]] = {}
        """Mean and variance of the logarithm of each bet's factors, if tokens have its defect in its share."""
        self.tokens = 0
        self.curve: list[tuple[int, float]] = [(0, 0.0)]
        """Tokens, and the natural logarithm of the wealth, after each batch of rows."""
        self.found_after: int | None = None
        """Tokens after which the wealth first exceeded 1 / FALSE_ALARM."""

    def bet(self, tokens: Int64[np.ndarray, " T"], p: Rows, alternatives: Mapping[str, Rows]) -> None:
        """Take the next tokens.

        Args:
            tokens: Ids, which p does not forbid.
            p: Distribution that each was to be sampled from.
            alternatives: Distribution of each of them with a defect, by the name of the defect.
        """
        if not len(tokens):
            return
        at, shares = tokens[:, None], np.array(SHARES)
        expected = np.take_along_axis(p, at, -1)
        paths = []
        for name, d in alternatives.items():
            gain = np.take_along_axis(d, at, -1) / np.maximum(expected, _TINY) - 1
            steps = np.log(np.maximum(1 + shares * gain, _TINY)).cumsum(0)
            start = self._log_wealth.get(name, np.zeros(len(SHARES)))
            paths.append(start + steps)
            self._log_wealth[name] = paths[-1][-1]
            self._variation[name] = self._variation.get(name, 0.0) + float(np.abs(d - p).sum()) / 2
            self._growth[name] = self._growth.get(name, np.zeros((2, len(SHARES)))) + _growth(p, d)
        wealth = np.logaddexp.reduce(np.concatenate(paths, 1), 1) - log(len(paths) * len(SHARES))
        over = np.flatnonzero(wealth > -log(FALSE_ALARM))
        if self.found_after is None and len(over):
            self.found_after = self.tokens + int(over[0]) + 1
        self.tokens += len(tokens)
        self.curve.append((self.tokens, float(wealth[-1])))

    def fits(self) -> list[Fit]:
        """Return all defects, the one that fits best first."""
        needed = -log(FALSE_ALARM / (len(self._log_wealth) * len(SHARES)))
        fits = []
        for name, wealth in self._log_wealth.items():
            mean, variance = self._growth[name]
            is_found = mean - _Z * np.sqrt(variance) > needed
            share = SHARES[int(is_found.argmax())] if is_found.any() else NEVER
            best = int(wealth.argmax())
            fits.append(
                Fit(
                    name=name,
                    log_wealth=float(wealth[best]),
                    share=SHARES[best],
                    found_share=share,
                    found_variation=share * self._variation[name] / self.tokens,
                )
            )
        return sorted(fits, key=lambda fit: -fit.log_wealth)


def lookup_guesses(prompts: Sequence[str], texts: Int64[np.ndarray, "B N"], letters: str) -> Int64[np.ndarray, "B N"]:
    """Return the token that followed the last two tokens when they came before; -1 where they never did.

    Args:
        prompts: Prompt of each text.
        texts: Ids that continue the prompts.
        letters: Letter of each id, in order; prompts consist of them.
    """
    guesses = np.full(texts.shape, -1, dtype=np.int64)
    for row, (prompt, text) in enumerate(zip(prompts, texts.tolist(), strict=True)):
        seen: dict[tuple[int, int], int] = {}
        ids = [letters.index(letter) for letter in prompt] + text
        for at in range(2, len(ids)):
            pair = ids[at - 2], ids[at - 1]
            if at >= len(prompt):
                guesses[row, at - len(prompt)] = seen.get(pair, -1)
            seen[pair] = ids[at]
    return guesses
