"""Published checkpoints, loaded from the hub's cache or a folder, by the modules that the table names.

Nothing is downloaded, unpickled or run, no code that a checkpoint brings along; the chat template of a causal language
model is rendered in transformers' sandbox.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from draftscope.engines.models.checkpoint_files import CONFIG, CheckpointDir
from draftscope.engines.models.checkpoints.families import CAUSAL, CHECKPOINTS, Checkpoint, row_of, type_of
from draftscope.engines.models.devices import parse_devices
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import MemoryBudget, MemoryRequirement, check_memory, default_dtype
from draftscope.engines.models.model_info import GGUF
from draftscope.engines.protocol import Model
from draftscope.engines.settings import format_value

_PICKLES: Final = (".pt", ".pth", ".ckpt", ".bin", ".jit")
"""How files end that are converted, if anything is done with them."""
_ON_SEVERAL: Final = ("causal_lm", "diffusion_lm")
_LOADED: Final[dict[tuple[CheckpointDir, str, torch.dtype], Model]] = {}
"""Models by what they were made of, device and number format, whatever they were first to decode."""


def load(
    path: Path | str, device: str = "cpu", dtype: torch.dtype | None = None, room: MemoryBudget | None = None
) -> Model:
    """Load a checkpoint, once per device and number format.

    Args:
        path: Folder or GGUF file, as a `Path`; or OWNER/NAME of one in the hub's cache, as a text.
        device: Device; a language model may have several, as in "cuda:0,cuda:1".
        dtype: Number format of the weights; by default float32 on a CPU and bfloat16 elsewhere.
        room: Size of the output; nothing is read if the memory does not suffice for it and the weights.

    Raises:
        ModelError: If it is not downloaded, incomplete, of an unsupported family, or too large.
    """
    source = _local(path) if isinstance(path, Path) else cached_source(path)
    key = source, device, dtype or default_dtype(device)
    if key not in _LOADED:
        _LOADED[key] = _load(*key, room or MemoryBudget())
    return _LOADED[key]


def is_local(name: str) -> bool:
    """Whether a name is the path of a folder, or of a GGUF file, which need not exist."""
    return Path(name).is_dir() or name.lower().endswith(GGUF)


def source_of(name: str) -> CheckpointDir:
    """The files of a folder, of a GGUF file, or of OWNER/NAME in the hub's cache."""
    return _local(Path(name)) if is_local(name) else cached_source(name)


def needs_of(name: str) -> MemoryRequirement:
    """The memory that the model of a folder or of OWNER/NAME needs, before a tensor of it is read."""
    source = source_of(name)
    row, settings = read_config(source)
    return cast(MemoryRequirement, _module(row).needs(source, settings))


def read_config(source: CheckpointDir) -> tuple[Checkpoint, dict[str, Any]]:
    """The family of a checkpoint that can be read, and its config.json; raises ModelError for another."""
    if not (source.folder / CONFIG).is_file():
        files = sorted(file.name for file in source.folder.iterdir() if file.suffix in _PICKLES)
        if files:
            converted = "; ".join(row.name for row in CHECKPOINTS if row.convert)
            raise source.unsupported(
                f"has {format_value(files[0])} and no config.json; pickles are not read, and are converted first for "
                f"{converted}: docs/models.md"
            )
    settings = source.read_json(CONFIG)
    if settings.get("quantization_config") is not None:
        raise source.unsupported("its weights are quantized, which is not read; use the checkpoint in bfloat16")
    row = row_of(settings)
    if row is None:
        from draftscope.engines.models.checkpoints.causal_lm import is_causal

        if not is_causal(type_of(settings)):
            others = ", ".join(kind for one in CHECKPOINTS if one.module for kind in one.types)
            raise source.unsupported(
                f"config.json has {format_value(settings.get('model_type'))} for 'model_type', which is neither "
                f"a causal language model of transformers nor one of {others}; docs/models.md lists what can be read"
            )
        return CAUSAL, settings
    if not row.module:
        raise source.unsupported(f"is of the family {row.name}, which is not read. {row.note.rstrip('.')}")
    return row, settings


def cached_source(model_id: str) -> CheckpointDir:
    """A repository OWNER/NAME in the hub's cache."""
    fetch = f"hf download {model_id}"
    try:
        folder = snapshot_download(model_id, local_files_only=True)
    except HFValidationError:
        raise ModelError(f"model: {model_id!r} is neither a folder nor OWNER/NAME of the hub.") from None
    except LocalEntryNotFoundError:
        raise ModelError(
            f"{model_id}: is neither a folder nor in the hub's cache. Correct the path, or download it with: {fetch}"
        ) from None
    return CheckpointDir(model_id, Path(folder), f"Fetch it again with: {fetch} --force-download")


def _local(folder: Path) -> CheckpointDir:
    if folder.name.lower().endswith(GGUF) and not folder.is_dir():
        return _gguf(folder)
    remedy = f"Fetch it again with: hf download OWNER/NAME --local-dir {folder}"
    if folder.resolve() == download_dir(folder.name).resolve():
        remedy = f"Remove {folder}, and fetch it again with: draftscope model download {folder.name}"
    source = CheckpointDir(folder.resolve().name, folder.resolve(), remedy)
    if (folder / CONFIG).is_file() or not any(folder.glob("*.gguf")):
        return source
    from draftscope.engines.models.checkpoints.gguf_file import converted

    return converted(source)


def _gguf(file: Path) -> CheckpointDir:
    """The converted files of a GGUF file."""
    if not file.is_file():
        raise ModelError(f"model: {str(file)!r} does not exist; correct the path.")
    from draftscope.engines.models.checkpoints.gguf_file import converted

    return converted(CheckpointDir(file.stem, file.parent.resolve(), "Fetch the GGUF file again."), file)


def _module(row: Checkpoint) -> Any:
    return import_module(f"draftscope.engines.models.checkpoints.{row.module}")


def _load(source: CheckpointDir, device: str, dtype: torch.dtype, room: MemoryBudget) -> Model:
    row, settings = read_config(source)
    if len(parse_devices(device)) > 1 and row.module not in _ON_SEVERAL:
        raise source.unsupported(f"runs on one device, and {device!r} names several; name one of them")
    check_memory(source, _module(row).needs(source, settings), dtype, device, room)
    return cast(Model, _module(row).load(source, settings, device, dtype))
