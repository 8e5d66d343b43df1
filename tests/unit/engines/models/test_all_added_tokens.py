"""A drafter whose tokenizer has further tokens, or fewer, drafts, and the output keeps the target's distribution."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from support.chat_folder import byte_tokenizer, network, write
from transformers import LlamaConfig, LlamaForCausalLM

import draftscope as ds
from draftscope.engines.methods import METHODS
from draftscope.engines.models.checkpoints.causal_lm import CausalLM
from draftscope.engines.runtime.driver import Job, open_session
from draftscope.engines.settings import make_config
from draftscope.engines.testing.enumeration import Distribution, exact_distribution, largest_error

PROMPT = "return the sum of a list and the sum of"


class Words:
    """A tokenizer of a small named tokens."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [self.ids[letter] for letter in text]}

    def decode(self, ids: list[int]) -> str:
        names = {number: token for token, number in self.ids.items()}
        return "".join(names[number] for number in ids)

    def get_vocab(self) -> Mapping[str, int]:
        return self.ids


def tiny(rows: int, seed: int) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, initializer_range=0.7, eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def adding(folder: Path, *tokens: str) -> Any:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([*tokens])
    return tokenizer


def wider(folder: Path, tokenizer: Any) -> str:
    rows = len(tokenizer)
    network(rows, 512, seed=2).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.5, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("target_ids", "draft_ids"),
    [
        ({"a": 0, "b": 1, "c": 2}, {"a": 0, "b": 1, "c": 2, "<think>": 3, "</think>": 4}),
        ({"a": 0, "b": 1, "c": 2, "<tool>": 3}, {"a": 0, "b": 1, "c": 2}),
        ({"a": 0, "c": 2, "d": 3}, {"a": 0, "<think>": 1, "c": 2, "d": 3, "<tool>": 4}),
    ],
    ids=["more", "fewer", "within"],
)
def test_the_distribution_is_the_targets(
    target_ids: dict[str, int], draft_ids: dict[str, int], temperature: float
) -> None:
    rows = [max(ids.values()) + 1 for ids in (target_ids, draft_ids)]
    target, draft = (
        CausalLM(tiny(count, seed), "target", Words(ids))
        for count, seed, ids in zip(rows, (1, 2), (target_ids, draft_ids), strict=True)
    )
    length, method = 3, METHODS["speculative"]
    config = make_config(method.config, {"length": 8, "gamma": 2, "temperature": temperature})
    object.__setattr__(config, "length", length)
    job = Job(method, target, "ac" if "b" not in target_ids else "ab", config, 0, 0, draft)
    session = open_session([job])

    def answer(request: Any) -> Any:
        return session.forward({0: request}, config, lambda *_: None)[0].value

    got = exact_distribution(lambda rng: method.decode(job.task, config, rng), answer)
    ordinary = METHODS["ar"]
    plain = make_config(ordinary.config, {"length": 8, "temperature": temperature})
    object.__setattr__(plain, "length", length)
    alone = open_session([Job(ordinary, target, job.prompt, plain, 0)])
    wanted: Distribution = exact_distribution(
        lambda rng: ordinary.decode(job.task, plain, rng),
        lambda request: alone.forward({0: request}, plain, lambda *_: None)[0].value,
    )
    assert len(wanted) == rows[0] ** length
    assert largest_error(got, wanted) < 1e-6  # of float32 logits, which depend on how large tokens are in a pass
    assert any(token in draft_ids.values() for text in got for token in text)


@pytest.mark.parametrize("sampling", [{"top_k": 1}, {"same_noise": True}])
@pytest.mark.parametrize("larger", ["drafter", "target"])
def test_a_few_added_tokens_do_not_keep_a_drafter_away(tmp_path: Path, larger: str, sampling: dict[str, Any]) -> None:
    added = adding(tmp_path, "<think>", "</think>")
    small, large = write(tmp_path / "small"), wider(tmp_path / "large", added)
    target, draft = (small, large) if larger == "drafter" else (large, small)
    settings: dict[str, Any] = {"model": target, "prompt": PROMPT, "length": 16, **sampling}
    ordinary = ds.run("ar", **settings)
    trace = ds.run("speculative", draft=draft, gamma=3, likely=4, **settings)
    assert trace.output.tokens == ordinary.output.tokens
    drafted = {token for step in trace.steps for token in step.draft or () if isinstance(token, int)}
    assert drafted and max(drafted) < 259


def test_a_prompt_may_hold_tokens_that_the_drafter_lacks(tmp_path: Path) -> None:
    added = adding(tmp_path, "<think>", "</think>")
    small, large = write(tmp_path / "small"), wider(tmp_path / "large", added)
    settings: dict[str, Any] = {"model": large, "prompt": "<think>ab</think>a", "top_k": 1, "length": 16}
    assert (
        ds.run("speculative", draft=small, gamma=3, **settings).output.tokens == ds.run("ar", **settings).output.tokens
    )


def test_a_token_with_another_id_is_refused_by_name(tmp_path: Path) -> None:
    one, other = adding(tmp_path, "<think>", "</think>"), adding(tmp_path, "</think>", "<think>")
    target, draft = wider(tmp_path / "one", one), wider(tmp_path / "other", other)
    with pytest.raises(ValueError, match=r"other and one have different vocabularies: token '</think>' is 259"):
        ds.run("speculative", model=target, draft=draft, prompt=PROMPT, length=8)


def test_objects_with_padded_heads_draft_for_each_other() -> None:
    target, draft, tokenizer = network(), network(264, 512, seed=3), byte_tokenizer()
    settings: dict[str, Any] = {"target": target, "tokenizer": tokenizer, "prompt": PROMPT, "top_k": 1, "length": 16}
    assert ds.run("speculative", draft=draft, **settings).output.tokens == ds.run("ar", **settings).output.tokens
