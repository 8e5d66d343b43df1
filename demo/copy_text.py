"""The words of the pages that are mostly words."""

from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "copy"


@cache
def copy(name: str) -> str:
    """The text of copy/`name`.md."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")
