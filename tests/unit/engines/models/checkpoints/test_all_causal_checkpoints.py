"""Folders are read as transformers reads them: config, files, ends, tensors and attention."""

import json
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.chat_folder import byte_tokenizer, network, write
from transformers import AutoModelForCausalLM, BertConfig, BertLMHeadModel, ProphetNetConfig, ProphetNetForCausalLM

import draftscope as ds
from benchmarks.families import tiny_network
from draftscope.engines.models.checkpoints.causal_network import estimate_cached_numel, traits_of
from draftscope.engines.models.errors import ModelError, ModelWarning
from draftscope.engines.models.loading import load, needs_of
from draftscope.engines.models.transformers_api import cache_of

PROMPT = "a b c a b"
SHORT: dict[str, Any] = {"prompt": PROMPT, "top_k": 1, "length": 12}


def tokens(folder: str, method: str = "ar", **settings: Any) -> list[int]:
    trace = ds.run(method, model=folder, **SHORT | settings)
    return [token for token in trace.output.tokens[: trace.summary.tokens] if isinstance(token, int)]


def generated(folder: str, length: int = 12) -> list[int]:
    found: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([byte_tokenizer()(PROMPT)["input_ids"]])
    options = {"max_new_tokens": length, "do_sample": False, "pad_token_id": 0}
    out = found.generate(ids, attention_mask=torch.ones_like(ids), **options)
    return [int(token) for token in out[0, ids.shape[1] :]]


def change_weights(folder: str, change: Any) -> None:
    file = Path(folder) / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


@pytest.mark.parametrize("family", ["gpt_neox", "mamba2", "deepseek_v4"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_families_whose_configs_mislead(tmp_path: Path, family: str) -> None:
    """is_decoder is False, a limit is infinite, a table is of whole numbers."""
    folder = tmp_path / family
    tiny_network(family).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    wanted = generated(str(folder))
    assert tokens(str(folder)) == wanted == tokens(str(folder), "speculative", drafter="lookup", gamma=3)


def test_an_encoder_is_refused_by_its_attention_and_a_decoder_of_its_class_is_not(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 259, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "initializer_range": 0.3, "pad_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    encoder = BertLMHeadModel(BertConfig(**sizes)).eval()
    settings: dict[str, Any] = {"tokenizer": byte_tokenizer(), **SHORT}
    with pytest.raises(ValueError, match=r"target: the attention of BertLMHeadModel is not causal, .*is_decoder=true"):
        ds.run("ar", target=encoder, **settings)
    encoder.save_pretrained(tmp_path / "bert")
    byte_tokenizer().save_pretrained(tmp_path / "bert")
    with pytest.raises(ModelError, match=r"bert: .*is not causal") as caught:
        tokens(str(tmp_path / "bert"))
    assert "Fetch it again" not in str(caught.value)
    decoder = BertLMHeadModel(BertConfig(**sizes, is_decoder=True)).eval()
    assert ds.run("ar", target=decoder, **settings).summary.tokens


def test_a_network_whose_logits_depend_on_the_length_of_a_text_is_refused() -> None:
    torch.manual_seed(0)
    config = ProphetNetConfig(
        vocab_size=259, hidden_size=32, num_decoder_layers=2, num_encoder_layers=2, decoder_ffn_dim=48,
        encoder_ffn_dim=48, num_decoder_attention_heads=4, num_encoder_attention_heads=4, init_std=0.3, pad_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    prophet = ProphetNetForCausalLM(config).eval()
    with pytest.raises(ValueError, match=r"is not causal, as its logits change when tokens follow"):
        traits_of(prophet, "target")


def test_a_cache_that_gives_other_logits_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    other: Any = type(network())(network().config).eval()
    assert traits_of(network(), "target").has_cache
    forward = type(other).forward

    @wraps(forward)
    def forgetful(self: Any, *settings: Any, **options: Any) -> Any:
        if options.get("use_cache") and options["input_ids"].shape[1] > 1 and cache_of(options).get_seq_length():
            raise AssertionError("caches are only supported for single tokens")
        return forward(self, *settings, **options)

    monkeypatch.setattr(type(other), "forward", forgetful)
    assert not traits_of(other, "target").has_cache
    options: dict[str, Any] = {"target": other, "tokenizer": byte_tokenizer(), **SHORT}
    lookup = ds.run("speculative", drafter="lookup", gamma=3, **options)
    assert lookup.output.tokens == ds.run("ar", **options).output.tokens


@pytest.mark.parametrize("family", ["minicpm3", "qwen3_moe", "gemma4_text", "gpt2"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_the_cache_is_estimated_from_the_network_on_the_meta_device(tmp_path: Path, family: str) -> None:
    tiny = tiny_network(family)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(tiny.config)
    assert estimate_cached_numel(empty) == traits_of(tiny, "target").cached_numel > 0
    tiny.save_pretrained(tmp_path / family)
    byte_tokenizer().save_pretrained(tmp_path / family)
    assert needs_of(str(tmp_path / family)).position == traits_of(tiny, "target").cached_numel


def test_ends_are_those_of_generate(tmp_path: Path) -> None:
    folder = write(tmp_path / "ends", eos_token_id=7)
    file = tmp_path / "ends" / "generation_config.json"
    first = tokens(folder)
    for ends in (first[3], [first[5], 9], -1, 10**6, None):
        file.write_text(json.dumps({"eos_token_id": ends}))
        (tmp_path / "ends" / "chat_template.jinja").unlink(missing_ok=True)
        other = tmp_path / f"ends-{ends}"
        (tmp_path / "ends").rename(other)
        assert tokens(str(other)) == generated(str(other))
        assert load(other).ends == (() if ends is None else (ends,) if isinstance(ends, int) else tuple(ends))
        other.rename(tmp_path / "ends")
    file.unlink()
    (tmp_path / "ends").rename(tmp_path / "alone")
    assert load(tmp_path / "alone").ends == (7,)
    (tmp_path / "alone").rename(tmp_path / "ends")
    file.write_text('{"eos_token_id": "<|end|>"}')
    (tmp_path / "ends").rename(tmp_path / "named")
    with pytest.raises(ModelError, match=r"named: .*eos_token_id") as caught:
        load(tmp_path / "named")
    assert "Fetch it again" not in str(caught.value) and "\n" not in str(caught.value)


def test_one_file_is_read_where_an_index_names_others(tmp_path: Path) -> None:
    folder = write(tmp_path / "stale")
    index = {"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}
    (tmp_path / "stale" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert tokens(folder) == generated(folder)


def test_tensors_without_a_place_are_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = write(tmp_path / "extra")
    wanted = generated(folder)
    change_weights(folder, lambda state: state | {"score.weight": torch.zeros(2, 32), "mtp.0.weight": torch.zeros(2)})
    sentence = r"extra: tensor 'mtp.0.weight' is not used, and so are 1 more; LlamaForCausalLM has no place for it"
    with pytest.warns(ModelWarning, match=sentence):
        assert tokens(folder) == wanted


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda state: {name: part for name, part in state.items() if "lm_head" not in name},
            "'lm_head.weight' is missing",
        ),
        (lambda state: state | {"lm_head.weight": torch.zeros(3, 32)}, r"'lm_head.weight' has shape \[3, 32\]"),
        (
            lambda state: {name: part.to(torch.float8_e4m3fn) for name, part in state.items()},
            "stored as torch.float8_e4m3fn; only plain floats are read",
        ),
    ],
)
def test_what_is_complete_is_not_to_be_fetched_again(tmp_path: Path, change: Any, problem: str) -> None:
    folder = write(tmp_path / "it")
    change_weights(folder, change)
    with pytest.raises(ModelError, match=problem) as caught:
        tokens(folder)
    assert "Fetch it again" not in str(caught.value)


def test_a_file_that_is_cut_off_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "it")
    file = tmp_path / "it" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ModelError, match=r"model.safetensors cannot be read: .*Fetch it again"):
        tokens(folder)


def test_a_tokenizer_may_have_more_tokens_than_the_network(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<new>"])
    folder = write(tmp_path / "it", tokenizer=tokenizer)
    assert tokens(folder) == generated(folder)
    with pytest.raises(ValueError, match="259 is outside the vocabulary of 259"):
        tokens(folder, prompt="<new>")


@pytest.mark.slow
def test_a_run_that_is_cut_in_a_character_has_the_text_before_it(tmp_path: Path) -> None:
    model = load(Path(write(tmp_path)), "cpu")
    fox = byte_tokenizer()("🦊", add_special_tokens=False).input_ids
    assert [model.render_output([*fox, *fox[:part]]).text for part in range(5)] == ["🦊", "🦊", "🦊", "🦊", "🦊🦊"]
    assert model.answer_text([*fox, *fox[:3]]) == "🦊"


@pytest.mark.slow
@pytest.mark.parametrize("field", ["attn_implementation", "_attn_implementation"])
def test_a_config_that_names_an_attention_kernel_is_read_without_it(tmp_path: Path, field: str) -> None:
    alone = tokens(write(tmp_path / "plain"))
    assert tokens(write(tmp_path / "named", **{field: "flash_attention_2"})) == alone
