"""Certificates of sound and of deliberately broken engines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.broken_engines import MISTAKES, SpeculativeEngine

import draftscope as ds
from draftscope.analysis.certificates import read_certificate
from draftscope.certificates.known_model import LENGTH, PROMPTS
from draftscope.certificates.sources import Drawn, TransformersSource


@pytest.mark.slow
def test_a_sound_engine_is_certified() -> None:
    found = ds.certify(SpeculativeEngine(), tokens=2400)
    assert (found.verdict, found.found_after, found.forbidden, found.tokens) == ("certified", None, 0, 2400)
    assert found.accepted > 500 and found.score < 5
    assert 0.05 < found.total_variation < 0.1
    assert "would have been found: the residual is p, at" in str(found)
    assert np.allclose(np.sum(found.expected, -1), 1, atol=1e-5) and np.allclose(np.sum(found.observed, -1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_broken_engine_is_biased_and_its_defect_is_named(mistake: str) -> None:
    options: dict[str, Any] = {"top_k": 3} if mistake == "no filters" else {}
    found = ds.certify(SpeculativeEngine(mistake), tokens=4000, **options)
    assert (found.verdict, found.defect) == ("biased", MISTAKES[mistake])
    assert found.total_variation is None
    assert found.tokens < 2500 or mistake == "colder q"


@pytest.mark.slow
def test_filters_are_judged_in_the_order_of_the_engine() -> None:
    """A lossless engine is biased if its filters are taken to act on other probabilities."""
    options: dict[str, Any] = {"temperature": 1.6, "top_p": 0.7, "tokens": 640}
    assert ds.certify(SpeculativeEngine(), **options).verdict == "undecided"
    other = SpeculativeEngine()
    other.temperature_last = True
    found = ds.certify(other, **options)
    assert found.verdict == "biased" and found.forbidden > 0


class Plain:
    """An engine without drafts, whatever it counts."""

    name, temperature_last, drafter = "plain", False, ""

    def __init__(self, counts: bool, drafts: int) -> None:
        self.counts, self._drafts = counts, drafts

    def draw(self, prompts: Any, seeds: Any, length: int, sampling: Any) -> Drawn:
        texts = TransformersSource("plain").draw(prompts, seeds, length, sampling).texts
        return Drawn(texts, self._drafts * len(texts), self._drafts * len(texts))


@pytest.mark.slow
def test_an_engine_that_verified_no_draft_is_not_certified() -> None:
    found = ds.certify(Plain(True, 0), tokens=320)
    assert found.verdict == "refused" and "no draft was verified" in found.reason
    found = ds.certify(Plain(False, 0), tokens=320)
    assert found.verdict == "undecided" and "does not count drafts" in found.reason and found.drafted is None
    found = ds.certify(Plain(True, 1), tokens=320)
    assert found.verdict == "undecided" and "only 20 drafts were accepted and 0 lost" in found.reason


def test_a_function_is_an_engine() -> None:
    texts = iter([[*range(8)] * 2, [*range(7, -1, -1)] * 2] * 8)
    found = ds.certify(lambda prompt, length, seed: (next(texts), 3, 2), tokens=32)
    assert (found.drafted, found.accepted, found.engine) == (6, 4, "<lambda>")


@pytest.mark.parametrize(
    ("engine", "options", "words"),
    [
        (lambda *_: [0] * LENGTH, {}, "gives one text for each prompt whatever the seed"),
        (lambda *_: [0], {}, "gave 1 tokens where 16 were requested; let it ignore the end"),
        (lambda *_: [99] * LENGTH, {}, "gave the id 99, which the known model does not have"),
        (print, {"tokens": 1}, "tokens: 1 is not allowed; use 16 or more"),
        (print, {"temperature": 0}, "temperature: 0 is not allowed"),
        ("ftp://x", {}, "'ftp://x' is not an address"),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(engine: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ds.certify(engine, **options)
    with pytest.raises(TypeError, match="speed: is not an option of certify"):
        ds.certify(print, speed=1)


@pytest.mark.slow
def test_a_certificate_is_a_file_and_a_page(tmp_path: Path) -> None:
    engine = SpeculativeEngine("greedy acceptance")
    engine.name = "<b>mine</b>"
    found = ds.certify(engine, tokens=320)
    ds.write_certificate(found, tmp_path / "a.json")
    assert read_certificate((tmp_path / "a.json").read_bytes()) == found
    ds.write_certificate(found, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<b>mine" not in page and page.count("<figure") == 3 and "Biased: found after" in page
    with pytest.raises(ValueError, match=r"'a\.txt' must end in \.json or \.html"):
        ds.write_certificate(found, tmp_path / "a.txt")
    document = json.loads((tmp_path / "a.json").read_text())
    for change, words in (
        ({"title": "x"}, "certificate: has another title"),
        ({"version": 2}, "another version than 1"),
        ({"verdict": "fine"}, "verdict: 'fine' should be"),
        ({"observed": [[0.5]]}, "observed: has other positions or letters"),
    ):
        with pytest.raises(ValueError, match=words):
            read_certificate(json.dumps(document | change).encode())
    assert len(PROMPTS) == 4


def test_ctrl_c_keeps_the_texts_that_came() -> None:
    engine = SpeculativeEngine()
    draw, calls = engine.draw, []

    class Interrupted:
        name, temperature_last, drafter, counts = "x", False, "model", True

        def draw(self, *request: Any) -> Any:
            if calls:
                raise KeyboardInterrupt
            calls.append(1)
            return draw(*request)

    assert ds.certify(Interrupted(), tokens=4000).texts == 16
