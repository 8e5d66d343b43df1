"""Prompts of the studio image model: one of about eighty things, by its CLDR name, in one of eight scenes.

A prompt is read word by word: every phrase of the tables, synonyms included, fills its slot, filler words are skipped,
and anything else is rejected with the words that are possible. An empty slot is not conditioned on.
"""

import re
from typing import Final, Literal, NamedTuple

Place = Literal["land", "air", "sea"]
"""Location of a thing: on the ground, above the horizon, or in the sea."""

_TABLES: Final[dict[Place, str]] = {
    "land": """
🐒 monkey, 🦍 gorilla, 🐕 dog, 🐈 cat, 🐅 tiger, 🐎 horse, 🦌 deer, 🐄 cow, 🐖 pig, 🐏 ram, 🐪 camel, 🦒 giraffe,
🐘 elephant, 🦏 rhinoceros, 🐇 rabbit, 🦔 hedgehog, 🐓 rooster, 🐤 baby chick, 🐧 penguin, 🦆 duck, 🦉 owl,
🦩 flamingo, 🦚 peacock, 🦜 parrot, 🐊 crocodile, 🐢 turtle, 🐍 snake, 🐉 dragon, 🦖 T-Rex, 🐌 snail, 🦀 crab,
🌷 tulip, 🌴 palm tree, 🌵 cactus, 🍄 mushroom, 🍎 red apple, 🍓 strawberry, 🍍 pineapple, 🍉 watermelon,
🎃 jack-o-lantern, 🍔 hamburger, 🍦 soft ice cream, 🧁 cupcake, 🎂 birthday cake, 🍩 doughnut, 🚕 taxi, 🚌 bus,
🚓 police car, 🚒 fire engine, 🚜 tractor, 🏍 motorcycle, 🚲 bicycle, 🚂 locomotive, 🏠 house, 🏰 castle,
🎪 circus tent, 🎡 ferris wheel, ⛄ snowman, 🧸 teddy bear, 🥁 drum, 🎁 wrapped gift, ⚽ soccer ball""",
    "air": """
🦅 eagle, 🦇 bat, 🦋 butterfly, 🐝 honeybee, 🚁 helicopter, ✈ airplane, 🚀 rocket, 🛸 flying saucer, 🎈 balloon,
🪂 parachute""",
    "sea": """
🐳 spouting whale, 🐬 dolphin, 🦈 shark, 🐠 tropical fish, 🐡 blowfish, 🐙 octopus, 🦢 swan, ⛵ sailboat,
🛳 passenger ship""",
}
THINGS: Final[dict[str, tuple[str, Place]]] = {
    name: (emoji, location)
    for location, table in _TABLES.items()
    for emoji, name in (entry.split(maxsplit=1) for entry in table.split(","))
}
"""Name -> emoji and where it belongs."""

SCENES: Final = {
    "meadow": "in a meadow",
    "sea": "by the sea",
    "desert": "in the desert",
    "night": "at night",
    "sunset": "at sunset",
    "forest": "in the forest",
    "snow": "in the snow",
    "sky": "in the sky",
}
"""Name -> how a prompt says it."""
WATERS: Final = ("sea", "night", "sunset")
"""The scenes where things of the sea can be."""

_SYNONYMS: Final = """
rhino = rhinoceros, bunny = rabbit, chick = baby chick, dinosaur = T-Rex, tyrannosaurus = T-Rex, palm = palm tree,
toadstool = mushroom, apple = red apple, pumpkin = jack-o-lantern, burger = hamburger, ice cream = soft ice cream,
cake = birthday cake, donut = doughnut, cab = taxi, car = taxi, fire truck = fire engine, motorbike = motorcycle,
bike = bicycle, train = locomotive, tent = circus tent, teddy = teddy bear, gift = wrapped gift, present = wrapped gift,
football = soccer ball, ball = soccer ball, bee = honeybee, plane = airplane, aeroplane = airplane, ufo = flying saucer,
saucer = flying saucer, whale = spouting whale, fish = tropical fish, pufferfish = blowfish, boat = sailboat,
ship = passenger ship, grass = meadow, field = meadow, ocean = sea, beach = sea, dusk = sunset, evening = sunset,
woods = forest, trees = forest, winter = snow, clouds = sky"""
_PAIRS: Final = [pair.strip().split(" = ") for pair in _SYNONYMS.split(",")]
SLOTS: Final = {
    slot: {name: (name.lower(), *(phrase for phrase, meant in _PAIRS if meant == name)) for name in table}
    for slot, table in (("thing", THINGS), ("scene", SCENES))
}
_PHRASES: Final = {
    tuple(phrase.split()): (slot, index)
    for slot, table in SLOTS.items()
    for index, phrases in enumerate(table.values())
    for phrase in phrases
}
_LONGEST: Final = max(map(len, _PHRASES))
_FILLER: Final = ("a", "an", "the", "in", "on", "at", "by", "over", "under", "of", "and", "something")


class PromptError(ValueError):
    """Error for a prompt that names something the model cannot draw; the message lists what it can."""


class Prompt(NamedTuple):
    """A parsed prompt. Each slot is an index into its table, or -1 where the prompt does not say."""

    thing: int = -1
    scene: int = -1

    def __str__(self) -> str:
        """The prompt in the words of the tables, such as "an owl in the forest"."""
        thing = "something" if self.thing < 0 else list(THINGS)[self.thing]
        article = "" if self.thing < 0 else "an " if thing[0] in "aeiou" else "a "
        return article + thing + ("" if self.scene < 0 else f" {list(SCENES.values())[self.scene]}")


PROMPTS: Final = [
    Prompt(i, k)
    for i, (_, location) in enumerate(THINGS.values())
    for k, scene in enumerate(SCENES)
    if location != "sea" or scene in WATERS
]
"""Prompts with pictures in the training data."""


def parse_prompt(text: str) -> Prompt:
    """Read a prompt such as "an owl in the forest"; raises PromptError for words that cannot be drawn."""
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", text.lower())
    found: dict[str, int] = {}
    unknown: list[str] = []
    while words:
        starts = (tuple(words[:count]) for count in range(_LONGEST, 0, -1))
        phrase = next((start for start in starts if start in _PHRASES), None)
        if phrase is None:
            word = words.pop(0)
            unknown += [] if word in _FILLER else [word]
            continue
        slot, index = _PHRASES[phrase]
        if found.setdefault(slot, index) != index:
            names = [list(SLOTS[slot])[k] for k in (found[slot], index)]
            raise PromptError(f"prompt: it names two {slot}s, {names[0]!r} and {names[1]!r}; keep one.")
        del words[: len(phrase)]
    if unknown or not found:
        problem = f"{', '.join(map(repr, unknown))} cannot be drawn" if unknown else "it is empty"
        words_of = "; ".join(f"{slot}: {', '.join(table)}" for slot, table in SLOTS.items())
        raise PromptError(f'prompt: {problem}. Say "an owl in the forest". {words_of}.')
    return Prompt(**found)
