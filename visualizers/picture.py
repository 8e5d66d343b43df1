"""The canvas in space: where positions lie, and the picture their tokens make."""

import base64
import io
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final, Literal

from PIL import Image

from draftscope.traces.replay import CanvasState, state_after
from draftscope.traces.schema import Canvas, Tiles, Trace

TEXT_COLUMNS: Final = 32
"""Tokens to a row where a text canvas is drawn as a grid."""
OPEN: Final = (128, 134, 145, 48)
"""Red, green, blue, alpha of a position that holds nothing."""
PENDING_ALPHA: Final = 110
"""Opacity, of 255, of drafts."""
PIXELS: Final = 960
"""About the longest side of a composed picture: small tiles are enlarged so that they stay sharp, large ones shrunk."""
_MOVING_MS: Final = 5000
_CLIP_MS: Final = 2400
"""How long a clip takes, where its frames can stay for a time within `_FRAME_MS`."""
_FRAME_MS: Final = (120, 240)


class PictureError(ValueError):
    """A picture in a trace cannot be read."""


def grid(canvas: Canvas) -> tuple[int, int]:
    """Return the rows and columns a canvas is drawn with; the frames of a video stand side by side."""
    if canvas.kind == "text":
        return -(-prod(canvas.shape) // TEXT_COLUMNS), min(TEXT_COLUMNS, prod(canvas.shape))
    *frames, rows, columns = canvas.shape
    return rows, prod(frames) * columns


def cells(canvas: Canvas) -> list[tuple[int, int]]:
    """Return row and column of every position."""
    order = canvas.order or range(prod(canvas.shape))
    if canvas.kind == "text":
        return [divmod(cell, TEXT_COLUMNS) for cell in order]
    *_, rows, columns = canvas.shape
    return [(cell // columns % rows, cell // (rows * columns) * columns + cell % columns) for cell in order]


def render_canvas(tiles: Tiles, canvas: Canvas, state: CanvasState, *, opaque: bool = False) -> Image.Image:
    """Return a picture of the tiles of all tokens; open positions are grey.

    Args:
        tiles: Picture of every token.
        canvas: Canvas of the run.
        state: Tokens after a pass.
        opaque: Whether drafts are as opaque as final tokens.
    """
    rows, columns = grid(canvas)
    atlas = picture_of(tiles.png)
    room = max(1, PIXELS // max(rows, columns))
    size = room if tiles.size > room else room // tiles.size * tiles.size
    picture = Image.new("RGBA", (columns * size, rows * size), OPEN)
    for (row, column), token, final in zip(cells(canvas), state.tokens, state.final, strict=True):
        if not isinstance(token, int):
            continue
        top, left = (tiles.size * offset for offset in divmod(token, tiles.columns))
        top = min(top, atlas.height)  # an id without a tile is drawn black; its position may exceed what Pillow counts
        tile = atlas.crop((left, top, left + tiles.size, top + tiles.size))
        tile = tile.resize((size, size), Image.Resampling.NEAREST if size >= tiles.size else Image.Resampling.BOX)
        tile.putalpha(255 if final or opaque else PENDING_ALPHA)
        picture.paste(tile, (column * size, row * size))
    return picture


def recorded_picture(trace: Trace, state: CanvasState) -> str | None:
    """Return the last picture that was recorded up to a state, as a data: URL; None if there is none.

    Args:
        trace: Run, whose own picture is that of the last state.
        state: State after a pass.
    """
    if state.step == len(trace.steps) and trace.output.image:
        return trace.output.image
    return next((frame.image for frame in reversed(trace.legend.frames) if frame.step <= state.step), None)


def final_picture(trace: Trace) -> str | None:
    """Return the picture that a whole run drew, as a data: URL; None for texts and for runs that were stopped."""
    if trace.canvas.kind != "image" or not trace.summary.complete:
        return None
    if trace.legend.tiles is not None:
        return data_url(render_canvas(trace.legend.tiles, trace.canvas, state_after(trace, len(trace.steps))))
    return trace.output.image


@lru_cache(maxsize=8)
def picture_of(url: str) -> Image.Image:
    """Return the picture of a data: URL.

    Raises:
        PictureError: There is none in it that can be read.
    """
    _, _, data = url.partition("base64,")
    try:
        return Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB")
    except (ValueError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise PictureError(f"a picture in the trace is damaged ({error}); record the run again") from error


def moving_url(frames: Sequence[Image.Image]) -> str:
    """Return frames as a data: URL of a WebP that plays for at most five seconds, so that it needs no pause button.

    Few frames are shown for longer than many.
    """
    each = min(max(_CLIP_MS // len(frames), _FRAME_MS[0]), _FRAME_MS[1], _MOVING_MS // len(frames))
    moves = {
        "save_all": True,
        "append_images": frames[1:],
        "duration": each,
        "loop": _MOVING_MS // (each * len(frames)),
    }
    return data_url(frames[0], "webp", quality=80, **moves)


def data_url(picture: Image.Image, kind: Literal["png", "webp"] = "png", **options: Any) -> str:
    """Return a picture as a data: URL; `options` are Pillow's for that kind of file."""
    data = io.BytesIO()
    picture.save(data, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
