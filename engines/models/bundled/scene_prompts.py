"""What the scene pictures show: one of about a hundred things, by its CLDR name, in one of eight scenes."""

from typing import Final, Literal

Place = Literal["land", "air", "sea"]
"""Where a thing belongs: it stands on the ground, flies above the horizon or swims in the sea."""

_LAND: Final = """
🐒 monkey, 🦍 gorilla, 🦧 orangutan, 🐕 dog, 🐈 cat, 🐅 tiger, 🐎 horse, 🦌 deer, 🐄 cow, 🐖 pig, 🐏 ram, 🐑 ewe,
🐪 camel, 🦒 giraffe, 🐘 elephant, 🦣 mammoth, 🦏 rhinoceros, 🐁 mouse, 🐇 rabbit, 🐿 chipmunk, 🦔 hedgehog, 🦘 kangaroo,
🐓 rooster, 🐤 baby chick, 🐧 penguin, 🦆 duck, 🦉 owl, 🦩 flamingo, 🦚 peacock, 🦜 parrot, 🐊 crocodile, 🐢 turtle,
🐍 snake, 🐉 dragon, 🦕 sauropod, 🦖 T-Rex, 🐌 snail, 🦀 crab, 🌷 tulip, 🌴 palm tree, 🌵 cactus, 🍄 mushroom,
🍎 red apple, 🍓 strawberry, 🍍 pineapple, 🍉 watermelon, 🎃 jack-o-lantern, 🍔 hamburger, 🍦 soft ice cream,
🧁 cupcake, 🎂 birthday cake, 🍩 doughnut, 🚗 automobile, 🚕 taxi, 🚌 bus, 🚓 police car, 🚑 ambulance, 🚒 fire engine,
🚜 tractor, 🏎 racing car, 🏍 motorcycle, 🛵 motor scooter, 🚲 bicycle, 🚂 locomotive, ⛺ tent, 🏠 house, 🏰 castle,
🎪 circus tent, 🎡 ferris wheel, 🎠 carousel horse, ⛄ snowman, 🧸 teddy bear, 🥁 drum, 🎁 wrapped gift,
⚽ soccer ball"""
_AIR: Final = """
🕊 dove, 🦅 eagle, 🦇 bat, 🦋 butterfly, 🐝 honeybee, 🐞 lady beetle, 🚁 helicopter, ✈ airplane, 🚀 rocket,
🛸 flying saucer, 🎈 balloon, 🪁 kite, 🪂 parachute"""
_SEA: Final = """
🐳 spouting whale, 🐬 dolphin, 🦈 shark, 🐟 fish, 🐠 tropical fish, 🐡 blowfish, 🐙 octopus, 🦑 squid, 🦢 swan,
⛵ sailboat, 🛶 canoe, 🚤 speedboat, 🛳 passenger ship"""


_TABLES: Final[dict[Place, str]] = {"land": _LAND, "air": _AIR, "sea": _SEA}
THINGS: Final[dict[str, tuple[str, Place]]] = {
    name: (emoji, place)
    for place, table in _TABLES.items()
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


def prompt_of(thing: str, scene: str) -> str:
    """The prompt of a picture, such as "an owl in the forest"."""
    article = "an" if thing[0] in "aeiou" and thing != "ewe" else "a"
    return f"{article} {thing} {SCENES[scene]}"
