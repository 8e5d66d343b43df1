"""Folders of weights, draft graphs and problems: in the checkout, or in DRAFTSCOPE_ASSETS; and the cache."""

import os
from pathlib import Path
from typing import Final

from draftscope.traces.files import ROOT

ASSETS_VARIABLE: Final = "DRAFTSCOPE_ASSETS"
MODELS_VARIABLE: Final = "DRAFTSCOPE_MODELS"
"""Folders of checkpoints, which `draftscope.engines.models.catalog` offers."""
ASSETS: Final = Path(os.environ.get(ASSETS_VARIABLE) or ROOT / "assets")
"""A package that pip installed has none: they stay in the repository."""
REMEDY: Final = f"Work in a checkout of the repository, or set {ASSETS_VARIABLE} to its folder assets"
"""For whatever of it is missing."""


def cache_dir() -> Path:
    """Return the cache folder of downloaded and derived files: $DRAFTSCOPE_CACHE or ~/.cache/draftscope."""
    return Path(os.environ.get("DRAFTSCOPE_CACHE") or Path.home() / ".cache" / "draftscope")
