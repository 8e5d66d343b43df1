"""The benchmark of published sizes runs at small ones, and its sizes are the published ones."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaModel, Qwen3Config, Qwen3ForCausalLM

from benchmarks import gpu
from benchmarks._sizes import SIZES, TINY
from engines.methods import METHODS
from engines.models.catalog import MODELS


@pytest.mark.slow
def test_every_family_is_timed_pass_by_pass_and_beside_transformers(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    assert gpu.main(["--tiny", "--passes", "2", "--device", "cpu", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert not result["claims"], result["claims"]
    rows = result["rows"]
    methods = {name: [row["method"] for row in rows if row["family"] == name] for name in TINY}
    plain = ["ar", "scd", "transformers' generate"]
    assert methods == {
        "Janus-Pro": plain,
        "SDAR": ["blockwise", "blockwise", "ar", "transformers' generate"],
        "MAR": ["continuous", "cspd"],
        "Cosmos": plain,
    }
    assert all(row["parameters"] > 0 for row in rows)
    # Of `generate` it is the difference of two timings, which on a tiny network may come out below 0.
    passes = [row for row in rows if row["method"] in METHODS]
    assert all(row["whole_seconds"] >= row["seconds"] > 0 for row in passes)
    windows = [row["tokens_fed"] for row in rows if row["method"] == "scd"]
    assert all(fed > 1 for fed in windows)


@pytest.mark.parametrize(
    ("name", "listed", "beside"),
    [
        ("SDAR 1.7B", "JetLM/SDAR-1.7B-Chat", 0.0),
        ("SDAR 8B", "JetLM/SDAR-8B-Chat", 0.0),
        ("Cosmos 4B", "nvidia/Cosmos-1.0-Autoregressive-4B", 0.0),
        ("Janus-Pro 1B", "deepseek-community/Janus-Pro-1B", 0.4),
        ("Janus-Pro 7B", "deepseek-community/Janus-Pro-7B", 0.5),
    ],
)
def test_sizes_are_those_of_the_catalogue(name: str, listed: str, beside: float) -> None:
    """`beside` is what a Janus has beside its decoder, in gigabytes: the heads for codes, and the pixels in float32."""
    kind = LlamaModel if beside else Qwen3ForCausalLM
    config = kind.config_class(**SIZES[name]) if beside else Qwen3Config(**SIZES[name])
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in kind(config).parameters())
    assert abs(parameters * 2 / 1e9 + beside - MODELS[listed].gigabytes) < 0.15
