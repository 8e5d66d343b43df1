"""Traces in a data set of the Hugging Face hub, by huggingface_hub: addresses `hf://datasets/OWNER/NAME/FILE`."""

import re
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from draftscope.traces import limits
from draftscope.traces.errors import TraceError
from draftscope.traces.io import write
from draftscope.traces.schema import VERSION, Trace

SCHEME: Final = "hf://"
_ADDRESS: Final = re.compile(r"hf://datasets/([\w.-]+/[\w.-]+?)(?:@([\w./-]+?))?/([\w./ -]+\.json(?:\.gz)?)")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_CARD: Final = f"""---
tags:
- draftscope
- speculative-decoding
pretty_name: Traces of decoding runs
viewer: false
---

# Traces of decoding runs

Recordings of decoding methods, pass by pass: drafts, verdicts, probabilities and times. Each file is a
trace of Draftscope (format {VERSION}), which is drawn and played without the model:

```python
import draftscope as ds

trace = ds.read("{{address}}")
ds.view(trace, "run.html")
```

A trace names its method, model with hashes of the weights, settings and seed. It contains the prompt and what was
decoded: choose a licence that their authors, and the licence of the model, allow.
"""


def push(trace: Trace, repository: str, name: str, *, private: bool = True, token: str | None = None) -> str:
    """Upload a trace to a data set of the hub, which is made if it is missing, with a data set card.

    An existing card is left as it is, a file of the same name replaced. A trace contains the prompt, the output, and
    device, platform and libraries of the run; nothing else is sent.

    Args:
        trace: What to upload, as `NAME.json.gz`.
        repository: OWNER/NAME of the data set.
        name: Name of the file without its ending: letters, digits, `.`, `_`, `-`.
        private: Whether a data set that is made here is visible to its owner alone.
        token: Token with write access; by default the one that `hf auth login` stored.

    Returns:
        The address for `ds.read`.

    Raises:
        ValueError: For an invalid repository or name.
        ImportError: Without huggingface_hub, which the extra `draftscope[hub]` installs.
        OSError: The hub refuses the upload or cannot be reached.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"repository: {repository!r:.80} is not a data set of the hub; use OWNER/NAME.")
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r:.80} cannot name a file; use letters, digits, '.', '_' and '-'.")
    hub = _library("trace.push_to_hub")
    api = hub.HfApi(token=token)
    address = f"{SCHEME}datasets/{repository}/{name}.json.gz"
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json.gz"
        write(trace, path)
        files = [hub.CommitOperationAdd(path.name, str(path))]
        try:
            api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
            if not api.file_exists(repository, "README.md", repo_type="dataset"):
                files.append(hub.CommitOperationAdd("README.md", _CARD.format(address=address).encode()))
            api.create_commit(repository, files, repo_type="dataset", commit_message=f"Add {path.name}")
        except hub.errors.HTTPError as error:  # of its HTTP library, which its own errors are
            raise OSError(f"push_to_hub: {repository} did not take the upload ({_reason(error)}); {_LOGIN}") from error
    return address


def download(address: str) -> Path:
    """Return the path of a file of the hub, downloaded into the cache of huggingface_hub unless it is there.

    Args:
        address: `hf://datasets/OWNER/NAME/FILE` or `hf://datasets/OWNER/NAME@REVISION/FILE`, .json or .json.gz.

    Raises:
        TraceError: For an address of another form, or a file larger than a trace may be.
        ImportError: Without huggingface_hub, which the extra `draftscope[hub]` installs.
        OSError: The file is missing, or the hub cannot be reached.
    """
    parts = _ADDRESS.fullmatch(address)
    if not parts or ".." in address:
        remedy = "use hf://datasets/OWNER/NAME/FILE.json.gz, with @REVISION after NAME for another revision"
        raise TraceError(f"{address:.120}", "is not an address of a trace on the hub", remedy)
    repository, revision, name = parts.groups()
    hub = _library("ds.read of an hf:// address")
    options: dict[str, Any] = {"repo_type": "dataset", "revision": revision}
    try:
        if not hub.constants.HF_HUB_OFFLINE:
            size = hub.get_hf_file_metadata(hub.hf_hub_url(repository, name, **options)).size or 0
            if size > limits.FILE_BYTES:
                raise TraceError(address, f"has {size:,} bytes", f"a trace has at most {limits.FILE_BYTES:,}")
        return Path(hub.hf_hub_download(repository, name, **options))
    except (hub.errors.HTTPError, hub.errors.LocalEntryNotFoundError) as error:
        raise OSError(f"{address}: cannot be downloaded ({_reason(error)}); {_LOGIN}") from error


_LOGIN: Final = "check the address, and `hf auth login` for what is private."


def _reason(error: Exception) -> str:
    """Return the first line of what the hub answered."""
    return next((line for line in map(str.strip, str(error).splitlines()) if line), type(error).__name__)[:200]


def _library(use: str) -> Any:
    try:
        library = import_module("huggingface_hub")
        for part in ("constants", "errors"):
            import_module(f"huggingface_hub.{part}")
    except ImportError:
        raise ImportError(
            f"{use} needs huggingface_hub, which is not installed: pip install 'draftscope[hub]'."
        ) from None
    return library
