"""Drafts by lookup: where the copy begins, and that copied drafts are certain."""

import torch

from draftscope.engines.ar.prompt_lookup import copied_drafts, look_up
from draftscope.engines.testing.toy_models import Table


def test_lookup_repeats_what_followed_before() -> None:
    assert look_up([3, 1, 2, 0, 3, 1, 2], 7, 1) == 3
    assert look_up([0, 1, 2, 3], 4, 1) == 4
    assert look_up([0], 1, 1) == 1
    assert look_up([1, 2, 0, 1, 2], 5, 3) == 5
    assert look_up([3, 1, 2, 0, 3, 1, 2], 7, 4) == 7
    assert [look_up([1, 0, 1, 2, 1, 3, 1], copied_to, 1) for copied_to in (0, 2, 5, 6, 7)] == [1, 3, 5, 5, 5]
    x, q = copied_drafts([0, 3, 1], Table(2, 4, seed=0).task)
    assert torch.equal(q[:-1], torch.eye(4, dtype=torch.float64)[x]) and not q[-1].any() and x.tolist() == [0, 3, 1]
