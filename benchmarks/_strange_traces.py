"""Trace files to try: the recorded runs, cut short, with something strange about them.

Half of them are changed so that they stay sound, with the text of a stranger or a number at the edge of what is
allowed, so that what comes behind reading is tried, too. The other half is changed anywhere.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks._mutation import TEXTS, as_json, changed, damaged, packed, picked
from traces import dumps, read, summarise
from traces.limits import CALL_COUNT, MEASURE, MILLISECONDS, WHOLE
from traces.replay import canvas_size, replayed
from traces.schema import Trace

FOLDER: Final = Path(__file__).parents[1] / "assets" / "traces"
_STEPS: Final = 6
_BYTES: Final = 60_000
"""Of a document before it is changed."""
_COLUMNS: Final = ("p", "q", "accept_prob", "coin", "top", "likely", "row", "paths", "graph", "mask", "signals")
_SIZES: Final = (1e-300, 1e-9, 0.5, 1e6, float(MILLISECONDS))


def cut(trace: Trace, steps: int) -> Trace:
    """The run as far as its first passes went."""
    kept = trace.steps[:steps]
    end = replayed(kept, canvas_size(trace.canvas))
    tokens = tuple(token if final else None for token, final in zip(end.tokens, end.final, strict=True))
    frames = tuple(frame for frame in trace.legend.frames if frame.step <= steps)[:2]
    return replace(
        trace,
        steps=kept,
        output=replace(trace.output, tokens=tokens, image=None, video=(), given=None),
        legend=replace(trace.legend, frames=frames, patches=None),
        summary=summarise(kept, len(tokens), all(end.final), trace.legend.ends),
    )


@cache
def sound() -> tuple[dict[str, Any], ...]:
    """Documents of all recorded runs, cut to a size that can be changed thousands of times."""
    found = []
    for path in sorted(FOLDER.glob("*.json.gz")):
        whole = read(path)
        texts = (dumps(cut(whole, steps)) for steps in range(_STEPS, 0, -1))
        text = next((text for text in texts if len(text) <= _BYTES), dumps(cut(whole, 1)))
        found.append(json.loads(text))
    return tuple(found)


def strange(chance: Random) -> bytes:
    """One file."""
    document = chance.choice(sound())
    way = chance.random()
    if way < 0.5:
        document = twisted(document, chance)
    elif way < 0.85:
        document = changed(document, chance)
    text = as_json(document)
    if way >= 0.85:
        text = damaged(text, chance)
    return packed(text, chance) if chance.random() < 0.15 else text


def twisted(document: Mapping[str, Any], chance: Random) -> dict[str, Any]:
    """A copy that stays sound, as far as one can know."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    for _ in range(chance.randint(1, 4)):
        chance.choice(_TWISTS)(made, chance)
    if chance.random() < 0.9:
        made.pop("summary", None)  # it follows from the steps
    return made


def _words(made: dict[str, Any], chance: Random) -> None:
    """Names and words of a stranger, wherever a trace holds free text."""
    text = picked(chance)
    for name in ("method", "variant", "prompt", "note"):
        made[name] = picked(chance)
    made["model"] = {"id": text, "title": text, "weights": {text: "0" * 64}}
    place = dict.fromkeys(("device", "dtype", "python", "platform", "commit"), text)
    made["environment"] = {**place, "libraries": {text: text}}
    made["config"] = made["config"] | {text: text, "x": chance.choice((text, None, True, WHOLE, 1e308))}
    made["extensions"] = {text: [text, {text: text}]}


def _in_steps(made: dict[str, Any], chance: Random) -> None:
    """The same in the steps."""
    text = picked(chance)
    for step in made["steps"]:
        count = len(step.get("position", ()))
        step["call"]["mode"] = text
        step["numbers"] = step.get("numbers", {}) | {f"x_{text}"[:500]: [chance.choice((0.5, None, MEASURE))] * count}
        step["signals"] = step.get("signals", {}) | {f"x_{text}"[:500]: chance.choice((0.5, -MEASURE, 1e-300))}
        step["mask"] = {"queries": [text, text], "keys": [text, text], "runs": [[1, 1], [0, 2]]}


def _vocabulary(made: dict[str, Any], chance: Random) -> None:
    """Other words for the tokens, or pictures of none."""
    legend = made.get("legend", {})
    words = legend.get("vocabulary")
    if words:
        legend["vocabulary"] = {name: picked(chance) for name in words}
    elif chance.random() < 0.5:
        legend.pop("tiles", None)
    if made["canvas"]["kind"] == "text":
        made["output"]["text"] = picked(chance)


def _costs(made: dict[str, Any], chance: Random) -> None:
    """Times and counts at the edge."""
    for step in made["steps"]:
        call, size = step["call"], chance.choice(_SIZES)
        call["milliseconds"] = dict.fromkeys(("prepare", "forward", "logits", "decide"), size)
        call["query_tokens"] = chance.choice((0, 1, CALL_COUNT))
        call["batch"] = chance.choice((1, CALL_COUNT))


def _fewer(made: dict[str, Any], chance: Random) -> None:
    """Without some columns."""
    gone = chance.sample(_COLUMNS, chance.randint(1, len(_COLUMNS)))
    for step in made["steps"]:
        for name in gone:
            step.pop(name, None)


def _empty_steps(made: dict[str, Any], chance: Random) -> None:
    """Passes that did nothing."""
    count = chance.choice((1, 3, 40, 400, 3000))
    made["steps"] += [{"call": {"role": "self", "mode": "idle", "query_tokens": 0}}] * count


def _head(made: dict[str, Any], chance: Random) -> None:
    """Seeds, times, versions."""
    made["seed"] = chance.choice((None, 0, -1, WHOLE, -WHOLE - 1))
    made["created"] = chance.choice(
        ("0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "2026-01-31T12:00:00.000001+00:00")
    )
    made["version"] = chance.choice(("1.0", "1.2", "1.3", "1.999999999"))
    if made["version"] in ("1.3", "1.999999999"):
        made[chance.choice((*TEXTS, "later"))] = [picked(chance)]


def _shape(made: dict[str, Any], chance: Random) -> None:
    """Another canvas of as many positions."""
    canvas, size = made["canvas"], 1
    for extent in canvas["shape"]:
        size *= extent
    kind, shape = chance.choice(
        (("text", [size]), ("image", [1, size]), ("image", [size, 1]), ("video", [1, 1, size]), ("video", [size, 1, 1]))
    )
    made["canvas"] = {"kind": kind, "shape": shape}
    if chance.random() < 0.3:
        made["canvas"]["order"] = chance.sample(range(size), size)
    if chance.random() < 0.3:
        made["canvas"] |= {"block": chance.choice((1, 2, size)), "block_offset": 0}
    for name in ("tiles", "frames"):
        made.get("legend", {}).pop(name, None)


def _no_steps(made: dict[str, Any], chance: Random) -> None:
    """A run that was stopped before it began."""
    if chance.random() < 0.2:
        made["steps"] = []
        made["output"] = {"tokens": [None] * len(made["output"].get("tokens", ()))}
        made.get("legend", {}).pop("frames", None)


def _rules(made: dict[str, Any], chance: Random) -> None:
    """How verdicts come about, in a stranger's words."""
    made["rules"] = [
        {
            "fates": ["accepted", "resampled"],
            "formula": chance.choice(("{p} {p ? q} {q}", "{coin} is drawn")),
            "says": text,
        }
        for text in chance.sample(TEXTS, 3)
    ]


_TWISTS: Final[tuple[Callable[[dict[str, Any], Random], None], ...]] = (
    *(_words, _words, _in_steps, _in_steps, _vocabulary, _costs, _fewer, _empty_steps, _head, _shape, _no_steps),
    _rules,
)
