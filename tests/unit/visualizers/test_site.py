"""A static front of recordings: names, pairs, and text that stays text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support import handmade, hostile

from draftscope.traces import Trace, read
from draftscope.visualizers.site import exhibits, write_site


class Elements(HTMLParser):
    """The elements of a page with their attributes, in order; text and scripts left out."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def addresses(self) -> list[str]:
        return [str(value) for _, found in self.found for key, value in found.items() if key in ("src", "href", "data")]


def pair() -> tuple[Trace, Trace]:
    run = handmade.scd()
    return run, replace(handmade.ar(), model=run.model, prompt=run.prompt, seed=run.seed)


def test_a_run_is_shown_with_its_baseline_and_every_page_has_a_name_of_its_own() -> None:
    run, base = pair()
    alone = replace(handmade.psd(), seed=8)
    names = ("../../index", "…", "calculator")
    found = exhibits([("Owl 1", run), ("ordinary", base), ("owl-1", alone), *((name, alone) for name in names)])
    assert [(each.name, len(each.traces)) for each in found] == [
        *(("owl-1", 2), ("owl-1-2", 1), ("index-2", 1), ("recording", 1), ("calculator-2", 1)),
    ]


def test_a_site_has_an_index_a_page_for_each_recording_and_the_traces(tmp_path: Path) -> None:
    run, base = pair()
    site = tmp_path / "new" / "site"
    write_site([("owl", run), ("plain", base), ("psd", replace(handmade.psd(), seed=8))], site, "Our runs")
    assert sorted(path.relative_to(site).as_posix() for path in site.rglob("*.*")) == [
        *("calculator.html", "index.html", "owl.html", "psd.html"),
        *("traces/owl-ordinary.json.gz", "traces/owl.json.gz", "traces/psd.json.gz"),
    ]
    assert read(site / "traces" / "owl.json.gz") == run
    index = (site / "index.html").read_text(encoding="utf-8")
    assert "<h1>Our runs</h1>" in index and index.count('href="owl.html"') == 1
    for page in site.glob("*.html"):
        addresses = Elements(page).addresses()
        assert addresses and all((site / address).is_file() or address.startswith("data:") for address in addresses)
    with pytest.raises(ValueError, match=r"^traces: a site needs at least one trace"):
        write_site([], tmp_path)


@pytest.mark.parametrize("text", [hostile.HOSTILE, *hostile.TEXTS])
def test_no_text_of_a_trace_becomes_markup(text: str, tmp_path: Path) -> None:
    for folder, words in (("plain", "plain words"), ("hostile", text)):
        (exhibit,) = write_site([(words, hostile.hostile(handmade.scd(), words))], tmp_path / folder, words)
        assert re.fullmatch(r"[a-z0-9-]+", exhibit.name)
        (tmp_path / folder / f"{exhibit.name}.html").rename(tmp_path / folder / "page.html")
    for name in ("index.html", "page.html"):
        found, plain = (Elements(tmp_path / folder / name).found for folder in ("hostile", "plain"))
        assert [(tag, [*values]) for tag, values in found] == [(tag, [*values]) for tag, values in plain]
        assert "globalThis" not in str(found)
