"""Weights of a GGUF file keep the numbers of the file."""

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors.torch import load_file
from support.gguf_files import TOKENS, quantised_bytes, write_gguf
from support.tiny_llama import greedy
from transformers import Qwen2Config, Qwen2ForCausalLM

import draftscope as ds
from draftscope.engines.models.checkpoints.gguf_file import convert

pytestmark = pytest.mark.slow
KINDS = (gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K)


@pytest.fixture
def quantised(tmp_path: Path) -> tuple[Path, Any, dict[str, torch.Tensor]]:
    """A file of the types of Q4_K_M, its network, and its matrices as gguf's own dequantisation reads them."""
    torch.manual_seed(4)
    sizes = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 128}
    network = Qwen2ForCausalLM(Qwen2Config(num_attention_heads=4, num_key_value_heads=2, rope_theta=1e6, **sizes))
    data, wanted = {}, {}
    for number, (name, part) in enumerate(network.state_dict().items()):
        if part.dim() == 2:
            kind = KINDS[number % 2]
            parts = quantised_bytes(kind, tuple(part.shape), number)
            data[name], wanted[name] = (parts, kind), torch.from_numpy(gguf.dequantize(parts, kind))
    folder = tmp_path / "mine"
    folder.mkdir()
    write_gguf(folder / "it.gguf", network, data)
    network.load_state_dict(wanted, strict=False)
    return folder / "it.gguf", network.eval(), wanted


def test_quantised_weights_are_those_of_the_file_to_the_last_bit(
    tmp_path: Path, quantised: tuple[Path, Any, dict[str, torch.Tensor]]
) -> None:
    file, _, wanted = quantised
    convert(file, tmp_path / "made")
    found = load_file(tmp_path / "made" / "model.safetensors")
    assert len(wanted) > 14 and {found[name].dtype for name in wanted} == {torch.float32}
    assert [name for name, weights in wanted.items() if not torch.equal(found[name], weights)] == []
    assert any(not torch.equal(each.bfloat16().float(), each) for each in wanted.values())  # which it would lose


def test_its_greedy_text_is_that_of_a_network_with_these_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantised: tuple[Path, Any, dict[str, torch.Tensor]]
) -> None:
    file, network, _ = quantised
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    ids = [TOKENS.index(letter) for letter in ["u", "s", "e", "r", "Ġa", "Ġ", "he", "r", "o", "Ċ"]]
    trace = ds.run("ar", model=str(file), prompt="a hero", top_k=1, length=16)
    wanted = greedy(network, ids, 16, pad_token_id=0)
    assert list(trace.output.tokens)[: trace.summary.tokens] == wanted[: trace.summary.tokens]
    assert len(set(wanted)) > 3
