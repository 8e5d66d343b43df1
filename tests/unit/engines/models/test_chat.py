"""A prompt is put in the tokenizer's own chat template, from folders and objects, and `generate` says the same."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_llama import Letters, greedy, llama
from support.tiny_text_checkpoints import LETTERS, MERGES
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import draftscope as ds
from draftscope.engines.models.catalog import is_available
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.fast_decoder import LeanCausalLM
from draftscope.engines.models.loading import load
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant<|im_end|>\n{% endif %}"
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for turn in messages %}<|start_header_id|>{{ turn['role'] }}<|end_header_id|>\n\n"
    "{{ turn['content'] | trim }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n"
)
GEMMA = (
    "{{ bos_token }}{% for turn in messages %}{% if turn['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<start_of_turn>{{ 'model' if turn['role'] == 'assistant' else turn['role'] }}\n{{ turn['content'] }}"
    "<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
PHI = "{% for turn in messages %}<|{{ turn['role'] }}|>\n{{ turn['content'] }}<|end|>\n{% endfor %}<|assistant|>\n"
KINDS: dict[str, tuple[str, list[str]]] = {
    "llama": (LLAMA3, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
    "qwen2": (CHATML, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "qwen3": (CHATML, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "gemma": (GEMMA, ["<start_of_turn>", "<end_of_turn>"]),
    "phi3": (PHI, ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]),
}
"""By `model_type`: the chat template, and special tokens."""
SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.4,
}  # fmt: skip
PROMPT, LENGTH = "say a hero?", 24
TURNS = [
    {"role": "user", "content": "a hero"},
    {"role": "assistant", "content": "here"},
    {"role": "user", "content": "the other?"},
]


@cache
def pair(kind: str) -> tuple[Any, Any]:
    """A random network with a tokenizer of letters, whose chat template is that of its family."""
    template, special = KINDS[kind]
    letters = sorted({*LETTERS, *map(chr, range(ord("a"), ord("z") + 1))})
    inner: Any = Tokenizer(models.BPE({piece: i for i, piece in enumerate([*letters, *map("".join, MERGES)])}, MERGES))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(name, special=True) for name in ("<bos>", *special)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<bos>", eos_token=special[-1])
    tokenizer.chat_template = template
    torch.manual_seed(1)
    sizes = {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.bos_token_id,
    }
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **sizes, pad_token_id=None))
    return network.eval().requires_grad_(False), tokenizer


def written(tmp_path: Path, kind: str) -> str:
    folder = tmp_path / f"my-{kind}"
    for part in pair(kind):
        part.save_pretrained(folder)
    return str(folder)


def answer(network: Any, ids: list[int], end: int) -> list[int]:
    """Return the greedy output of `generate`, up to its end."""
    tokens = greedy(network, ids, LENGTH, pad_token_id=0)
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens


@pytest.mark.parametrize("source", ["object", "folder"])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_the_templates_and_greedy_text_is_generates(kind: str, source: str, tmp_path: Path) -> None:
    network, tokenizer = pair(kind)
    options: dict[str, Any] = {"target": network, "tokenizer": tokenizer}
    if source == "folder":
        options = {"model": written(tmp_path, kind)}
    turns = [{"role": "user", "content": PROMPT}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    trace = ds.run("ar", prompt=PROMPT, top_k=1, length=LENGTH, **options)
    text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert (trace.prompt, trace.rendered) == (PROMPT, text)
    job = RunRequest("ar", options.get("model", network), PROMPT, tokenizer=options.get("tokenizer"), local=True).job()
    assert list(job.task.prompt_ids) == ids
    wanted = answer(network, ids, tokenizer.eos_token_id)
    assert list(trace.output.tokens)[: len(wanted)] == wanted
    lookup = ds.run("speculative", prompt=PROMPT, top_k=1, length=LENGTH, drafter="lookup", **options)
    assert lookup.output.text == trace.output.text
    if source == "folder":
        lean = isinstance(job.model.network, LeanCausalLM)
        assert lean == (kind in ("llama", "qwen2", "qwen3"))


@pytest.mark.parametrize("kind", ["qwen3", "phi3"])
def test_turns_a_system_turn_and_plain_text(kind: str, tmp_path: Path) -> None:
    network, tokenizer = pair(kind)
    for options in ({"target": network, "tokenizer": tokenizer}, {"model": written(tmp_path, kind)}):
        options |= {"top_k": 1, "length": LENGTH}
        system = {"role": "system", "content": "be short"}
        turns = ds.run("ar", messages=TURNS, system="be short", **options)
        text = tokenizer.apply_chat_template([system, *TURNS], add_generation_prompt=True, tokenize=False)
        assert (turns.prompt, turns.rendered) == ("the other?", text)
        plain = ds.run("ar", prompt=PROMPT, chat=False, **options)
        wanted = answer(network, tokenizer(PROMPT)["input_ids"], tokenizer.eos_token_id)
        assert list(plain.output.tokens)[: len(wanted)] == wanted and not plain.rendered
    by_ids = ds.run("ar", target=network, top_k=1, length=LENGTH, **tokenizer(PROMPT, return_tensors="pt"))
    assert by_ids.output.tokens == plain.output.tokens


def test_a_tokenizer_without_a_template_reads_plain_text_and_chatml_when_asked() -> None:
    network, tokenizer = pair("qwen2")
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|im_end|>")
    options: dict[str, Any] = {"target": network, "tokenizer": bare, "prompt": PROMPT, "length": 8}
    assert not ds.run("ar", **options).rendered
    record = ds.run("ar", chat=True, **options)
    assert record.rendered == f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"


def test_the_sampling_of_a_generation_config_is_a_preset(tmp_path: Path) -> None:
    folder = Path(written(tmp_path, "qwen2"))
    network, tokenizer = pair("qwen2")
    greedy_ = ds.run("ar", model=str(folder), prompt=PROMPT, preset="generation_config", length=8)
    assert greedy_.config["top_k"] == 1, "generate is greedy where nothing else is said"
    named = '{"do_sample": true, "temperature": 0.5, "top_p": 0.75'
    (folder / "generation_config.json").write_text(named + "}")
    sampled = ds.run("ar", model=str(folder), prompt=PROMPT, preset="generation_config", length=8).config
    assert (sampled["temperature"], sampled["top_k"], sampled["top_p"]) == (0.5, 50, 0.75)
    over = ds.run("ar", model=str(folder), prompt=PROMPT, preset="generation_config", length=8, top_k=3).config
    assert (over["temperature"], over["top_k"]) == (0.5, 3)
    (folder / "generation_config.json").write_text(named + ', "repetition_penalty": 1.1}')
    with pytest.raises(ConfigError, match=r"asks for repetition_penalty=1.1, which is not built; give temperature"):
        ds.run("ar", model=str(folder), prompt=PROMPT, preset="generation_config")
    with pytest.raises(ConfigError, match=r"'toy-raster' has no generation_config.json; leave it out"):
        ds.run("ar", model="toy-raster", preset="generation_config")
    options: dict[str, Any] = {"target": network, "tokenizer": tokenizer, "prompt": PROMPT}
    assert ds.run("ar", preset="generation_config", length=8, **options).config["top_k"] == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"prompt": PROMPT, "system": "be short"}, r"chat: the chat template of .* refuses these turns \(System role"),
        ({"prompt": "a " * 300}, r"prompt: the prompt has \d+ tokens, and .* has room for 246 plus an answer of 10"),
        ({"prompt": PROMPT, "length": 256}, r"length: 256 is too much for .*, which has room for 256 tokens"),
        ({"prompt": "a <end_of_turn>"}, "prompt: holds '<end_of_turn>', which .* keeps for itself; leave it out"),
        ({"prompt": " "}, "prompt: is empty; ask a question"),
        ({"messages": [{"role": "user"}]}, "messages: must be a list of turns, such as"),
        ({"messages": TURNS, "prompt": PROMPT}, "messages: cannot be combined with prompt"),
        ({"messages": TURNS, "chat": False}, "messages: cannot be combined with chat=False"),
        ({"prompt": PROMPT, "chat": "yes"}, "chat: 'yes' is not allowed; use True or False"),
        ({"prompt": PROMPT, "system": ""}, "system: '' is not allowed; use a text"),
    ],
    ids=str,
)
def test_what_cannot_be_put_is_said_in_a_sentence(options: dict[str, Any], problem: str) -> None:
    network, tokenizer = pair("gemma")
    with pytest.raises(ValueError, match=problem) as caught:
        ds.run("ar", target=network, tokenizer=tokenizer, **{"length": 10} | options)
    assert "\n" not in str(caught.value)


def test_a_model_that_does_not_chat_says_so() -> None:
    with pytest.raises(ConfigError, match=r"system: needs a causal language model .*; leave it out for toy-raster"):
        ds.run("ar", model="toy-raster", system="be short")
    with pytest.raises(ValueError, match=r"chat: the chat template of .* refuses these turns"):
        ds.run("ar", target=llama(), tokenizer=Letters(), prompt="59B5", chat=True, length=8)


@pytest.mark.slow
@pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
def test_smollm2_is_asked_as_its_template_says_and_writes_what_generate_writes() -> None:
    folder, length, prompt = download_dir("smollm2"), 12, "Rewrite in the past tense: The river rises every spring."
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    turns = [{"role": "user", "content": prompt}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    job = RunRequest("ar", "smollm2", prompt, settings={"top_k": 1, "length": length}).job()
    assert list(job.task.prompt_ids) == ids and isinstance(job.model.network, LeanCausalLM)
    inputs = torch.tensor([ids])
    out = network.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=length, do_sample=False)
    wanted = tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)
    for method, values in (("ar", {}), ("speculative", {"drafter": "lookup"}), ("scd", {"window": 8})):
        trace = ds.run(method, model="smollm2", prompt=prompt, top_k=1, length=length, **values)
        assert trace.output.text == wanted
    assert load(folder).card.licence == "Apache-2.0" and "hero" not in wanted
