"""`ds.record` gives as many positions as generate gave tokens, though its last drafts reached past the end."""

from typing import Any

import pytest
import torch
from support.tiny_llama import PROMPT, llama, noisy

import draftscope as ds
from draftscope.traces import check


def tokens_of(new: int, draft: bool, with_output: bool) -> tuple[list[Any], list[int]]:
    """The tokens of the trace and those that generate returned."""
    ids = torch.tensor([PROMPT * 3])
    target = llama(3)
    options: dict[str, Any] = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 1}
    drafter = noisy(target, 0.05) if draft else None
    if drafter is not None:
        options = {"assistant_model": drafter}
    with ds.record(target, drafter) as recording:
        out = target.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, **options
        )
    trace = recording.trace(out if with_output else None)
    check(trace)
    return list(trace.output.tokens), out[0, ids.shape[1] :].tolist()


@pytest.mark.one_quick
@pytest.mark.parametrize(("draft", "with_output"), [(False, False), (False, True), (True, False), (True, True)])
def test_at_every_length(draft: bool, with_output: bool) -> None:
    for new in range(1, 12):
        tokens, returned = tokens_of(new, draft, with_output)
        assert tokens == returned, new
