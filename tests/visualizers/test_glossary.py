"""The glossary: every term is said in a sentence or two of plain words, and a word belongs to one term."""

import json
import re

from engines.config import settings
from engines.methods import METHODS
from visualizers import FIGURES, SWEEP_FIGURES, player

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


def test_terms_in_labels_and_titles_are_in_the_glossary() -> None:
    labels = {setting.knob.label for method in METHODS.values() for setting in settings(method.config)}
    texts = labels | {figure.title for figure in FIGURES.values()}
    used = {word.lower() for text in texts for word in _SAID.findall(text)}
    assert len(used) > 8
    assert used <= known()


def test_no_abbreviation_stands_in_a_label_or_a_caption_without_a_meaning() -> None:
    knobs = [setting.knob for method in METHODS.values() for setting in settings(method.config)]
    texts = [knob.label for knob in knobs] + [knob.help for knob in knobs]
    texts += [
        words for figure in (*FIGURES.values(), *SWEEP_FIGURES.values()) for words in (figure.title, figure.caption)
    ]
    abbreviations = {word for text in texts for word in re.findall(r"(?<![\w-])[A-Z]{2,}(?![\w-])", text)}
    assert "NFE" in abbreviations and "TV" in abbreviations
    assert {word.lower() for word in abbreviations - NAMES} <= known()
