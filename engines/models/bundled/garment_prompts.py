"""What the studio patch models show: a garment, a tint and a background.

Fashion-MNIST has ten kinds of garment; training tints them and lays them over crops of photographs.
"""

import itertools
from typing import Final, NamedTuple

from engines.models.bundled.prompts import read_slots

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

SLOTS: Final = {"garment": GARMENTS, "tint": TINTS, "background": BACKGROUNDS}
_FILLER: Final = "a an the on of in over against with some at and pair"


class Prompt(NamedTuple):
    """A parsed prompt. Each slot is an index into its table, or -1 where the prompt does not say."""

    garment: int = -1
    tint: int = -1
    background: int = -1

    def __str__(self) -> str:
        """The prompt in the words the model was trained on."""
        garment, tint, background = (
            "" if i < 0 else list(table)[i] for i, table in zip(self, SLOTS.values(), strict=True)
        )
        thing = " ".join(word for word in (tint, garment or "garment") if word)
        article = "an" if thing[0] in "aeiou" else "a"
        return f"{article} {thing}" + (f" on {background}" if background else "")


PROMPTS: Final = [Prompt(*indices) for indices in itertools.product(*(range(len(table)) for table in SLOTS.values()))]
"""All that there are."""


def parse_prompt(text: str) -> Prompt:
    """Read a prompt such as "a red ankle boot on grass"; raises `PromptError` as `read_slots` does."""
    return Prompt(**read_slots(text, SLOTS, _FILLER, "a {tint} {garment} on {background}"))
