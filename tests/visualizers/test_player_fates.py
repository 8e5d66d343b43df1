"""Fates drawn on a picture are legible on whatever picture lies below, in both themes."""

from dataclasses import replace

import pytest
from playwright.sync_api import Page
from support import handmade
from support.playing import go, pixels, settle, show

from traces import Fate
from visualizers import player


def luminance(color: tuple[int, ...]) -> float:
    parts = [part / 255 for part in color]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.browser
def test_fates_on_a_picture_can_be_read(page: Page) -> None:
    trace = handmade.scd()
    show(page, replace(trace, output=replace(trace.output, image=None)))
    page.get_by_label("Mark what became of each token").check()
    go(page, 1)
    canvas = page.locator(".ds-picture canvas")
    fates = {fate.value: told for fate, told in zip(Fate, player.data()["fates"], strict=True)}
    expected = ["accepted", "resampled", "drafted", "drafted"]
    for scheme, fill, ink in (("light", "light", "inkOnLight"), ("dark", "dark", "inkOnDark")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        settle(page)
        drawn = pixels(canvas)
        side = drawn.width // 3
        for place, name in enumerate(expected):
            plate, glyph = rgb(fates[name][fill]), rgb(fates[name][ink])
            assert contrast(plate, glyph) >= 4.5, (name, scheme)
            x, y = side * (place % 3) + side // 2, side * (place // 3) + side // 2
            near = [drawn.getpixel((x + i, y + j)) for i in range(-8, 9) for j in range(-8, 9)]
            assert near.count(plate) > 40, (name, scheme, set(near))
