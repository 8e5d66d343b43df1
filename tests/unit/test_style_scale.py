"""Style sheets: one scale of space, of corners and of letters; no rule watches the whole page."""

import re
from pathlib import Path

import pytest

from draftscope.traces.files import ROOT

SPACE = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
CORNERS = (0, 1, 2, 4, 8, 12, 24, 99)
LETTERS = (0, 8, 12, 13, 15, 18, 20, 24, 36, 56)
"""8 marks a token; letters that grow with the window are clamped and end where they may."""
BRAND_WIDTH = {"136px", "92px"}
"""Widths that the name of the app takes of the row of tabs, wide and on a phone."""
SCALES = {
    r"(?:margin|padding)(?:-(?:top|right|bottom|left))?|(?:row-|column-)?gap": SPACE,
    r"border(?:-[a-z]+){0,2}-radius": CORNERS,
    r"font-size|--(?:ds-)?(?:xs|s|m|l|xl)": LETTERS,
}
STYLES = sorted(
    path
    for folder in ("demo", "visualizers")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".css", ".html", ".py") and not {"animation", "figures", "export_zip"} & set(path.parts)
)


def off_scale(style: str) -> list[str]:
    """Return the declarations with a length that no scale has; negative margins and functions are arithmetic."""
    found = []
    for names, scale in SCALES.items():
        for declared in re.finditer(rf"(?<![\w-])(?:{names})\s*:\s*([^;{{}}\"'`]+)", style):
            value = re.sub(r"\b(?:calc|clamp|max|min)\(.*\)", "", declared[1])
            lengths = re.findall(r"(?<![\w.#-])\d+(?:\.\d+)?px", value)
            if any(float(length[:-2]) not in scale for length in lengths if length not in BRAND_WIDTH):
                found.append(declared[0].strip())
    return found


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lengths_are_of_one_scale(path: Path) -> None:
    assert off_scale(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("style", ["p { margin: 0 10px; }", "p { border-radius: 14px }", "p { font-size: 14px; }"])
def test_a_length_of_no_scale_is_found(style: str) -> None:
    assert len(off_scale(style)) == 1


WATCHES_ALL = re.compile(r"(?<![\w-])(?:html|body|main|\.gradio-container|\.block)(?:[.#][\w-]+)*:has\(")
"""With each change below such a part the browser would compute the styles of all of it again."""


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_rule_watches_the_whole_page(path: Path) -> None:
    assert WATCHES_ALL.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("style", [".gradio-container:has(#run:disabled) #again {", ".block.auto:has(> label) {"])
def test_a_rule_that_watches_the_whole_page_is_found(style: str) -> None:
    assert WATCHES_ALL.search(style)
