"""The studio language models: they solve maths problems, or keep a tally. Weights ship in assets/models."""

from functools import cache
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from draftscope.engines.models.bundled import tally
from draftscope.engines.models.bundled.image import FOLDER
from draftscope.engines.models.bundled.manifest import READS, entry_of, verify
from draftscope.engines.models.checkpoint_files import CONFIG, CheckpointDir
from draftscope.engines.models.checkpoints.build import native_network
from draftscope.engines.models.diffusion_lm import DiffusionLM, Traits
from draftscope.traces.schema import ModelCard

MASK, END, PAD = "<mask>", "<end>", "<pad>"
_SIZES: Final = (1, 2, 4, 8, 16, 32)


@cache
def load(model_id: str, device: str = "cpu") -> DiffusionLM:
    """Return a studio language model, loaded once per device.

    Args:
        model_id: One of the bundled language models, such as "text-target".
        device: A single device, such as "cpu" or "cuda:0".

    Raises:
        ModelError: If a file is missing or is not the one in the manifest.
    """
    folder, (family, _, kind) = FOLDER / model_id, model_id.partition("-")
    tokens = f"{family}-tokenizer.json"
    source = CheckpointDir(model_id, folder, f"Restore assets/models, or retrain: python -m training.{family} {kind}")
    entry = entry_of(FOLDER, model_id, model_id)
    listed = {Path(file).name for file in entry.get(READS, {})} | entry.keys()
    if missing := [part for part in (CONFIG, tokens, "files", "title", "full", "shift") if part not in listed]:
        raise source.incomplete(f"MANIFEST.json has no {missing[0]} of it")
    files = verify(FOLDER, entry[READS], model_id, source.remedy)
    weights = {file.name: entry["files"].get(file.name, "") for file in source.files()}
    verify(folder, weights, model_id, source.remedy)
    config = Qwen3Config.from_pretrained(folder)
    network = native_network(source, Qwen3ForCausalLM, config, source.tensors(), torch.float32)
    tokenizer = Tokenizer.from_file(str(FOLDER / tokens))
    card = ModelCard(id=model_id, title=entry["title"], weights=weights, files=files)
    sizes = (8, 16, 32) if entry["full"] else _SIZES
    ids, read = tokenizer.get_vocab(), (lambda prompt: tally.read(prompt).prompt) if family == "tally" else str.strip
    traits = Traits(ids[MASK], (ids[END],), entry["shift"], entry["full"], sizes, read=read)
    return DiffusionLM(network, tokenizer, traits, card, torch.device(device))
