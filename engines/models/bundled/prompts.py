"""What the studio image model can be asked for: a garment, a tint and a background.

Fashion-MNIST has ten kinds of garment; training tints them and lays them over crops of photographs. A prompt is
read word by word: every phrase of the tables below, synonyms included, fills its slot, filler words are skipped, and
anything else is refused with the words that can be said. A slot left empty is not conditioned on.
"""

import re
from typing import Final, NamedTuple

GARMENTS: Final[dict[str, tuple[str, ...]]] = {
    "t-shirt": ("t-shirt", "t shirt", "tshirt", "tee", "top"),
    "trousers": ("trousers", "trouser", "pants", "jeans"),
    "pullover": ("pullover", "sweater", "jumper", "hoodie"),
    "dress": ("dress", "gown", "frock"),
    "coat": ("coat", "jacket", "overcoat"),
    "sandal": ("sandal", "sandals", "high heel", "heel"),
    "shirt": ("shirt", "blouse"),
    "sneaker": ("sneaker", "sneakers", "trainer", "trainers", "running shoe", "shoe", "shoes"),
    "bag": ("bag", "handbag", "purse"),
    "ankle boot": ("ankle boot", "ankle boots", "boot", "boots"),
}
"""Name -> phrases, in the order of Fashion-MNIST's labels 0..9."""

TINTS: Final[dict[str, tuple[str, ...]]] = {
    "red": ("red", "crimson", "scarlet"),
    "yellow": ("yellow", "golden", "gold"),
    "green": ("green", "emerald"),
    "blue": ("blue", "navy"),
    "purple": ("purple", "violet", "magenta"),
    "white": ("white", "cream"),
}

BACKGROUNDS: Final[dict[str, tuple[str, ...]]] = {
    "grass": ("grass", "lawn", "meadow"),
    "sky": ("blue sky", "sky", "the sky", "clouds"),
    "wood": ("wood", "planks", "wooden planks", "table", "boards"),
    "petals": ("petals", "red petals", "flower petals", "flower", "flowers"),
    "autumn leaves": ("autumn leaves", "fallen leaves", "leaves", "autumn"),
    "forest": ("forest", "woods", "forest floor", "trees"),
    "storm": ("storm", "storm clouds", "stormy sky", "rain"),
    "dusk": ("dusk", "sunset", "evening sky", "twilight"),
}

_FILLER: Final = frozenset(("a", "an", "the", "on", "of", "in", "over", "against", "with", "some", "at", "and", "pair"))
_SLOTS: Final = (("garment", GARMENTS), ("tint", TINTS), ("background", BACKGROUNDS))
_PHRASES: Final = {
    tuple(phrase.split()): (slot, index)
    for slot, table in _SLOTS
    for index, phrases in enumerate(table.values())
    for phrase in phrases
}
"""Words -> slot and index; no phrase is in two tables."""
_LONGEST: Final = max(map(len, _PHRASES))


class PromptError(ValueError):
    """The prompt names something the model cannot draw; the message says what it can."""


class Prompt(NamedTuple):
    """A parsed prompt. Each slot is an index into its table, or -1 where the prompt does not say."""

    garment: int = -1
    tint: int = -1
    background: int = -1

    def __str__(self) -> str:
        """The prompt in the words the model was trained on."""
        garment, tint, background = (
            "" if i < 0 else list(table)[i] for i, (_, table) in zip(self, _SLOTS, strict=True)
        )
        thing = " ".join(word for word in (tint, garment or "garment") if word)
        article = "an" if thing[0] in "aeiou" else "a"
        return f"{article} {thing}" + (f" on {background}" if background else "")


def parse_prompt(text: str) -> Prompt:
    """Read a prompt such as "a red ankle boot on grass".

    Raises:
        PromptError: for an empty prompt, a word outside the vocabulary, or two values for one slot.
    """
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", text.lower())
    slots: dict[str, int] = {}
    unknown: list[str] = []
    while words:
        phrases = (tuple(words[:count]) for count in range(_LONGEST, 0, -1))
        phrase = next((phrase for phrase in phrases if phrase in _PHRASES), None)
        if phrase is None:
            word = words.pop(0)
            unknown += [] if word in _FILLER else [word]
            continue
        slot, index = _PHRASES[phrase]
        if slots.setdefault(slot, index) != index:
            names = [list(dict(_SLOTS)[slot])[k] for k in (slots[slot], index)]
            raise PromptError(f"prompt: it names two {slot}s, {names[0]!r} and {names[1]!r}; keep one.")
        del words[: len(phrase)]
    if unknown or not slots:
        problem = f"{', '.join(map(repr, unknown))} cannot be drawn" if unknown else "it is empty"
        words_of = "; ".join(f"{slot}: {', '.join(table)}" for slot, table in _SLOTS)
        raise PromptError(f'prompt: {problem}. Say "a {{tint}} {{garment}} on {{background}}". {words_of}.')
    return Prompt(**slots)
