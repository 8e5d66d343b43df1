"""Fonts come from packages, for Pillow by their path and for browsers by fontconfig."""

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from draftscope.visualizers.fonts import COMMON, FALLBACKS, font_file, offer_fonts


@pytest.mark.parametrize("name", [COMMON, *FALLBACKS, "NotoSansThai", "NotoSansArabic", "NotoSansHebrew"])
def test_the_fonts_are_files_of_packages(name: str) -> None:
    path = font_file(name)
    assert path is not None and Path(path).is_file() and "site-packages" in path


def test_a_script_without_a_font_has_none() -> None:
    assert font_file("NotoSansNone") is None


def test_browsers_find_them_and_what_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FONTCONFIG_FILE", "/own")
    assert offer_fonts.__wrapped__() is None
    assert os.environ["FONTCONFIG_FILE"] == "/own"
    monkeypatch.delenv("FONTCONFIG_FILE")
    folder = offer_fonts.__wrapped__()
    config = Path(os.environ["FONTCONFIG_FILE"])
    assert [config] == list(folder.iterdir())  # nothing that a browser writes, so that it can be removed
    folders = [Path(node.text or "").name for node in ElementTree.fromstring(config.read_bytes()).iter("dir")]
    assert sorted(folders) == ["manimgx_fonts", "noto_cjk_sans_otc"]
