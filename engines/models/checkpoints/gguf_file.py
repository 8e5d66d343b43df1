"""GGUF files, as llama.cpp has them: what transformers can read of them becomes a checkpoint of safetensors, once."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import on_meta
from draftscope.engines.models.checkpoints.causal_lm import is_causal
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.transformers_api import gguf_reader
from draftscope.engines.paths import cache_dir


def converted(source: CheckpointDir, file: Path | None = None) -> CheckpointDir:
    """Return the cached conversion of a GGUF file, which is made on the first call.

    Args:
        source: Folder of the model, whose name the result keeps.
        file: The file; by default the only one in the folder.

    Raises:
        ModelError: If the file cannot be read, or the folder has several.
    """
    files = [file] if file else sorted(source.folder.glob("*.gguf"))
    if len(files) > 1:
        raise source.unsupported(f"has {len(files)} GGUF files; name one of them, such as {files[0]}")
    about = files[0].stat()
    # Conversions of earlier versions, in bfloat16, have other keys.
    key = f"{files[0].resolve()} {about.st_size} {about.st_mtime_ns} {torch.float32}"
    key = hashlib.sha256(key.encode()).hexdigest()[:16]
    target = cache_dir() / "gguf" / key
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".converting-", dir=target.parent) as scratch:
            result = Path(scratch) / "made"
            convert(files[0], result)
            result.rename(target)
    return CheckpointDir(source.name, target, source.remedy)


def convert(file: Path, target: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the weights, config.json and the tokenizer of a GGUF file into a new folder.

    Args:
        file: GGUF file of a causal language model.
        target: Folder, which must not exist.
        dtype: Number format of the weights; in float32, quantised weights keep the numbers of the file.

    Raises:
        ModelError: For a file that transformers does not read.
        OSError: For a folder that cannot be written.
    """
    read = gguf_reader(file)
    try:
        settings: dict[str, Any] = read()["config"]
        settings.pop("_model_name_or_path", None)
        if not is_causal(settings.get("model_type")):
            raise ValueError(f"{settings.get('model_type')!r} is not a causal language model of transformers")
        config = AutoConfig.for_model(**settings)
        network = on_meta(lambda: AutoModelForCausalLM.from_config(config))
        tensors = read(return_tensors=True, model_to_load=network, torch_dtype=dtype)["tensors"]
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except Exception as error:  # of many kinds, from its header to its tensors
        problem = " ".join(str(error).split())[:200]
        raise ModelError(f"{file.name}: cannot be read as GGUF ({problem}); docs/models.md lists what can.") from error
    config.architectures, config.dtype = [type(network).__name__], str(dtype).removeprefix("torch.")
    target.mkdir()
    config.save_pretrained(target)
    tokenizer.save_pretrained(target)
    try:
        save_file({name: part.contiguous() for name, part in tensors.items()}, target / "model.safetensors")
        (target / "model.safetensors").chmod(0o644)
    except SafetensorError as error:
        raise OSError(f"model.safetensors: {error}") from error
