"""Build step: the wheel contains the index of methods and models, so that `draftscope list` imports no torch.

All else is in pyproject.toml.
"""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CODE = (
    "import json; from draftscope.engines.runtime.method_index import compute_index; print(json.dumps(compute_index()))"
)


class BuildWithIndex(build_py):
    """Copy the packages, and add the index if torch can be imported; otherwise `draftscope list` computes it once."""

    def run(self) -> None:
        """Build the packages."""
        super().run()
        if self.editable_mode:
            return
        done = subprocess.run([sys.executable, "-c", CODE], cwd=Path(__file__).parent, capture_output=True, text=True)
        if done.returncode:
            self.warn(f"no index of methods in the wheel: {done.stderr.strip().splitlines()[-1]}")
            return
        target = Path(self.build_lib, "draftscope", "engines", "runtime", "method_index.json")
        target.write_text(done.stdout, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithIndex})
