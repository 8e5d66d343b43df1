"""Whether a page holds script of a stranger's: text that names `MARK` where a browser would run it."""

from html.parser import HTMLParser
from typing import Final

MARK: Final = "pwned"
"""Stands in every hostile text, and is a global name once any of them ran as script."""
_DATA: Final = "application/json"
"""Scripts of this type are data, which no browser runs."""
_RUNS: Final = ("href", "xlink:href", "src", "action", "formaction", "data", "style")


class ScriptFound(AssertionError):
    """Text of a trace that a browser would run."""


class _Reader(HTMLParser):
    """Reads a page as a browser does, and raises where the mark stands in what would run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._runs = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._runs = tag == "style" or (tag == "script" and given.get("type") != _DATA)
        for name, value in given.items():
            if name == "srcdoc":
                check_page(value)
            elif MARK in name or (MARK in value and (name.startswith("on") or name in _RUNS)):
                raise ScriptFound(f"<{tag} {name}={value[:80]!r}>")
        if MARK in tag:
            raise ScriptFound(f"<{tag[:80]}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._runs = False

    def handle_endtag(self, tag: str) -> None:
        self._runs = False

    def handle_data(self, data: str) -> None:
        if self._runs and MARK in data:
            raise ScriptFound(f"script: {data[max(0, data.index(MARK) - 80) :][:160]!r}")


def check_page(page: str) -> None:
    """Raise `ScriptFound` unless the mark stands in text and data alone."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
