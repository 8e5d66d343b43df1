"""The glossary: a sentence for every term of labels, titles and captions."""

import json
import re

from draftscope.engines.methods import METHODS
from draftscope.engines.settings import settings
from draftscope.visualizers import FIGURES, SWEEP_FIGURES, player

_SAID = re.compile(
    r"(?<![\w-])(draft\w*|window|block|gamma|tau|threshold|coupling|acceptance|verif\w*|churn|beta|TV)(?!\w)", re.I
)
NAMES = {"SCD", "MAR", "SJD", "APPROXIMATE"}
"""Names of methods and models, and a word in capitals."""


def known() -> set[str]:
    return {word.lower() for term in player.glossary().values() for word in term["words"]}


def test_terms_are_said_in_sentences_and_a_word_belongs_to_one() -> None:
    for name, term in player.glossary().items():
        assert term.keys() == {"says", "words"}, name
        assert term["says"].endswith((".", ".”")) and 20 < len(term["says"]) < 260, name
        assert "<" not in term["says"], name
    assert len(known()) == sum(len(term["words"]) for term in player.glossary().values())
    words = "draft target acceptance NFE passes residual coupling window verify reject block tau gamma token drafter"
    assert {word.lower() for word in words.split()} <= known()
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
