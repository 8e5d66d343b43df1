"""Everything that is used of transformers outside its documented interface exists, and the cache is passed by name."""

import ast
import inspect
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from support.chat_folder import byte_tokenizer, network
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM

import draftscope as ds
from draftscope.engines.models import transformers_api as api
from draftscope.traces.files import ROOT

PRIVATE = ("transformers.cache_utils", "transformers.models.llama", "modeling_gguf_pytorch_utils")
"""Modules whose names transformers does not document as an interface."""


def test_no_other_module_imports_what_may_change() -> None:
    for file in [*(ROOT / "engines").rglob("*.py"), *(ROOT / "draftscope").rglob("*.py")]:
        if file.name == "transformers_api.py":
            continue
        text = file.read_text(encoding="utf-8")
        imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in imported for alias in node.names}
        assert not [name for name in names if any(private in name for private in PRIVATE)], file


def test_layers_of_caches_can_be_cut() -> None:
    cache = DynamicCache()
    cache.layers = [api.DynamicLayer()]
    cache.update(torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 4), 0)
    cache.crop(-2)
    assert cache.get_seq_length() == 3 and isinstance(cache, api.Cache)
    assert {"sliding_window"} <= inspect.signature(api.DynamicSlidingWindowLayer).parameters.keys()
    assert issubclass(api.DynamicSlidingWindowLayer, api.DynamicLayer) and api.DummyLayer().is_croppable


def test_a_recurrent_state_is_told_from_a_cache() -> None:
    mamba = MambaForCausalLM(MambaConfig(vocab_size=16, hidden_size=16, state_size=4, num_hidden_layers=1))
    assert api.is_stateful(mamba) and not api.is_stateful(network())


def test_the_attention_kernel_of_a_config_is_left_to_transformers() -> None:
    config = GPT2Config(attn_implementation="flash_attention_2")
    api.use_default_attention(config)
    assert GPT2LMHeadModel(config).config._attn_implementation != "flash_attention_2"


def test_the_cache_is_found_by_either_name() -> None:
    cache = DynamicCache()
    for name in ("cache", "past_key_values"):
        assert api.cache_of({name: cache}) is cache is api.cache_of(type("Output", (), {name: cache})())
    assert api.cache_of({}) is None
    assert api.cache_argument(network()) in inspect.signature(type(network()).forward).parameters


def test_layers_of_llama_take_what_a_drafter_gives_them() -> None:
    layer = api.LlamaDecoderLayer(network().config, 0)
    assert {"hidden_states", "position_embeddings"} <= inspect.signature(layer.forward).parameters.keys()
    assert api.LlamaRMSNorm(8)(torch.ones(2, 8)).shape == (2, 8)


def test_a_gguf_file_is_read_by_a_function_of_these_arguments(tmp_path: Path) -> None:
    reader: Any = api.gguf_reader(tmp_path / "it.gguf")
    assert {"return_tensors", "model_to_load", "torch_dtype"} <= inspect.signature(reader.func).parameters.keys()


def test_decoding_raises_no_warning() -> None:
    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=259, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
    for target in (network(), gpt2.eval()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for drafter in ("lookup", "itself"):
                ds.run(
                    "speculative",
                    target=target,
                    tokenizer=byte_tokenizer(),
                    prompt="a b a b",
                    drafter=drafter,
                    length=8,
                )


def test_inputs_of_offloaded_weights_go_to_the_device_of_the_pass() -> None:
    model = network()
    assert api.input_device(model) == torch.device("cpu")
    fake = SimpleNamespace(device=torch.device("meta"), _hf_hook=SimpleNamespace(execution_device="cpu"))
    assert api.input_device(fake) == torch.device("cpu")
    assert api.input_device(SimpleNamespace(device=torch.device("meta"))).type == "meta"


def test_weights_that_are_loaded_in_every_pass_have_hooks_of_accelerate() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert not api.is_offloaded(network)
    network[0]._hf_hook = SimpleNamespace()
    assert api.is_offloaded(network)


def test_tokens_are_counted_however_they_are_passed() -> None:
    target, ids = network(), torch.ones(1, 3, dtype=torch.long)
    with api.fed_token_counts(target) as counts, api.fed_token_counts(None) as none:
        target(ids)
        target(input_ids=ids[:, :1])
    target(ids)
    assert counts == [3, 1] and none == []
