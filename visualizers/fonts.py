"""Fonts for letters of any script: the Noto fonts of two packages, so that none has to be installed on the machine."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

_EAST_ASIAN_FILE: Final = ("noto_cjk_sans_otc", "NotoSansCJK-Regular.ttc")
_CONFIG: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  {folders}
</fontconfig>
"""

COMMON: Final = "NotoSans"
EAST_ASIAN: Final = "NotoSansCJK"
FALLBACKS: Final = ("NotoSansSymbols", "NotoEmoji", EAST_ASIAN)
"""Fonts of letters that neither the common one nor that of their own script has, in this order."""


@cache
def font_file(name: str) -> str | None:
    """Return the path of a font such as NotoSansThai; None where no package has it."""
    package, file = _EAST_ASIAN_FILE if name == EAST_ASIAN else ("manimgx_fonts", f"{name}[wght].ttf")
    try:
        path = files(package) / file
    except ModuleNotFoundError:
        return None
    return str(path) if path.is_file() else None


@cache
def offer_fonts() -> Path | None:
    """Let browsers that this process starts find the fonts after those of the system, by fontconfig (Linux).

    Returns:
        The folder of the configuration, which is removed when Python exits. None if an environment variable
        FONTCONFIG_FILE is set, which stays as it is.
    """
    if "FONTCONFIG_FILE" in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="draftscope-fonts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = sorted({str(Path(path).parent) for name in (COMMON, *FALLBACKS) if (path := font_file(name))})
    folders = "".join(f"<dir>{escape(each)}</dir>" for each in found)
    config = folder / "fonts.conf"
    config.write_text(_CONFIG.format(folders=folders), encoding="utf-8")
    os.environ["FONTCONFIG_FILE"] = str(config)
    return folder
