"""`ds.record` while a model drafts with its own first layers."""

from collections import Counter
from typing import Any

import pytest
import torch
from support.llamas import PROMPT, greedy, llama

import draftscope as ds
from traces import Fate, check

NEW = 24


def generate(target: Any, **options: Any) -> Any:
    ids = torch.tensor([PROMPT])
    return target.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, **options)


@pytest.mark.parametrize("sampled", [False, True])
def test_early_exit(sampled: bool) -> None:
    """Drafts are those of the first layers, verdicts those of all, and the text is what generate gave."""
    target = llama(layers=4)
    torch.manual_seed(3)
    with ds.record(target) as recording:
        out = generate(target, assistant_early_exit=3, do_sample=sampled)
    trace = recording.trace(out)
    check(trace)
    returned = [int(token) for token in out[0, len(PROMPT) :]]
    assert list(trace.output.tokens)[:NEW] == returned
    if not sampled:
        assert returned == greedy(target, PROMPT, NEW)
    assert (trace.method, trace.draft_model) == ("early exit", None)
    assert trace.config == {"assistant_early_exit": 3}
    assert trace.summary.complete
    judging = [step for step in trace.steps if step.call.role == "target"]
    assert trace.summary.accepted + len(judging) == len(returned)
    fates = Counter(fate for step in trace.steps for fate in step.fate)
    assert fates[Fate.DRAFTED] > fates[Fate.ACCEPTED] > 2
    assert fates[Fate.RESAMPLED] > 2
    text = torch.tensor([PROMPT + returned])
    target.model.config.num_hidden_layers = 3
    try:
        with torch.inference_mode():
            q = target(text).logits[0].softmax(-1)
    finally:
        target.model.config.num_hidden_layers = 4
    compared = 0
    for step in judging:
        if step.q and step.draft:  # The first draft's text is final; those behind it have drafts before them.
            at = len(PROMPT) + step.position[0] - 1
            assert step.q[0] == pytest.approx(float(q[at, step.draft[0]]), abs=1e-4)  # type: ignore[index]
            compared += 1
    assert compared > 3
