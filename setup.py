"""Build step: what the wheel contains in addition to the packages; all else is in pyproject.toml.

The index of methods and models, so that `draftscope list` imports no torch; the app with the texts and results that it
shows; and the hashes of its weights and recordings, which are fetched when they are first needed.
"""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CODE = (
    "import json; from draftscope.engines.runtime.method_index import compute_index; print(json.dumps(compute_index()))"
)


class BuildWithIndex(build_py):
    """Copy the packages and add the rest; without torch no index, which `draftscope list` then computes once."""

    def run(self) -> None:
        """Build the packages."""
        super().run()
        if self.editable_mode:
            return
        here, package = Path(__file__).parent, Path(self.build_lib, "draftscope")
        shutil.copyfile(here / "app.py", package / "app.py")
        for folder in ("docs/methods", "benchmarks/results"):
            shutil.copytree(here / folder, package / folder, dirs_exist_ok=True)
        files = sorted(path for path in (here / "assets").rglob("*") if path.is_file())
        hashes = {
            path.relative_to(here / "assets").as_posix(): (path.stat().st_size, sha256(path.read_bytes()).hexdigest())
            for path in files
        }
        if not files:  # in a source archive
            self.warn("no list of assets in the wheel: the app needs DRAFTSCOPE_ASSETS")
        (package / "engines" / "assets.json").write_text(json.dumps(hashes, indent=0), encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", CODE], cwd=here, capture_output=True, text=True)
        if done.returncode:
            self.warn(f"no index of methods in the wheel: {done.stderr.strip().splitlines()[-1]}")
            return
        (package / "engines" / "runtime" / "method_index.json").write_text(done.stdout, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithIndex})
