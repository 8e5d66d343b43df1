"""JavaScript modules put into one script, which a page holds without a server or a bundler."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r'^import \{ [^}]* \} from "\.{1,2}/(?:\w+/)?\w+\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|const|function)\b)", re.MULTILINE)


def joined(folder: Path, names: Iterable[str]) -> str:
    """Return modules of a folder in one scope, in this order, without their imports and exports.

    Their names have to differ, as a scope has each of them once.
    """
    sources = ((folder / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in sources)
