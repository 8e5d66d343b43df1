"""Tally: stories of a running total, written by a studio language model, with their prompts and correct answers.

The answer has a line for every event. There are many correct wordings of a line, since each person has habits. But the
parts of a line must agree: "made" goes with "added" and "makes" with "adds", and if the amount is a word, the total is
spelled out. A decoder that samples two parts of a line at once, each likely by itself, sometimes makes them disagree,
and every total depends on the previous one. This is a property of the data, so training cannot remove it.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final, NamedTuple

FIRST, LAST = 20, 99
"""Range of totals: all have two digits, so that all lines have the same tokens at the same positions."""
MOST: Final = 4
MIN_EVENTS, MAX_EVENTS = 5, 12
EXAMPLE: Final = "49: Hal +1 Ida +3 Eve +3 Fay +4 Ann -3 Ida +4 Fay -2 Jim +2"
NAMES: Final = (
    "Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kim", "Leo", "Mia", "Ned", "Oda", "Pat",
)  # fmt: skip
STRICT: Final = frozenset(NAMES[::4])
"""People who nearly always choose the same words."""
OPENINGS: Final = ("then", "next", "later", "now")
VERBS: Final = {
    "+": (("adds", "added"), ("brings", "brought"), ("finds", "found")),
    "-": (("takes", "took"), ("carries", "carried"), ("gives", "gave")),
}
"""Sign -> present and past tense of the event's verb."""
BEHIND: Final = {"+": ("more", "extra"), "-": ("away", "off")}
LINKS: Final = ("which", "that", "and")
MAKES: Final = (("makes", "made"), ("leaves", "left"))
ENDS: Final = ("now", "overall", "altogether")
ALSO: Final = "also"
"""Word in one line of ten, which shifts all others by a position."""
DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LINE: Final = 12
"""Tokens that a line has at most."""
_ALSO_SHARE: Final = 0.1
_SLOTS: Final = {"opening": 4, "tense": 2, "verb": 3, "spelled": 2, "behind": 2, "link": 3, "makes": 2, "end": 3}
_ALPHA, _STRICT_ALPHA = 0.3, 0.03
"""Parameters of the Dirichlet distributions of habits."""
_HELD_OUT: Final = 8
"""One story in this many is never trained on."""
_EVENT: Final = re.compile(r"\s*,?\s*([a-z]+)\s*([+-])\s*(\d+)", re.IGNORECASE | re.ASCII)


class Event(NamedTuple):
    """A person adds an amount or takes it away."""

    name: str
    sign: str
    amount: int


@dataclass(frozen=True, slots=True)
class Story:
    """A number and what happens to it."""

    start: int
    events: tuple[Event, ...]

    @property
    def prompt(self) -> str:
        """Prompt of the story, without the end of the line."""
        return f"{self.start}: " + " ".join(f"{name} {sign}{amount}" for name, sign, amount in self.events)

    @property
    def held_out(self) -> bool:
        """Whether training leaves this story out: decided by its prompt and by nothing else."""
        return zlib.crc32(self.prompt.encode()) % _HELD_OUT == 0

    def totals(self) -> Iterator[tuple[Event, int]]:
        """Yield the events, each with the total after it."""
        total = self.start
        for event in self.events:
            total += event.amount if event.sign == "+" else -event.amount
            yield event, total

    def write(self, dice: Random) -> str:
        """One of the right answers, in words that its people like."""
        return "".join(_line(event, total, dice) for event, total in self.totals())

    def lines(self) -> list[str]:
        """For each line of an answer, the regular expression of all that is right there."""
        return [_pattern(event, total) for event, total in self.totals()]

    def is_told_by(self, text: str) -> bool:
        """Whether a text is one of the right answers."""
        return re.fullmatch("".join(f"{line}\n" for line in self.lines()), text) is not None


def read(prompt: str) -> Story:
    """Return the story of a prompt such as "45: Ann +2 Bob -3 ...".

    Raises:
        ValueError: If the prompt has another form.
    """
    number, colon, tail = prompt.strip().partition(":")
    start = int(number[:9]) if number.strip().isascii() and number.strip().isdigit() else None
    if start is None or not colon:
        raise ValueError(f"prompt: tells no story; write a number and events, such as {EXAMPLE!r}.")
    if not FIRST <= start <= LAST:
        raise ValueError(f"prompt: a story cannot start from {start}; start from {FIRST} to {LAST}.")
    events, index = [], 0
    while match := _EVENT.match(tail, index):
        name, sign, amount = match[1].capitalize(), match[2], int(match[3][:9])
        if name not in NAMES:
            raise ValueError(f"prompt: unknown name {match[1]!r}; use one of {', '.join(NAMES)}.")
        if not 1 <= amount <= MOST:
            raise ValueError(f"prompt: amount {sign}{amount} is out of range; use 1 to {MOST}.")
        events.append(Event(name, sign, amount))
        index = match.end()
    if tail[index:].strip():
        raise ValueError(f"prompt: {tail[index:].strip()[:20]!r} is not an event; write events as 'Ann +2 Bob -3'.")
    if not MIN_EVENTS <= len(events) <= MAX_EVENTS:
        raise ValueError(f"prompt: it has {len(events)} events; give {MIN_EVENTS} to {MAX_EVENTS}.")
    story = Story(start, tuple(events))
    if outside := [total for _, total in story.totals() if not FIRST <= total <= LAST]:
        raise ValueError(f"prompt: the total gets to {outside[0]}; keep it between {FIRST} and {LAST}.")
    return story


def draw(dice: Random, events: int | None = None, held_out: bool = False) -> Story:
    """Return a random story.

    Args:
        dice: Random source; the same state gives the same story.
        events: Number of events; by default a random one from 5 to 12.
        held_out: Whether the story is one of those that no model is trained on.
    """
    while True:
        total = start = dice.randint(FIRST, LAST)
        happened = []
        for _ in range(events or dice.randint(MIN_EVENTS, MAX_EVENTS)):
            amount = dice.randint(1, MOST)
            signs = ["+"] * (total + amount <= LAST) + ["-"] * (total - amount >= FIRST)
            happened.append(Event(dice.choice(NAMES), dice.choice(signs), amount))
            total += amount if happened[-1].sign == "+" else -amount
        story = Story(start, tuple(happened))
        if story.held_out == held_out:
            return story


def held_out_stories(count: int) -> list[Story]:
    """Return the first `count` held-out stories; they are always the same ones."""
    dice, stories = Random("held out"), dict[str, Story]()
    while len(stories) < count:
        story = draw(dice, held_out=True)
        stories.setdefault(story.prompt, story)
    return list(stories.values())


@cache
def _habits(name: str) -> Mapping[str, tuple[float, ...]]:
    """How often a person makes each choice, from a Dirichlet distribution a slot; fixed by the name."""
    dice, alpha = Random(name), _STRICT_ALPHA if name in STRICT else _ALPHA
    drawn = {slot: [dice.gammavariate(alpha, 1) for _ in range(count)] for slot, count in _SLOTS.items()}
    return {slot: tuple(weight / sum(weights) for weight in weights) for slot, weights in drawn.items()}


def _line(event: Event, total: int, dice: Random) -> str:
    name, sign, amount = event
    pick = {slot: dice.choices(range(len(likes)), likes)[0] for slot, likes in _habits(name).items()}
    words = [
        OPENINGS[pick["opening"]],
        name,
        *([ALSO] if dice.random() < _ALSO_SHARE else []),
        VERBS[sign][pick["verb"]][pick["tense"]],
        _number(amount, pick["spelled"]),
        BEHIND[sign][pick["behind"]],
        LINKS[pick["link"]],
        MAKES[pick["makes"]][pick["tense"]],
        _number(total, pick["spelled"]),
        ENDS[pick["end"]],
    ]
    return " ".join(words) + "\n"


def _number(number: int, spelled: int) -> str:
    return " ".join(DIGITS[int(digit)] for digit in str(number)) if spelled else str(number)


def _pattern(event: Event, total: int) -> str:
    """Return a regular expression that matches every correct line."""
    name, sign, amount = event
    agreeing = [
        f"{_any(verb[tense] for verb in VERBS[sign])} {_number(amount, spelled)} {_any(BEHIND[sign])} {_any(LINKS)} "
        f"{_any(makes[tense] for makes in MAKES)} {_number(total, spelled)}"
        for tense in (0, 1)
        for spelled in (0, 1)
    ]
    return f"{_any(OPENINGS)} {name} (?:{ALSO} )?{_any(agreeing)} {_any(ENDS)}"


def _any(choices: Iterable[str]) -> str:
    return f"(?:{'|'.join(choices)})"
