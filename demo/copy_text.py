"""The words of the pages that are mostly words."""

from functools import cache
from pathlib import Path
from typing import Final

from engines.methods.method import Method

FOLDER: Final = Path(__file__).parent / "copy"


@cache
def copy(name: str) -> str:
    """The text of copy/`name`.md."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def described(method: Method) -> str:
    """What there is to read about a method: its text, or what the registry says of one that has none yet."""
    if (FOLDER / f"{method.name}.md").is_file():
        return copy(method.name)
    paper = f" *{method.paper}.*" if method.paper else ""
    return (
        f"## {method.title}\n\n{method.summary[:1].upper()}{method.summary[1:]}.{paper}\n\nIt has no description yet."
    )
