"""The studio language models: they solve generated grade-school maths problems. Weights ship in assets/models."""

from functools import cache
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from engines.models.language_model import DiffusionLM, Kind
from engines.models.shipped import READS, entry_of, verify
from engines.models.studio.image import FOLDER
from engines.models.weights import CONFIG, Source, read_network
from traces.schema import ModelCard

MASK, END, PAD = "<mask>", "<end>", "<pad>"
_TOKENIZER: Final = "text-tokenizer.json"
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
    entry = entry_of(FOLDER, model_id, model_id)
    told = {Path(file).name for file in entry.get(READS, {})} | entry.keys()
    if missing := [part for part in (CONFIG, _TOKENIZER, "title", "full", "shift") if part not in told]:
        raise source.lacks(f"MANIFEST.json has no {missing[0]} of it")
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    if not found or found != sorted(entry.get("files", {})):
        raise source.lacks("weights are not those listed in MANIFEST.json" if found else "weights are missing")
    verify(folder, entry["files"], model_id, source.remedy)
    files = verify(FOLDER, entry[READS], model_id, source.remedy)
    network = read_network(source, Qwen3ForCausalLM, Qwen3Config.from_pretrained(folder), torch.float32)
    tokenizer = Tokenizer.from_file(str(FOLDER / _TOKENIZER))
    card = ModelCard(id=model_id, title=entry["title"], weights=entry["files"], files=files)
    sizes = (8, 16, 32) if entry["full"] else _SIZES
    ids = tokenizer.get_vocab()
    traits = Kind(ids[MASK], (ids[END],), entry["shift"], entry["full"], sizes)
    return DiffusionLM(network, tokenizer, traits, card, torch.device(device))
