"""The glossary has a sentence for every term; the player's modules are one scope and compute what Python computes."""

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest
from support import handmade
from support.node import in_node
from support.scripts import TEXTS, cut

from benchmarks._toy_runs import jacobi
from draftscope.analysis.run_report import times
from draftscope.engines.methods import METHODS
from draftscope.engines.settings import settings
from draftscope.traces.files import ROOT
from draftscope.traces.io import dumps, read
from draftscope.traces.replay import canvas_states
from draftscope.traces.schema import Trace
from draftscope.traces.stats import count_verdicts
from draftscope.traces.words import words
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


def test_no_two_modules_declare_one_name_and_every_import_is_declared() -> None:
    sources = {path.stem: path.read_text("utf-8") for path in player.FOLDER.glob("*.js")}
    assert all(source.startswith("// @ts-check\n") for source in sources.values())
    modules = {name: source for name, source in sources.items() if "\nexport " in source}
    named, groups = r"(?:export )?(?:async )?(?:class|const|function|let) (\w+)", r"(?:export )?const [{\[] ?([^}\]]*)"
    found = [word for source in modules.values() for word in re.findall(f"^{named}", source, re.M)]
    found += [
        word
        for source in modules.values()
        for words in re.findall(f"^{groups}", source, re.M)
        for word in re.findall(r"\w+", words)
    ]
    names = Counter(found)
    assert len(names) > 200 and [name for name, count in names.items() if count > 1] == []
    script = player.script()
    assert not re.search(r"^(import|export)\b", script, re.M)
    assert {name for name in modules if f"{modules[name].splitlines()[1]}\n" not in script} == set()


REPLAYED = """({ Replay }, { data, trace }) => {
  const replay = new Replay(trace, data);
  replay.replace(trace);
  return [...Array(replay.length + 1).keys()].map((count) => {
    const { finals, token, fate } = replay.seek(count);
    const { accepted, judged } = replay.steps[count - 1] ?? { accepted: 0, judged: 0 };
    return [finals, [...token], [...fate].map((code) => replay.fates[code]?.name ?? null), accepted, judged];
  });
}"""


def shipped(name: str) -> Trace:
    return read(ROOT / "assets" / "traces" / f"{name}.json.gz")


@pytest.mark.parametrize(
    "make",
    [
        lambda: jacobi(7, 9, 5, seed=3),
        handmade.several_rows,
        *(lambda name=name: shipped(name) for name in ("speculative-smollm2", "text-psd", "cspd-patch", "text-s2d2")),
    ],
    ids=["raster", "rows", "speculative", "psd", "vectors", "s2d2"],
)
def test_every_state_is_the_one_that_python_replays(make: Callable[[], Trace]) -> None:
    trace = make()
    states = in_node(REPLAYED, {"data": player.data(), "trace": json.loads(dumps(trace))}, "replay")
    for state, step, (finals, tokens, fates, accepted, judged) in zip(
        canvas_states(trace), [None, *trace.steps], states, strict=True
    ):
        assert finals == state.decoded
        known = [-1 if token is None else 0 if isinstance(token, tuple) else token for token in state.tokens]
        assert tokens == known
        assert fates == [None if fate is None else fate.value for fate in state.fates]
        tally = count_verdicts(step.fate if step else ())
        assert (accepted, judged) == (tally.accepted, tally.judged)


def test_characters_join_and_ratios_are_written_as_in_python() -> None:
    texts = [token for text in TEXTS.values() for seed in range(3) for token in cut(text, seed)]
    texts += ["<0xE4>", "<0xE4>", "<0xBD>", "a", "<0xFF>", "<0xC0>", "<0x80>", "<0xED><0xA0><0x80>", "\ufffd", "<end>"]
    assert in_node("({ displayWords }, texts) => displayWords(texts)", texts, "words") == words(texts)
    ratios = [0.0312, 0.9, 0.994, 0.996, 1, 2.33, 9.94, 9.96, 37.7]
    assert in_node("({ inDigits }, ratios) => ratios.map(inDigits)", ratios, "pass_cost") == [*map(times, ratios)]
