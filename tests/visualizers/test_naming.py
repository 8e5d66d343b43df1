"""What runs are called everywhere, and the glossary: a sentence of plain words for every term."""

import json
import re
from dataclasses import replace

from playwright.sync_api import Page
from support import handmade
from support.player_page import harness, plain, settle

from benchmarks._toy_runs import decode_toy_raster
from engines.methods import METHODS, SHARED, baseline
from engines.settings import config_values, settings
from traces import read
from traces.files import ROOT
from traces.labels import ORDINARY, is_baseline, labels, method_name, name_for
from visualizers import FIGURES, SWEEP_FIGURES, player

RECORDED = ROOT / "assets" / "traces"
USUAL, SHORT, LONG = decode_toy_raster("ar"), decode_toy_raster("scd", window=8), decode_toy_raster("scd", window=16)
TEXT = replace(handmade.s2d2(), method="blockwise", variant="", config={"block": "1"})


def test_runs_have_the_names_of_the_field_and_say_what_sets_them_apart() -> None:
    assert labels([USUAL, SHORT, decode_toy_raster("scd", window=8, coupling="none")]) == (ORDINARY, "MC-SJD", "SJD")
    assert labels([USUAL, SHORT, LONG]) == (ORDINARY, "MC-SJD, window 8", "MC-SJD, window 16")
    assert labels([SHORT, replace(LONG, seed=9)]) == ("MC-SJD, window 8, seed 0", "MC-SJD, window 16, seed 9")
    assert labels([SHORT, SHORT]) == ("MC-SJD", "MC-SJD (2)")
    assert is_baseline(TEXT) and not is_baseline(replace(TEXT, config={"block": "1", "cache": "prefix"}))
    assert method_name(replace(TEXT, config={"block": "8"})) == "Block diffusion"
    assert method_name(replace(TEXT, method="psd", variant="Spiffy")) == "Spiffy"
    assert method_name(replace(TEXT, method="of somebody else")) == "of somebody else"


def test_the_registry_and_the_table_of_names_agree() -> None:
    for name, method in METHODS.items():
        assert name_for(name, config_values(method.config())) in method.title, name
    for family in SHARED:
        method, config = baseline(family, {})
        assert name_for(method.name, config_values(config)) == ORDINARY


def test_titles_of_the_gallery_have_the_name_in_them() -> None:
    listed = json.loads((RECORDED / "gallery.json").read_text("utf-8"))
    titles = {entry["file"]: entry["title"] for entry in listed if "title" in entry}
    assert len(titles) > 40
    for file, title in titles.items():
        assert method_name(read(RECORDED / file)) in title, file


def test_the_player_says_what_python_says(page: Page) -> None:
    runs = [
        USUAL,
        SHORT,
        replace(LONG, seed=9),
        decode_toy_raster("scd", window=8, coupling="gumbel"),
        decode_toy_raster("scd", window=8, same_noise=True),
        replace(SHORT, method="x"),
    ]
    harness(page)
    page.evaluate("runs => player.load(runs, { most: 6 })", [*map(plain, runs)])
    settle(page)
    assert [method_name(run) for run in runs[3:5]] == ["GS-SJD", "SJD, same noise"]
    told = [lane.get_attribute("aria-label") for lane in page.locator(".ds-lane").all()]
    assert told == list(labels(runs))


_SAID = re.compile(
    r"(?<![\w-])(draft\w*|window|block|gamma|tau|threshold|coupling|acceptance|verif\w*|churn|beta|TV)(?!\w)", re.I
)
NAMES = {"SCD", "MAR", "SJD", "APPROXIMATE"}
"""Of methods and models, and a word that is to be minded."""


def known() -> set[str]:
    return {word.lower() for term in player.glossary().values() for word in term["words"]}


def test_terms_are_said_in_sentences_and_a_word_belongs_to_one() -> None:
    for name, term in player.glossary().items():
        assert term.keys() == {"says", "words"}, name
        assert term["says"].endswith((".", ".”")) and 20 < len(term["says"]) < 260, name
        assert "<" not in term["says"], name
    assert len(known()) == sum(len(term["words"]) for term in player.glossary().values())
    asked = "draft target acceptance NFE passes residual coupling window verify reject block tau gamma token drafter"
    assert {word.lower() for word in asked.split()} <= known()
    script = player.around()
    assert "</" not in script and json.dumps(player.glossary()["draft"]["says"]) in script


def test_terms_of_labels_and_titles_and_abbreviations_of_help_and_captions_too_are_in_the_glossary() -> None:
    knobs = [setting.knob for method in METHODS.values() for setting in settings(method.config)]
    figures = [*FIGURES.values(), *SWEEP_FIGURES.values()]
    short = [*(knob.label for knob in knobs), *(figure.title for figure in figures)]
    used = {word.lower() for text in short for word in _SAID.findall(text)}
    assert len(used) > 8 and used <= known()
    long = [*(knob.help for knob in knobs), *(figure.caption for figure in figures)]
    abbreviations = {word for text in short + long for word in re.findall(r"(?<![\w-])[A-Z]{2,}(?![\w-])", text)}
    assert "NFE" in abbreviations and "TV" in abbreviations
    assert {word.lower() for word in abbreviations - NAMES} <= known()
