"""What the terms mean: glossary.toml, and the script that marks them and says it, for the app and exported pages."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_PLACE: Final = "GLOSSARY"


@cache
def glossary() -> dict[str, dict[str, object]]:
    """Name -> `says`, what it means in plain words, and `words`, by which it is known in a text; each word once.

    Raises:
        ValueError: for a term that has other parts, or none, and for a word that two terms claim.
    """
    terms = tomllib.loads((_FOLDER / "glossary.toml").read_text(encoding="utf-8"))
    claimed: dict[str, str] = {}
    for name, term in terms.items():
        if not {"says"} <= term.keys() <= {"says", "words"}:
            raise ValueError(f"{name}: has {', '.join(term)}; a term has says, and words where it is marked by itself")
        for word in term.setdefault("words", []):
            if word.lower() in claimed:
                raise ValueError(f"{name}: {word!r} is a word of {claimed[word.lower()]} already; leave one out")
            claimed[word.lower()] = name
    return terms


@cache
def script() -> str:
    """Return JavaScript that defines `globalThis.draftscopeTerms` once; see terms.js."""
    text = (_FOLDER / "terms.js").read_text(encoding="utf-8")
    return text.replace(_PLACE, json.dumps(glossary(), ensure_ascii=False).replace("<", "\\u003c"), 1)
