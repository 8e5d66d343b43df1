"""Where weights, draft graphs and problems lie: in the checkout, or where DRAFTSCOPE_ASSETS says; and the cache."""

import os
from pathlib import Path
from typing import Final

from traces.files import ROOT

VARIABLE: Final = "DRAFTSCOPE_ASSETS"
FOLDERS_VARIABLE: Final = "DRAFTSCOPE_MODELS"
"""Folders of checkpoints, which `engines.models.catalog` offers."""
ASSETS: Final = Path(os.environ.get(VARIABLE) or ROOT / "assets")
"""A package that pip installed has none: they stay in the repository."""
REMEDY: Final = f"Work in a checkout of the repository, or set {VARIABLE} to its folder assets"
"""For whatever of it is missing."""


def cache_dir() -> Path:
    """Where what is fetched or derived is kept: $DRAFTSCOPE_CACHE or ~/.cache/draftscope."""
    return Path(os.environ.get("DRAFTSCOPE_CACHE") or Path.home() / ".cache" / "draftscope")
