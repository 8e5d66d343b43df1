"""Eight scenes drawn as vectors at three times their size, each on its own grounds: land, sea, or clouds in the sky."""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from draftscope.engines.models.bundled.image_networks import SIZE
from draftscope.engines.models.bundled.prompts import WATERS

_DRAWN: Final = 3 * SIZE
_T = TypeVar("_T")
Colour = tuple[int, int, int]
WHITE: Final = (255, 255, 255)
CLOUD_SHADE: Final = (226, 238, 250)
SUN: Final = ((255, 242, 180), (255, 218, 80))


def draw(scene: str, ground: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One background [96, 96, 3]; `GROUNDS` has the grounds of every scene."""
    picture = _Picture(rng)
    _DRAW[scene](picture, ground)
    return np.asarray(picture.image.resize((SIZE, SIZE), Image.Resampling.BOX))


class _Picture:
    """A unit square, y downwards, with the shapes that scenes are made of."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.between = rng, rng.uniform
        self.image = Image.new("RGB", (_DRAWN, _DRAWN))
        self.pen = ImageDraw.Draw(self.image)

    def pick(self, *options: _T) -> _T:
        return options[self.rng.integers(len(options))]

    def count_between(self, low: int, high: int) -> range:
        return range(self.rng.integers(low, high + 1))

    def gradient(self, top: Colour, bottom: Colour, start: float = 0.0, end: float = 1.0) -> None:
        """Fill all below `start`; the colour changes down to `end`."""
        shade = Image.linear_gradient("L").resize((_DRAWN, round((end - start) * _DRAWN)))
        tones = Image.new("RGB", shade.size, bottom), Image.new("RGB", shade.size, top)
        self.image.paste(bottom, (0, round(start * _DRAWN), _DRAWN, _DRAWN))
        self.image.paste(Image.composite(*tones, shade), (0, round(start * _DRAWN)))

    def sky(self, sun: float, clouds: tuple[int, int], *colours: tuple[Colour, Colour]) -> None:
        """Draw one of these pairs of colours down to the horizon, the sun with this probability, and clouds."""
        self.gradient(*self.pick(*colours), end=0.65)
        if self.rng.random() < sun:
            self.discs(self.between(0.1, 0.9), self.between(0.1, 0.26), 0.085, *SUN)
        self.clouds(*clouds, 0.45)

    def polygon(self, colour: Colour, *points: tuple[float, float]) -> None:
        self.pen.polygon([(x * _DRAWN, y * _DRAWN) for x, y in points], fill=colour)

    def discs(self, x: float, y: float, radius: float, *colours: Colour) -> None:
        """Concentric discs, the outermost first; the last one has this radius."""
        for i, colour in enumerate(colours):
            reach = radius * (1 + 0.45 * (len(colours) - 1 - i))
            self.dash(x, y - reach, reach, 2 * reach, colour)

    def dash(self, x: float, y: float, reach: float, height: float, colour: Colour) -> None:
        """A bar with round ends below y; a disc where its height is twice its reach."""
        box = [(x - reach) * _DRAWN, y * _DRAWN, (x + reach) * _DRAWN, (y + height) * _DRAWN]
        self.pen.rounded_rectangle(box, radius=height * _DRAWN / 2, fill=colour)

    def hills(self, level: float, height: float, *colours: Colour) -> None:
        """Wavy ground in bands of these colours, the last one down to the foot."""
        a, b, slow, fast = self.between((0, 0, 3, 7), (6.3, 6.3, 6, 10))
        xs = np.linspace(0, 1, 49)
        edge = level + height * (np.sin(slow * xs + a) + 0.35 * np.sin(fast * xs + b)) / 1.35
        for i, colour in enumerate(colours):
            self.polygon(colour, (0, 1), *zip(xs, edge + 0.025 * i, strict=True), (1, 1))

    def clouds(self, low: int, high: int, bottom: float, small: float = 0.06, large: float = 0.1) -> None:
        """Clouds with flat bases, side by side above `bottom`."""
        count = len(self.count_between(low, high))
        for i in range(count):
            x, y, size = (i + self.between()) / count, self.between(0.14, bottom), self.between(small, large)
            for lift, tone in ((0.0, CLOUD_SHADE), (0.14, WHITE)):
                foot = y - lift * size
                for dx, radius in ((-0.95, 0.42), (-0.3, 0.72), (0.45, 0.58), (1.0, 0.36)):
                    self.discs(x + dx * size, foot - radius * size, radius * size, tone)
                self.dash(x, foot - 0.5 * size, 1.2 * size, 0.5 * size, tone)

    def pines(self, gap: float, foot: float, size: float, dark: Colour, light: Colour, *snow: Colour) -> None:
        """A row of firs of three tiers, lit from the left, with or without snow on them."""
        for left in np.arange(self.between(-0.1, 0.05), 1.1, gap):
            x, tall = left + self.between(0, 0.4 * gap), size * self.between(0.85, 1.15)
            self.dash(x, foot - 0.2 * tall, 0.05 * tall, 0.2 * tall, (110, 74, 52))
            for tier in range(3):
                width, base, tip = (0.32 - 0.06 * tier) * tall, foot - 0.13 * tall, foot - 0.53 * tall
                rise = 0.25 * tier * tall
                self.polygon(dark, (x - width, base - rise), (x + width, base - rise), (x, tip - rise))
                self.polygon(light, (x - width, base - rise), (x, base - rise), (x, tip - rise))
                rim = tip - rise + 0.16 * tall
                for white in snow:
                    self.polygon(white, (x - 0.4 * width, rim), (x + 0.4 * width, rim), (x, tip - rise))

    def ripples(self, start: float, colour: Colour, low: int, high: int, centre: float | None = None) -> None:
        """Dashes on water, longer towards the front; about `centre` where they reflect a light."""
        for _ in self.count_between(low, high):
            near = self.between(0.05, 0.95)
            x = self.between() if centre is None else self.rng.normal(centre, 0.07)
            reach = self.between(0.04, 0.07) * (0.6 + near)
            self.dash(x, start + near * (1 - start), reach, 0.012 + 0.008 * near, colour)


def _meadow(picture: _Picture, ground: str) -> None:
    picture.sky(0.5, (1, 3), ((84, 176, 244), (206, 238, 255)), ((104, 196, 236), (236, 246, 226)))
    picture.hills(0.6, 0.07, (146, 206, 108))
    picture.hills(0.66, 0.05, (112, 188, 80))
    picture.hills(0.74, 0.03, (84, 168, 64))
    for _ in picture.count_between(5, 10):
        x, y = picture.between(0.02, 0.98), picture.between(0.83, 0.97)
        petals = picture.pick(WHITE, (255, 132, 160), (255, 214, 74))
        for dx, dy in ((-0.012, 0), (0.012, 0), (0, -0.012), (0, 0.012)):
            picture.discs(x + dx, y + dy, 0.011, petals)
        picture.discs(x, y, 0.008, (255, 176, 40))


def _sea(picture: _Picture, ground: str) -> None:
    picture.sky(0.4, (0, 3), ((96, 186, 246), (222, 244, 255)))
    horizon = picture.between(0.5, 0.6)
    picture.gradient(*picture.pick(((44, 150, 214), (20, 96, 176)), ((56, 188, 206), (18, 128, 178))), horizon)
    picture.ripples(horizon, (170, 222, 244), 7, 12)
    if ground == "land":
        picture.hills(picture.between(0.76, 0.8), 0.022, WHITE, (214, 178, 122), (248, 222, 160))


def _desert(picture: _Picture, ground: str) -> None:
    day = (112, 200, 240), (252, 240, 206), (238, 194, 124), (204, 166, 106), (232, 176, 100), (248, 206, 132)
    evening = (250, 176, 116), (255, 234, 178), (214, 138, 92), (184, 118, 80), (222, 148, 88), (240, 184, 112)
    top, bottom, light, dark, back, front = picture.pick(day, evening)
    picture.sky(1.0, (0, 0), (top, bottom))
    if picture.rng.random() < 0.4:
        left, large = picture.between(0.1, 0.9), picture.between(0.1, 0.16)
        for x, size in ((left, large), (left + 1.5 * large, 0.6 * large)):
            tip = x, 0.66 - 1.25 * size
            picture.polygon(light, (x - size, 0.68), tip, (x + size, 0.68))
            picture.polygon(dark, (x + 0.3 * size, 0.68), tip, (x + size, 0.68))
    picture.hills(0.65, 0.045, back)
    picture.hills(0.74, 0.04, front)


def _night(picture: _Picture, ground: str) -> None:
    picture.sky(0, (0, 0), ((14, 18, 62), (70, 66, 142)))
    for _ in picture.count_between(10, 18):
        picture.discs(picture.between(), picture.between(0, 0.6), picture.pick(0.006, 0.009, 0.013), (255, 246, 206))
    x, y = picture.between(0.12, 0.88), picture.between(0.12, 0.24)
    if picture.rng.random() < 0.5:
        picture.discs(x, y, 0.085, (74, 74, 142), (255, 244, 204))
    else:
        picture.discs(x, y, 0.085, (255, 244, 204))
        picture.discs(x + 0.045, y - 0.02, 0.07, (24, 28, 78))
    if ground == "sea":
        horizon = picture.between(0.5, 0.6)
        picture.gradient((44, 60, 136), (16, 26, 82), horizon)
        picture.ripples(horizon, (92, 116, 190), 4, 7)
        picture.ripples(horizon, (236, 226, 190), 4, 7, x)
    else:
        dark, green = ((44, 58, 108), (26, 38, 80)), ((36, 76, 92), (20, 54, 70))
        back, front = picture.pick(dark, green, ((116, 134, 192), (166, 182, 226)))
        picture.hills(0.64, 0.06, back)
        picture.hills(0.74, 0.035, front)


def _sunset(picture: _Picture, ground: str) -> None:
    picture.sky(0, (0, 0), ((104, 66, 156), (255, 164, 96)), ((220, 92, 110), (255, 208, 112)))
    horizon, x = picture.between(0.56, 0.62), picture.between(0.15, 0.85)
    picture.discs(x, horizon - picture.between(0, 0.08), 0.11, (255, 186, 104), (255, 206, 116), (255, 236, 158))
    for _ in picture.count_between(0, 3):
        picture.dash(picture.between(), picture.between(0.1, 0.4), picture.between(0.08, 0.18), 0.028, (255, 176, 132))
    if ground == "sea":
        picture.gradient((236, 126, 100), (86, 58, 132), horizon)
        picture.ripples(horizon, (244, 160, 120), 3, 6)
        picture.ripples(horizon, (255, 226, 150), 5, 9, x)
    else:
        picture.hills(0.62, 0.05, (150, 76, 122))
        picture.hills(0.74, 0.035, (98, 56, 110))


def _forest(picture: _Picture, ground: str) -> None:
    picture.sky(0, (0, 0), ((150, 212, 226), (222, 244, 220)), ((186, 222, 190), (240, 244, 206)))
    picture.pines(0.16, 0.7, 0.46, (122, 182, 142), (136, 194, 152))
    picture.hills(0.67, 0.02, (112, 178, 92))
    picture.pines(0.32, 0.75, 0.56, (38, 116, 78), (54, 138, 88))
    picture.hills(0.77, 0.02, (82, 150, 70))


def _snow(picture: _Picture, ground: str) -> None:
    picture.sky(0, (0, 0), ((116, 176, 228), (224, 240, 252)), ((172, 164, 218), (255, 224, 222)))
    picture.hills(0.58, 0.09, (204, 220, 242))
    picture.hills(0.66, 0.05, (226, 236, 250))
    picture.pines(picture.between(0.3, 0.6), 0.74, 0.3, (56, 124, 118), (74, 146, 134), WHITE)
    picture.hills(0.76, 0.025, (250, 252, 255))
    for _ in picture.count_between(8, 14):
        picture.discs(picture.between(), picture.between(0, 0.7), picture.pick(0.01, 0.014), WHITE)


def _sky(picture: _Picture, ground: str) -> None:
    picture.sky(0.5, (1, 2), ((54, 138, 234), (176, 222, 255)), ((92, 160, 240), (250, 226, 232)))
    picture.clouds(1, 2, 0.7 if ground == "land" else 0.95, 0.09, 0.13)
    if ground == "land":
        for level, tone in ((0.8, CLOUD_SHADE), (0.84, WHITE)):
            picture.polygon(tone, (0, level), (1, level), (1, 1), (0, 1))
            for x in np.arange(0, 1.1, 0.15):
                picture.discs(x + picture.between(-0.03, 0.03), level, picture.between(0.06, 0.14), tone)


_DRAW: Final = {draws.__name__[1:]: draws for draws in (_meadow, _sea, _desert, _night, _sunset, _forest, _snow, _sky)}
GROUNDS: Final = dict.fromkeys(_DRAW, ("land",)) | dict.fromkeys(WATERS, ("land", "sea")) | {"sky": ("land", "air")}
"""Scene -> its grounds, by the kind of thing that can be on them; land in the sky is a bank of clouds."""
