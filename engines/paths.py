"""Folders of weights, draft graphs and problems: in the checkout, or in DRAFTSCOPE_ASSETS; and the cache."""

from typing import Final

from draftscope.traces.files import ASSETS as ASSETS
from draftscope.traces.files import ASSETS_VARIABLE as ASSETS_VARIABLE
from draftscope.traces.files import cache_dir as cache_dir

MODELS_VARIABLE: Final = "DRAFTSCOPE_MODELS"
"""Folders of checkpoints, which `draftscope.engines.models.catalog` offers."""
REMEDY: Final = (
    f"draftscope app --fetch fetches them; or work in a checkout of the repository, or set {ASSETS_VARIABLE} to its "
    "folder assets"
)
"""For whatever of it is missing."""
