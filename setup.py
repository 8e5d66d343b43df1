"""Build step: what archive and wheel contain in addition to the packages; all else is in pyproject.toml.

The index of methods and models, so that `draftscope list` imports no torch; the app with the texts and results that it
shows; and the hashes of its weights and recordings, which are fetched when they are first needed. Index and hashes are
made where the assets are, so that a source archive holds them and a wheel that is built from it has them as well.
"""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
CODE = (
    "import json; from draftscope.engines.runtime.method_index import compute_index; print(json.dumps(compute_index()))"
)
HASHES = "engines/assets.json"
INDEX = "engines/runtime/method_index.json"


def assets() -> str:
    """Return size and SHA-256 of every file of the folder assets, as JSON; an empty text in a source archive."""
    files = sorted(path for path in (HERE / "assets").rglob("*") if path.is_file())
    hashes = {
        path.relative_to(HERE / "assets").as_posix(): (path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in files
    }
    return json.dumps(hashes, indent=0) if hashes else ""


def index() -> str:
    """Return the index of methods and models, as JSON; an empty text without torch."""
    done = subprocess.run([sys.executable, "-c", CODE], cwd=HERE, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def write_made(command: Command, package: Path) -> None:
    """Write hashes and index into a copy of the package, as far as they can be made here or came with the archive."""
    for name, make, otherwise in (
        (HASHES, assets, "the app needs DRAFTSCOPE_ASSETS"),
        (INDEX, index, "draftscope list computes it once"),
    ):
        came = HERE / "draftscope" / name
        text = came.read_text(encoding="utf-8") if came.is_file() else make()
        if text:
            (package / name).write_text(text, encoding="utf-8")
        else:
            command.warn(f"{name} cannot be made here: {otherwise}")


class BuildWithIndex(build_py):
    """Copy the packages and add the rest."""

    def run(self) -> None:
        """Build the packages."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "draftscope")
        shutil.copyfile(HERE / "app.py", package / "app.py")
        for folder in ("docs/methods", "benchmarks/results"):
            shutil.copytree(HERE / folder, package / folder, dirs_exist_ok=True)
        write_made(self, package)


class ArchiveWithIndex(sdist):
    """Copy the sources and add the rest."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make the folder that becomes the archive."""
        super().make_release_tree(base_dir, files)
        write_made(self, Path(base_dir, "draftscope"))


setup(cmdclass={"build_py": BuildWithIndex, "sdist": ArchiveWithIndex})
