"""Grouped speculative decoding: groups of similar tokens and their acceptance."""

import pytest
import torch
from torch import Tensor

from benchmarks._toy_runs import decode_toy_raster
from draftscope.engines.methods.gsd import Config, group_probs
from draftscope.engines.settings import make_config
from draftscope.traces.schema import Trace

P = torch.tensor([[0.05, 0.10, 0.15, 0.20, 0.22, 0.28]], dtype=torch.float64)  # the id is the rank
Q = torch.tensor([[0.30, 0.25, 0.20, 0.12, 0.08, 0.05]], dtype=torch.float64)


def ratio(draft: int, embedding: Tensor | None = None, **values: object) -> tuple[float, float, int]:
    """p and q of the group of a draft, and its size."""
    config = make_config(Config, {"group": 2, "max_prob_difference": 1.0, **values})
    group_p, group_q, size = group_probs(torch.tensor([draft]), Q, P, config, embedding)
    return group_p.item(), group_q.item(), int(size)


def total(*ids: int) -> tuple[float, float, int]:
    return pytest.approx((float(P[0, list(ids)].sum()), float(Q[0, list(ids)].sum()), len(ids)))


def test_a_group_reaches_both_ways_and_is_cut_or_clamped_where_the_ranking_ends() -> None:
    """A clamped group counts the end for every rank that is missing."""
    assert ratio(2) == ratio(2, at_ranking_ends="clamp") == total(0, 1, 2, 3, 4)
    assert (ratio(5), ratio(4), ratio(0)) == (total(3, 4, 5), total(2, 3, 4, 5), total(0, 1, 2))
    assert (ratio(5, at_ranking_ends="clamp"), ratio(1, at_ranking_ends="clamp")) == (
        total(3, 4, 5, 5, 5),
        total(0, 0, 1, 2, 3),
    )


def test_members_are_about_as_likely_and_look_alike() -> None:
    assert ratio(5, max_prob_difference=0.07) == total(4, 5)
    far = torch.tensor([[0.0], [0.1], [0.2], [5.0], [0.3], [0.2]], dtype=torch.float64)
    assert ratio(5, far) == total(4, 5)


@pytest.mark.parametrize("ends", ["cut", "clamp"])
@pytest.mark.parametrize("values", [{"group": 0}, {"max_prob_difference": 0.0}])
def test_a_draft_always_belongs_to_its_own_group_once(ends: str, values: dict[str, object]) -> None:
    for draft in range(6):
        assert ratio(draft, at_ranking_ends=ends, **values) == total(draft)


@pytest.fixture(scope="module", params=["cut", "clamp"])
def by_groups(request: pytest.FixtureRequest) -> Trace:
    return decode_toy_raster("gsd", window=8, group=10, at_ranking_ends=request.param)


def test_the_bar_follows_from_the_columns_of_the_trace(by_groups: Trace) -> None:
    drafts = 0
    for step in by_groups.steps:
        names = ("group_p", "group_q", "group_size")
        for bar, *sums in zip(step.accept_prob, *(step.numbers[name] for name in names), strict=True):
            if bar is None:
                assert sums == [None] * 3
                continue
            p, q, size = (value or 0.0 for value in sums)
            assert bar == pytest.approx(min(1.0, p / q), rel=1e-4)
            assert 1 <= size <= 21
            drafts += 1
    assert drafts > 300
