"""Block diffusion by an adapter: real tokens are the base model's, masks are as trained, and verification is exact."""

from functools import cache
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
from support.tiny_llama import llama
from torch import Tensor

from draftscope.engines.methods import METHODS
from draftscope.engines.models.block_adapter import BlockAdapter, BlockLM
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint
from draftscope.engines.runtime.driver import Job, open_session
from draftscope.engines.testing.conformance import finish
from draftscope.engines.testing.enumeration import exact_distribution, largest_error
from draftscope.traces.schema import ModelCard
from training.smollm2_block import Adapter, Text, make_blocks, mask_states, real_states

CLOSE = 2e-5
LETTERS = "abcdefgh"


class Letters:
    """A tokenizer of single letters."""

    chat_template = None

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = {LETTERS[i]: i for i in range(vocabulary)}

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [self.vocabulary[letter] for letter in text]}

    def get_vocab(self) -> dict[str, int]:
        return self.vocabulary

    def decode(self, ids: list[int]) -> str:
        return "".join(LETTERS[i] for i in ids)


def trained(network: Any) -> Adapter:
    """An adapter that changes what it is added to."""
    torch.manual_seed(3)
    adapter = Adapter(network, 4)
    with torch.no_grad():
        for name, weight in adapter.named_parameters():
            weight.copy_(weight.bfloat16())
            if name.endswith("b"):
                weight.normal_(0, 0.2)
    return adapter


@cache
def models(vocabulary: int = 4, seed: int = 0) -> tuple[BlockLM, CausalCheckpoint, Any, Adapter]:
    """The model, its base, and the network and adapter in the form in which they are trained."""
    network, lean = (llama.__wrapped__(seed, vocabulary=vocabulary) for _ in range(2))
    adapter = trained(network)
    norms = [(layer.input_layernorm.weight, layer.post_attention_layernorm.weight) for layer in network.model.layers]
    with torch.no_grad():
        built = BlockAdapter(
            {name: weight.detach() for name, weight in adapter.state_dict().items()},
            [(one.detach(), other.detach()) for one, other in norms],
            network.config.head_dim,
        )
    base = CausalCheckpoint(lean, Letters(vocabulary), ModelCard(id="base"), torch.device("cpu"))
    return BlockLM(base, built, ModelCard(id="tiny-block")), base, network, adapter


def job(method: str = "s2d2", prompt: str = "abda", vocabulary: int = 4, seed: int = 0, **values: Any) -> Job:
    config = METHODS[method].config(**{"length": 8, **values})
    small = models(vocabulary, 7)[0] if method == "simsd" else None
    return Job(METHODS[method], models(vocabulary)[0], prompt, config, seed, drafter=small)


def test_masks_are_those_that_were_trained() -> None:
    """A block after its anchor, of which two tokens are known: the states of training and those of decoding."""
    model, _, network, adapter = models(8)
    ids, anchor, filled, masks = torch.tensor([3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 7, 1]), 5, [2, 5], [1, 3, 4, 6]
    text = Text(ids, 1, sampled=False)
    blocks = make_blocks(
        [text], torch.tensor([[anchor]]), torch.tensor([[filled]]), torch.tensor([[masks]]), shift=True
    )
    with torch.inference_mode():
        wanted = mask_states(network, adapter, blocks, real_states(network, blocks)[1])[0, 0]
        length = anchor + 1 + max(masks)
        hidden_ids = ids[:length].clone()
        hidden_ids[[anchor + offset for offset in masks]] = model._mask
        seen = torch.zeros(1, 1, length, length)
        seen[..., : anchor + 1, :] = torch.zeros(length, length).masked_fill(
            torch.ones(length, length).triu(1).bool(), torch.finfo(torch.float32).min
        )[: anchor + 1]
        states = model._hidden(hidden_ids[None], torch.arange(length)[None], seen, None)[0]
        torch.testing.assert_close(states[[anchor + offset for offset in masks]], wanted, rtol=0, atol=CLOSE)
        real = [i for i in range(length) if int(hidden_ids[i]) != model._mask and i <= anchor]
        alone = network.model(ids[None, : anchor + 1]).last_hidden_state[0]
        torch.testing.assert_close(states[real], alone, rtol=0, atol=CLOSE)


def test_ordinary_decoding_is_the_base_models() -> None:
    model, base, *_ = models(8)
    for prompt in ("abc", "hgfedcba"):
        values = {"length": 24, "temperature": 1.0}
        jobs = [Job(METHODS["ar"], one, prompt, METHODS["ar"].config(**values), 1) for one in (model, base)]
        mine, theirs = map(finish, jobs)
        assert mine.output.tokens == theirs.output.tokens and mine.model.id == "tiny-block"


@pytest.mark.parametrize(
    "values", [{"router": "always"}, {"router": "never", "mode": "greedy"}, {"block": "16"}], ids=str
)
def test_decoding_in_blocks_ends_and_saves_passes(values: dict[str, Any]) -> None:
    trace = finish(job(vocabulary=8, length=24, **{"block": "8", "mode": "sample", "verdict": "ratio", **values}))
    assert trace.summary.complete and None not in trace.output.tokens
    assert trace.summary.forwards <= 24 + 6


def law(prompt: str, vocabulary: int) -> Any:
    """The base model's distribution after a text, by transformers."""
    network = models(vocabulary)[2]
    ids = [LETTERS.index(letter) for letter in prompt]

    @cache
    def after(tokens: tuple[int, ...]) -> Tensor:
        with torch.inference_mode():
            return network(torch.tensor([[*ids, *tokens]])).logits[0, -1].double().softmax(-1)

    return after


def error(method: str = "s2d2", **values: Any) -> float:
    """The largest error of the probability of a text, over all branches of runs on the networks."""
    values = {"length": 3, "mode": "sample"} | ({"verdict": "ratio"} if method != "self-spec" else {}) | values
    one = job(method, "abca", 3, **values)
    after, sessions, length = law("abca", 3), list[Any](), one.config.length

    def make(rng: Any) -> Any:
        sessions[:] = [open_session([one])]
        return one.method.decode(one.task, one.config, rng)

    def answer(request: Any) -> Tensor:
        probs: Tensor = sessions[0].forward({0: request}, one.config, lambda *_: None)[0].value
        assert not probs[..., 3].any(), "a mask is never an output"
        return probs

    wanted = {
        tokens: prod(float(after(tokens[:i])[token]) for i, token in enumerate(tokens))
        for tokens in product(range(3), repeat=length)
    }
    return largest_error(exact_distribution(make, answer), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("block", ["2", "4"])
@pytest.mark.parametrize(
    "values", [{}, {"causal_draft": True}, {"reuse_store_pass": False}, {"layout": "full"}], ids=str
)
def test_always_verifying_draws_the_base_models_distribution(block: str, values: dict[str, Any]) -> None:
    settings = {"block": block, "router": "always", **values}
    assert METHODS["s2d2"].deviation(job(verdict="ratio", mode="sample", **settings).config) == ""
    assert error(**settings) < CLOSE


@pytest.mark.slow
def test_what_is_not_verified_has_another_distribution() -> None:
    assert error(block="4", router="never", threshold=0.1) > 0.01


def test_a_block_longer_than_trained_is_refused() -> None:
    with pytest.raises(ValueError, match="block: tiny-block was trained for blocks of at most 16 tokens, not of 32"):
        _ = job(block="32").task


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "layout"), [pytest.param(2, "quadratic", marks=pytest.mark.nightly), (2, "linear")])
def test_self_speculation_draws_the_base_models_distribution(gamma: int, layout: str) -> None:
    assert error("self-spec", layout=layout, gamma=gamma, length=4) < CLOSE


def test_self_speculation_writes_the_greedy_text_in_fewer_passes() -> None:
    model, base, *_ = models(8)
    ordinary = finish(Job(METHODS["ar"], base, "abc", METHODS["ar"].config(length=24, top_k=1), 0))
    for layout in ("quadratic", "linear"):
        config = METHODS["self-spec"].config(length=24, layout=layout)
        trace = finish(Job(METHODS["self-spec"], model, "abc", config, 0))
        assert trace.output.tokens == ordinary.output.tokens
        assert trace.summary.forwards <= 24 - trace.summary.accepted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verifier", "block"), [*(pytest.param("eq1", size, marks=pytest.mark.nightly) for size in "12"), ("exact", "2")]
)
def test_simsd_from_left_to_right_draws_the_base_models_distribution(verifier: str, block: str) -> None:
    """In blocks of two the first token comes first, and real tokens attend to no mask: no draft reaches its verdict."""
    assert error("simsd", verifier=verifier, block=block, gamma=int(block)) < CLOSE


def test_simsd_drafts_with_the_same_adapter_and_verifies_several_tokens_in_a_pass() -> None:
    trace = finish(job("simsd", vocabulary=8, length=24, block="4", draft_threshold=0.0, drafter="itself"))
    drafts, verified = ([step for step in trace.steps if step.call.mode == mode] for mode in ("small_draft", "verify"))
    assert trace.summary.complete and max(len(step.position) for step in drafts) > 1
    assert len(verified) < 24 and trace.draft_model == trace.model
