"""The seeded decoder end to end: the joint of what it draws, against the table it draws from."""

import itertools
from dataclasses import replace

import pytest
from scipy import stats

from engines.runtime.driver import sample_tokens
from engines.runtime.request import Request
from engines.testing.tables import Table

CHAINS = 1500


@pytest.mark.slow
def test_seeded_samples_follow_the_joint() -> None:
    """Enumeration proves the decoder; this proves that seeded randomness gives it what it asks for."""
    table = Table(4, 3, seed=11)
    first = Request("scd", table, "", seed=5, settings={"coupling": "gumbel", "window": 4}).job()
    counts = dict.fromkeys(itertools.product(range(3), repeat=4), 0)
    for tokens in sample_tokens([replace(first, sample=i) for i in range(CHAINS)]):
        counts[tuple(tokens)] += 1
    joint = table.joint()
    common = [key for key in counts if joint[key] * CHAINS >= 5]
    rest = [key for key in counts if key not in common]
    observed = [*(counts[key] for key in common), sum(counts[key] for key in rest)]
    expected = [*(joint[key] * CHAINS for key in common), sum(joint[key] for key in rest) * CHAINS]
    assert stats.chisquare(observed, expected).pvalue > 1e-4
