"""SmolLM2-135M-Instruct as a block diffusion language model: the published weights, and an adapter that ships.

The base model is downloaded (`draftscope model download smollm2`); the adapter is in assets/models.
"""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Final

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from draftscope.engines.models import loading
from draftscope.engines.models.block_adapter import BlockAdapter, BlockLM
from draftscope.engines.models.bundled.catalog import card_of
from draftscope.engines.models.bundled.manifest import entry_of, verify
from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.errors import ModelError, ModelWarning
from draftscope.engines.paths import ASSETS

BASE: Final = "smollm2"
_FOLDER: Final = ASSETS / "models"
_WEIGHTS: Final = "model.safetensors"


@cache
def load(model_id: str, device: str = "cpu") -> BlockLM:
    """Load smollm2 with its adapter, once per device.

    Args:
        model_id: Name of the adapter's file, without `.safetensors`.
        device: A single device, such as "cpu" or "cuda:0".

    Raises:
        ModelError: If a file is missing or damaged, or the adapter is of another network.
    """
    file, remedy = f"{model_id}.safetensors", "Restore assets/models from the repository: git checkout -- assets/models"
    entry = entry_of(_FOLDER, model_id, model_id)
    weights = verify(_FOLDER, {file: entry.get("sha256", "")}, model_id, remedy)
    base = loading.load(download_dir(BASE), device, torch.float32)  # the lean form that the adapter is added to
    assert isinstance(base, CausalCheckpoint)
    published, config = download_dir(BASE) / _WEIGHTS, base.network.config
    parts = {name: weight.to(device) for name, weight in load_file(_FOLDER / file).items()}
    with safe_open(_FOLDER / file, "pt") as opened:
        trained_on = (opened.metadata() or {}).get("base_sha256", "")
    shape, here = _shape(parts), (config.num_hidden_layers, config.hidden_size)
    found = sha256(published)
    if shape != here:
        raise ModelError(
            f"{model_id}: its adapter belongs to weights with SHA-256 {trained_on[:12]}... of {shape[0]} layers with "
            f"{shape[1]} numbers, and those of {BASE} here have {here[0]} and {here[1]}. {remedy}"
        )
    if found != trained_on:
        warnings.warn(
            f"{model_id}: its adapter was trained on weights of {BASE} with SHA-256 {trained_on[:12]}..., those here "
            f"have {found[:12]}...; what is verified stays exact, and fewer drafts may be accepted",
            ModelWarning,
            stacklevel=2,
        )
    names = ("input_layernorm", "post_attention_layernorm")
    with safe_open(published, "pt") as opened:
        norms = [
            tuple(opened.get_tensor(f"model.layers.{i}.{name}.weight").to(device).float() for name in names)
            for i in range(config.num_hidden_layers)
        ]
    head_dim = config.hidden_size // config.num_attention_heads
    adapter = BlockAdapter(parts, [(before, between) for before, between in norms], head_dim)
    return BlockLM(base, adapter, card_of(model_id, {**base.card.weights, **weights}))


def _shape(parts: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the layers of an adapter, and the width of their states."""
    layers = {name.split(".")[1] for name in parts if name.startswith("layers.")}
    return len(layers), parts["mask"].shape[-1]
