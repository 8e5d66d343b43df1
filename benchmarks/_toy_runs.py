"""Finished runs of the toy raster, which needs no weights and takes a fraction of a second: as it ships and smaller."""

import colorsys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

from draftscope.engines.models.toys import toy_raster
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Canvas, Legend, Milliseconds, Output, Tiles, Trace
from draftscope.traces.stats import summarise
from draftscope.visualizers.picture import data_url, picture_of

MODEL = "toy-raster"
CODES, TILE = 16, 4
"""Levels of a smaller raster, and pixels of a side of their tiles."""


def job(method: str, seed: int = 0, **settings: object) -> Job:
    return RunRequest(method, MODEL, "", seed=seed, settings=settings).job()


@cache
def decode_toy_raster(method: str, seed: int = 0, **settings: object) -> Trace:
    return finish(job(method, seed, **settings))


@cache
def tiles() -> Tiles:
    """A row of colours."""
    colors = [colorsys.hls_to_rgb(code / CODES, 0.5, 0.45) for code in range(CODES)]
    sheet = Image.fromarray((255 * np.array([colors])).round().astype(np.uint8))
    return Tiles(png=data_url(sheet.resize((CODES * TILE, TILE), Image.Resampling.NEAREST)), size=TILE, columns=CODES)


def tile_color(token: Any) -> Any:
    """Red, green and blue of a token's tile."""
    return picture_of(tiles().png).getpixel((token * TILE, 0))


def picture(tokens: Sequence[Any], columns: int) -> str:
    """Return the tiles of tokens in rows; the first tile is drawn for missing tokens."""
    codes = np.array([token or 0 for token in tokens]).reshape(-1, columns)
    cells = Image.fromarray(np.asarray(picture_of(tiles().png))[0, ::TILE][codes])
    return data_url(cells.resize((TILE * columns, TILE * len(codes)), Image.Resampling.NEAREST))


class Small(toy_raster.ToyRaster):
    """The raster at another size, with coloured tiles."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(torch.device("cpu"))
        self._shape = rows, columns

    def make_task(self, prompt: str, config: Any) -> Any:
        return replace(super().make_task(prompt, config), canvas=Canvas(kind="image", shape=self._shape))

    def make_legend(self, *_: object) -> Legend:
        return Legend(tiles=tiles())

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        return Output(tokens=tuple(tokens), image=picture(tokens, self._shape[1]))


@cache
def small(method: str, rows: int, columns: int, seed: int = 0, **settings: object) -> Trace:
    """A run on a small raster; only its times are made up."""
    with patch.multiple(toy_raster, SIDE=columns, LEVELS=CODES):
        trace = finish(RunRequest(method, Small(rows, columns), "", seed=seed, settings=settings).job())
    steps = []
    for k, step in enumerate(trace.steps):
        drafts = step.call.query_tokens
        spent = Milliseconds(
            prepare=0.4, forward=8 + 0.06 * drafts + k % 7 / 10, logits=0.3, decide=0.1 + 0.02 * drafts
        )
        steps.append(replace(step, call=replace(step.call, milliseconds=spent)))
    return replace(trace, steps=tuple(steps), summary=summarise(steps, rows * columns, complete=True))


def ordinary(rows: int = 12, columns: int = 12, seed: int = 0) -> Trace:
    """One token a pass."""
    return small("ar", rows, columns, seed)


def jacobi(
    rows: int = 12, columns: int = 12, window: int = 16, seed: int = 0, *, coupling: str = "none", **settings: object
) -> Trace:
    """Speculative Jacobi decoding: a window slides over the picture, and drafts converge until they are accepted."""
    return small("scd", rows, columns, seed, window=window, coupling=coupling, **settings)
