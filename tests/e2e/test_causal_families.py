"""Every causal language model of the installed transformers, tiny and random, decodes what `generate` does."""

from importlib.metadata import version
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

import draftscope as ds
from benchmarks import families

REFUSED = {"cpmant", "prophetnet", "xlm", "xlnet"}
"""Their logits change when tokens follow."""
BENCHED = ("gpt_neox", "mamba2", "qwen3_moe", "gemma3_text", "mpt")
"""Parallel layers, recurrent state, experts, windows, and a config that turns its cache off."""
ALWAYS = {
    *REFUSED, *BENCHED, "llama", "qwen3", "gpt2", "gpt_oss", "gemma3", "mistral", "mixtral", "phi3", "falcon", "bloom",
    "opt", "cohere2", "deepseek_v3", "olmo2", "smollm3", "mamba", "jamba", "recurrent_gemma",
    "rwkv", "xglm",
}  # fmt: skip
"""Families of every kind of cache and position; the others are built of the same layers, and wait for the night."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model_type",
    [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.nightly) for name in families.model_types()],
)
def test_a_family_decodes_what_generate_does(model_type: str) -> None:
    found = families.check_family(model_type)
    if model_type in families.UNTRIED:
        assert found.outcome == "untried"
    elif model_type in REFUSED:
        assert found.outcome == "refused" and "attention" in found.note and "is not causal" in found.note
    else:
        assert found.outcome in ("same", "uncached"), found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", BENCHED)
def test_bench_ends_with_a_table(tmp_path: Path, model_type: str) -> None:
    network, folder = families.tiny_network(model_type), tmp_path / model_type
    network.save_pretrained(folder)
    families.tiny_tokenizer().save_pretrained(folder)
    measured = ds.bench(str(folder), [families.PROMPT], length=8, gammas=(3,))
    lines = {line["label"]: line for line in measured.table()}
    assert {"ordinary", "speculative, lookup, gamma 3", "generate"} <= lines.keys()
    assert all(line["same"] == 1 for line in lines.values()), lines


def test_the_list_of_the_documentation_is_that_of_the_installed_transformers() -> None:
    text = families.DOCS.read_text(encoding="utf-8")
    listed = text.split(families.MARKS[0])[1].split(families.MARKS[1])[0]
    assert f"With transformers {version('transformers')}," in listed
    missing = [name for name in families.model_types() if f"`{name}`" not in listed]
    assert not missing


@pytest.mark.slow
def test_all_families_of_the_mapping_are_checked() -> None:
    types = families.model_types()
    assert len(types) > 150 and all(CONFIG_MAPPING[name] in MODEL_FOR_CAUSAL_LM_MAPPING for name in types)
    assert set(types) >= ALWAYS and families.UNTRIED.keys() < set(types)
