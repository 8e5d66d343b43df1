"""What runs are called: by the field's names, the same in Python, in the registry and in the player."""

import json
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page
from support import handmade
from support.playing import harness, plain, settle
from support.raster import decoded

from engines.config import as_values
from engines.methods import METHODS, SHARED, ordinary
from traces import read
from traces.naming import ORDINARY, is_ordinary, labels, name_for, name_of

RECORDED = Path(__file__).parents[2] / "assets" / "traces"
USUAL, SHORT, LONG = decoded("ar"), decoded("scd", window=8), decoded("scd", window=16)
TEXT = replace(handmade.s2d2(), method="blockwise", variant="", config={"block": "1"})


def test_runs_have_the_names_of_the_field_and_say_what_sets_them_apart() -> None:
    assert labels([USUAL, SHORT, decoded("scd", window=8, coupling="none")]) == (ORDINARY, "MC-SJD", "SJD")
    assert labels([USUAL, SHORT, LONG]) == (ORDINARY, "MC-SJD, window 8", "MC-SJD, window 16")
    assert labels([SHORT, replace(LONG, seed=9)]) == ("MC-SJD, window 8, seed 0", "MC-SJD, window 16, seed 9")
    assert labels([SHORT, SHORT]) == ("MC-SJD", "MC-SJD (2)")
    assert is_ordinary(TEXT) and not is_ordinary(replace(TEXT, config={"block": "1", "cache": "prefix"}))
    assert name_of(replace(TEXT, config={"block": "8"})) == "Block diffusion"
    assert name_of(replace(TEXT, method="psd", variant="Spiffy")) == "Spiffy"
    assert name_of(replace(TEXT, method="of somebody else")) == "of somebody else"


def test_the_registry_and_the_table_of_names_agree() -> None:
    for name, method in METHODS.items():
        assert name_for(name, as_values(method.config())) in method.title, name
    for family in SHARED:
        method, config = ordinary(family, {})
        assert name_for(method.name, as_values(config)) == ORDINARY


def test_titles_of_the_gallery_have_the_name_in_them() -> None:
    listed = json.loads((RECORDED / "gallery.json").read_text("utf-8"))
    titles = {entry["file"]: entry["title"] for entry in listed if "title" in entry}
    assert len(titles) > 40
    for file, title in titles.items():
        assert name_of(read(RECORDED / file)) in title, file


def test_the_player_says_what_python_says(page: Page) -> None:
    runs = [
        USUAL,
        SHORT,
        replace(LONG, seed=9),
        decoded("scd", window=8, coupling="gumbel"),
        decoded("scd", window=8, same_noise=True),
        replace(SHORT, method="x"),
    ]
    harness(page)
    page.evaluate("runs => player.load(runs, { most: 6 })", [*map(plain, runs)])
    settle(page)
    assert [name_of(run) for run in runs[3:5]] == ["GS-SJD", "SJD, same noise"]
    told = [lane.get_attribute("aria-label") for lane in page.locator(".ds-lane").all()]
    assert told == list(labels(runs))
