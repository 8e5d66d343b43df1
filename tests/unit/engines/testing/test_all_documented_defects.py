"""Sentences of the documentation that ask the reader to break an example are true."""

import re

import pytest
from support.mutants import EXAMPLE, load_edited

from draftscope.cli.main import main
from draftscope.traces.files import ROOT

SENTENCE = re.compile(r"Replace `([^`]+)` by\s`([^`]+)` to\ssee it fail")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEFECTS = [found for page in PAGES for found in SENTENCE.findall(page.read_text(encoding="utf-8"))]


def test_no_sentence_is_worded_otherwise() -> None:
    mentions = sum(len(re.findall(r"\bto\ssee\sit\sfail\b", page.read_text(encoding="utf-8"))) for page in PAGES)
    assert len(DEFECTS) == mentions >= 2


@pytest.mark.parametrize(("old", "new"), DEFECTS)
def test_the_example_fails_as_the_sentence_states(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_edited(EXAMPLE, old, new, monkeypatch)
    assert main(["check", "prompt_lookup:METHOD"]) == 1
    assert "ordinary decoding's: no, although the method claims so: TV 0." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.nightly
def test_the_example_as_it_is_holds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    load_edited(EXAMPLE, "", "", monkeypatch)
    assert main(["check", "prompt_lookup:METHOD"]) == 0
    printed = capsys.readouterr().out
    assert "draft position 4: 32 made, 4 verified, 2 accepted, 2 rejected" in printed
    assert "never exercised: draft positions after 4" in printed
