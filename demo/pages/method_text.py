"""What the page says of a method: the first part of docs/methods/NAME.md, up to the heading that begins with code."""

import re
from functools import cache
from pathlib import Path
from typing import Final

from engines.methods.method import Method

FOLDER: Final = Path(__file__).parents[2] / "docs" / "methods"
IN_THE_CODE: Final = "\n## In the code\n"


@cache
def method_text(name: str) -> str:
    """The first part of docs/methods/`name`.md, its headings one level lower, as they stand below the page's own."""
    text, _, _ = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(IN_THE_CODE)
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def described(method: Method) -> str:
    """What there is to read about a method: its text, or what the registry says of one that has none yet."""
    if (FOLDER / f"{method.name}.md").is_file():
        return method_text(method.name)
    paper = f" *{method.paper}.*" if method.paper else ""
    return (
        f"## {method.title}\n\n{method.summary[:1].upper()}{method.summary[1:]}.{paper}\n\nIt has no description yet."
    )
