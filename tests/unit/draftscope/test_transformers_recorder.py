"""`ds.record`: transformers' generate, recorded by its forward passes, compared with its result."""

from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from support.tiny_llama import PROMPT, Letters, greedy, llama, noisy
from transformers import GPT2Config, GPT2LMHeadModel

import draftscope as ds
from draftscope.engines.models.transformers_api import cache_argument
from draftscope.traces import Fate, Step, check

NEW = 40


def inputs(prompt: list[int] | None = None) -> dict[str, Any]:
    ids = torch.tensor([prompt or PROMPT])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def judging(trace: ds.Trace) -> list[Step]:
    return [step for step in trace.steps if step.call.role == "target"]


def recorded(
    target: Any, draft: Any = None, prompt: list[int] = PROMPT, tokenizer: Any = None, **options: Any
) -> tuple[ds.Trace, list[int]]:
    """The checked trace of a recorded generate, which begins with what it returned, and what it returned."""
    assisting = {} if draft is None else {"assistant_model": draft}
    with ds.record(target, draft, tokenizer=tokenizer) as recording:
        out = target.generate(**inputs(prompt), **{"max_new_tokens": NEW, "do_sample": False} | assisting | options)
    trace = recording.trace(out if options.get("do_sample") else None)
    check(trace)
    returned = [int(token) for token in out[0, len(prompt) :]]
    assert list(trace.output.tokens)[: len(returned)] == returned
    return trace, returned


def assisted(amount: float, **options: Any) -> tuple[ds.Trace, list[int]]:
    """With a drafter that is right less often the larger `amount` is."""
    target = llama()
    return recorded(target, noisy(target, amount), **options)


@pytest.mark.one_quick
@pytest.mark.parametrize(("amount", "sampled"), [(0.0, False), (0.05, False), (0.3, False), (1.0, False), (0.1, True)])
def test_a_recorded_assisted_generate_agrees_with_what_it_returned(amount: float, sampled: bool) -> None:
    torch.manual_seed(5)
    trace, returned = assisted(amount, do_sample=sampled)
    assert sampled or returned == greedy(llama(), PROMPT, NEW)
    assert trace.summary.complete
    assert trace.summary.accepted + len(judging(trace)) == len(returned) == trace.summary.tokens
    assert trace.method == "assisted generation"


@pytest.mark.slow
def test_drafts_are_judged_as_generate_judges_them() -> None:
    """In greedy decoding a draft is accepted if it is the most likely token, and the drafter's passes gave the
    drafts."""
    trace, _ = assisted(0.1)
    drafted: list[int] = []
    seen = Counter[Fate]()
    for step in trace.steps:
        if step.call.role == "draft":
            drafted += [int(token) for token in step.token]
            assert step.top[0][0][0] == step.token[0]
            continue
        judged = [token for token in step.draft or () if token is not None]
        assert judged == drafted
        drafted = []
        for fate, token, draft, top in zip(step.fate, step.token, step.draft or (), step.top, strict=False):
            seen[fate] += 1
            if fate is Fate.ACCEPTED:
                assert draft == token == top[0][0]
            elif fate is Fate.RESAMPLED:
                assert token == top[0][0] != draft
    assert seen[Fate.ACCEPTED] > 5
    assert seen[Fate.RESAMPLED] > 3


def test_p_and_q_are_those_of_the_networks() -> None:
    target, draft = llama(), noisy(llama(), 0.1)
    trace, _ = recorded(target, draft)
    text = [*PROMPT, *(int(token) for token in trace.output.tokens if token is not None)]
    checked = 0
    for step in judging(trace):
        for position, x, p, q in zip(step.position, step.draft or (), step.p or (), step.q or (), strict=False):
            if x is None or position != step.position[0]:
                continue  # After the first draft the text is that of the drafts.
            ids = torch.tensor([text[: len(PROMPT) + position]])
            with torch.inference_mode():
                expected = [float(each(ids).logits[0, -1].softmax(-1)[x]) for each in (target, draft)]
            assert (p, q) == (pytest.approx(expected[0], abs=1e-4), pytest.approx(expected[1], abs=1e-4))
            checked += 1
    assert checked > 3


@pytest.mark.parametrize("sampled", [False, True])
def test_prompt_lookup(sampled: bool) -> None:
    prompt = PROMPT * 3
    torch.manual_seed(2)
    options = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 1, "do_sample": sampled}
    trace, returned = recorded(llama(3), prompt=prompt, tokenizer=Letters(), **options)
    assert (trace.method, trace.prompt) == ("prompt lookup", Letters().decode(prompt))
    assert trace.summary.judged > 0
    assert trace.summary.accepted + trace.summary.forwards == len(returned)
    assert trace.output.text == Letters().decode(returned)


def test_an_ordinary_generate() -> None:
    trace, _ = recorded(llama(), max_new_tokens=10)
    assert (trace.method, trace.draft_model) == ("generate", None)
    assert list(trace.output.tokens) == greedy(llama(), PROMPT, 10)
    assert {fate for step in trace.steps for fate in step.fate} == {Fate.SAMPLED}
    assert [step.call.query_tokens for step in trace.steps] == [len(PROMPT)] + [1] * 9
    assert trace.summary.complete


def test_a_draft_that_ends_the_text() -> None:
    target = noisy(llama(), 0.0)
    draft = noisy(llama(), 0.02)
    stop = greedy(target, PROMPT, NEW)[6]
    target.generation_config.eos_token_id = draft.generation_config.eos_token_id = stop
    trace, returned = recorded(target, draft)
    assert returned[-1] == stop
    assert [token for token in trace.output.tokens if token is not None] == returned
    assert trace.summary.complete


def test_a_network_that_cannot_leave_out_logits() -> None:
    class Whole(GPT2LMHeadModel):
        """Answers for all positions, as older classes do."""

        def forward(
            self, input_ids: Any, cache: Any = None, past_key_values: Any = None, attention_mask: Any = None, **_: Any
        ) -> Any:
            options = {argument: past_key_values if cache is None else cache}
            return super().forward(input_ids, attention_mask=attention_mask, **options)

    argument = cache_argument(llama())
    torch.manual_seed(1)
    sizes = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": None}
    target = Whole(GPT2Config(n_embd=32, n_layer=2, n_head=4, initializer_range=0.4, **sizes)).eval()
    trace, _ = recorded(target, noisy(target, 0.1), max_new_tokens=20)
    assert trace.summary.accepted + len(judging(trace)) == 20
    with ds.record(target) as recording:
        target.generate(**inputs(PROMPT * 3), prompt_lookup_num_tokens=3, max_new_tokens=20, do_sample=False)
    with pytest.raises(ValueError, match="prompt and drafts of its first pass look alike"):
        recording.trace()


def test_an_interrupted_generate_is_incomplete() -> None:
    target = noisy(llama(), 0.0)
    recording = ds.record(target)
    handle = target.register_forward_pre_hook(Mock(side_effect=[*[None] * 5, KeyboardInterrupt]))
    with pytest.raises(KeyboardInterrupt), recording:
        target.generate(**inputs(), max_new_tokens=20, do_sample=False)
    handle.remove()
    trace = recording.trace()
    check(trace)
    assert not trace.summary.complete
    assert trace.summary.forwards == 5
    assert not target._forward_hooks
    assert not target._forward_pre_hooks


def test_several_generates_in_one_context() -> None:
    target = llama()
    with ds.record(target) as recording:
        target.generate(**inputs(), max_new_tokens=8, do_sample=False)
        target.generate(**inputs([7, 8]), max_new_tokens=9, do_sample=False)
    with pytest.raises(ValueError, match="call: 2 generate calls were recorded; choose one"):
        recording.trace()
    assert list(recording.trace(call=0).output.tokens) == greedy(target, PROMPT, 8)
    assert list(recording.trace(call=1).output.tokens) == greedy(target, [7, 8], 9)
    with pytest.raises(ValueError, match="call: 2 is out of range of the 2"):
        recording.trace(call=2)


def test_what_cannot_be_recorded_is_said() -> None:
    target = llama()
    with pytest.raises(ValueError, match="draft: is the target itself"):
        ds.record(target, target)
    with pytest.raises(ValueError, match="target: a str is not a model"):
        ds.record("gpt2")
    with ds.record(target) as recording, pytest.raises(ValueError, match="the context is still open"):
        recording.trace()
    with pytest.raises(ValueError, match="no pass of the target was recorded"):
        recording.trace()
    two = {name: ids.expand(2, -1) for name, ids in inputs().items()}
    for options, output, problem in (
        (two, None, "hold 2 texts; only generate with one text"),
        ({**inputs(), "use_cache": False}, None, "set use_cache=True"),
        (inputs(), [1, 2], "output: has 2 tokens where 9 became final"),
    ):
        with ds.record(target) as recording:
            target.generate(**options, max_new_tokens=4, do_sample=False)
        with pytest.raises(ValueError, match=problem):
            recording.trace(output)


def test_recording_changes_nothing() -> None:
    target, draft = llama(), noisy(llama(), 0.1)
    torch.manual_seed(3)
    plain = target.generate(**inputs(), assistant_model=draft, max_new_tokens=20, do_sample=True)
    torch.manual_seed(3)
    with ds.record(target, draft):
        watched = target.generate(**inputs(), assistant_model=draft, max_new_tokens=20, do_sample=True)
    assert torch.equal(plain, watched)


@pytest.mark.parametrize("sampled", [False, True])
def test_early_exit(sampled: bool) -> None:
    """Drafts are those of the first layers, verdicts those of all, and the text is what generate gave."""
    target = llama(layers=4)
    torch.manual_seed(3)
    trace, returned = recorded(target, assistant_early_exit=3, do_sample=sampled)
    assert sampled or returned == greedy(target, PROMPT, NEW)
    assert (trace.method, trace.draft_model) == ("early exit", None)
    assert trace.config == {"assistant_early_exit": 3}
    assert trace.summary.complete
    assert trace.summary.accepted + len(judging(trace)) == len(returned)
    fates = Counter(fate for step in trace.steps for fate in step.fate)
    assert fates[Fate.DRAFTED] > fates[Fate.ACCEPTED] > 2
    assert fates[Fate.RESAMPLED] > 2
    target.model.config.num_hidden_layers = 3
    with torch.inference_mode():
        q = target(torch.tensor([PROMPT + returned])).logits[0].softmax(-1)
    target.model.config.num_hidden_layers = 4
    compared = 0
    for step in judging(trace):
        if step.q and step.draft:  # The first draft's text is final; later drafts are preceded by drafts.
            at = len(PROMPT) + step.position[0] - 1
            assert step.q[0] == pytest.approx(float(q[at, step.draft[0]]), abs=1e-4)
            compared += 1
    assert compared > 3
