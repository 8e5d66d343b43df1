"""The studio language models: they solve generated grade-school maths problems. Weights ship in assets/models."""

import json
from functools import cache
from typing import Any, Final

import torch
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from engines.models.language_model import DiffusionLM, Kind
from engines.models.studio.image import FOLDER
from engines.models.weights import Source, read_network, sha256
from traces.schema import ModelCard

MASK, END, PAD = "<mask>", "<end>", "<pad>"
_SIZES: Final = (1, 2, 4, 8, 16, 32)


def load(model_id: str, device: str = "cpu") -> DiffusionLM:
    """A studio language model, loaded once per device and shared.

    Raises:
        ModelError: when files are missing or are not those in the manifest.
    """
    return _load(model_id, device)


@cache
def _load(model_id: str, device: str) -> DiffusionLM:
    folder, kind = FOLDER / model_id, model_id.removeprefix("text-")
    source = Source(model_id, folder, f"Restore assets/models, or retrain: python -m training.text {kind}")
    manifest: dict[str, Any] = json.loads((FOLDER / "MANIFEST.json").read_text()).get(model_id, {})
    weights = {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    if not weights or weights != manifest.get("files"):
        raise source.lacks("weights are not those listed in MANIFEST.json" if weights else "weights are missing")
    network = read_network(source, Qwen3ForCausalLM, Qwen3Config.from_pretrained(folder), torch.float32)
    tokenizer = Tokenizer.from_file(str(FOLDER / "text-tokenizer.json"))
    card = ModelCard(id=model_id, title=manifest["title"], weights=weights)
    sizes = (8, 16, 32) if manifest["full"] else _SIZES
    ids = tokenizer.get_vocab()
    traits = Kind(ids[MASK], (ids[END],), manifest["shift"], manifest["full"], sizes)
    return DiffusionLM(network, tokenizer, traits, card, torch.device(device))
