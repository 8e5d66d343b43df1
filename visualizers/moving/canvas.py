"""The canvas of a picture or of a video, as the player shows it: what is decoded, drafts hatched, the rest a grid."""

import base64
import io
from collections.abc import Callable, Iterable
from math import ceil, sqrt
from typing import Final

from PIL import Image, ImageDraw

from traces.replay import PENDING, State, outcomes
from traces.schema import Fate, Tiles, Trace
from traces.video import cell_of, frame_count, frame_names
from visualizers.moving.colors import REJECTED, Colors, hatching
from visualizers.moving.errors import MOST_PICTURE, MovingError, NoRoom
from visualizers.moving.lettering import Letters

VEIL: Final = 150
"""Of 255: how much of a draft the panel hides."""
LINES: Final = 120
"""Of 255: how dark the hatching of a draft is."""
MOST_ACROSS: Final = 4
"""Latent frames side by side."""


class PictureCanvas:
    """What a picture or a video looks like after some passes. Its size is fixed when it is made."""

    def __init__(self, trace: Trace, room: tuple[int, int], unit: float, colors: Colors) -> None:
        """Find the largest cells with which the canvas fits into `room`, in pixels; `unit` scales all else.

        Raises:
            NoRoom: Cells would be smaller than a pixel.
        """
        self._trace, self._colors = trace, colors
        *_, self._rows, self._columns = trace.canvas.shape
        self._frames = frame_count(trace.canvas)
        self._across = self._frames if self._frames <= MOST_ACROSS else ceil(sqrt(self._frames))
        self._down = ceil(self._frames / self._across)
        self._gap = max(2, round(12 * unit)) if self._frames > 1 else 0
        self._label = Letters(11 * unit, colors.surface.muted)
        self._head = round(18 * unit) if self._frames > 1 else 0
        self._opened: dict[str, Image.Image] = {}
        self._cell = self._fitting(room)
        self.width = self._across * self._columns * self._cell + (self._across - 1) * self._gap
        self.height = self._down * (self._rows * self._cell + self._head) + (self._down - 1) * self._gap
        if self.width > room[0] or self.height > room[1]:
            size = " x ".join(map(str, trace.canvas.shape))
            raise NoRoom(f"a canvas of {size} tokens does not fit", "choose a larger {size}")
        self._names = frame_names(trace)
        self._scaled: dict[int, Image.Image] = {}

    def _fitting(self, room: tuple[int, int]) -> int:
        width = (room[0] - (self._across - 1) * self._gap) // (self._across * self._columns)
        heads = self._down * self._head + (self._down - 1) * self._gap
        cell = max(1, min(width, (room[1] - heads) // (self._down * self._rows)))
        return max(1, cell - cell % self._grain(), cell * 4 // 5)

    def _grain(self) -> int:
        """Return the pixels of a recorded picture to a cell: enlarged by a whole number, all of them are alike."""
        frames = self._trace.legend.frames
        recorded = frames[0].image if frames else self._trace.output.image
        if recorded is None or self._trace.legend.tiles is not None:
            return 1
        return max(1, self._open(recorded).width // (self._columns * self._frames))

    def box(self, position: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a position, the last two not included."""
        frame, inside = divmod(cell_of(self._trace.canvas, position), self._rows * self._columns)
        row, column = divmod(inside, self._columns)
        left, top = self._corner(frame)
        left, top = left + column * self._cell, top + row * self._cell
        return left, top, left + self._cell, top + self._cell

    def _corner(self, frame: int) -> tuple[int, int]:
        down, across = divmod(frame, self._across)
        left = across * (self._columns * self._cell + self._gap)
        return left, down * (self._rows * self._cell + self._head + self._gap) + self._head

    def paint(self, state: State, tick: int = 0) -> Image.Image:
        """Return the canvas after `state.step` passes, which looks the same at every tick."""
        surface = self._colors.surface
        image = Image.new("RGB", (self.width, self.height), surface.background)
        self._ground(image, state)
        if not (state.final and all(state.final)):
            self._grid(image, [p for p, token in enumerate(state.tokens) if token is None])
            self._hatch(image, [p for p, fate in enumerate(state.fates) if fate in PENDING])
        for name, frame in zip(self._names, range(self._frames if self._frames > 1 else 0), strict=False):
            left, top = self._corner(frame)
            room = self._columns * self._cell
            self._label.write(image, (left, top - 0.4 * self._label.size), self._label.shortened(name, room))
        if 0 < state.step < len(self._trace.steps):
            self._mark(image, state.step)
        return image

    def _ground(self, image: Image.Image, state: State) -> None:
        """Draw what the tokens look like: their tiles, the picture that was recorded, or the colours of their fates."""
        legend, output = self._trace.legend, self._trace.output
        whole = output.image if state.step == len(self._trace.steps) and self._frames == 1 else None
        recorded = [frame.image for frame in legend.frames if frame.step <= state.step]
        if whole:
            self._lay_picture(image, whole)
        elif legend.tiles is not None:
            self._lay_tiles(image, legend.tiles, state)
        elif recorded:
            self._lay_picture(image, recorded[-1])
        else:
            self._lay_fates(image, state)

    def _lay_picture(self, image: Image.Image, address: str) -> None:
        """Draw a picture of the whole canvas; of a video, its latent frames stand side by side."""
        picture = self._open(address)
        for frame in range(self._frames):
            left, right = (round(edge * picture.width / self._frames) for edge in (frame, frame + 1))
            part = picture.crop((left, 0, right, picture.height))
            size = self._columns * self._cell, self._rows * self._cell
            enlarging = part.width <= size[0]
            method = Image.Resampling.NEAREST if enlarging else Image.Resampling.LANCZOS
            image.paste(part.resize(size, method), self._corner(frame))

    def _lay_tiles(self, image: Image.Image, tiles: Tiles, state: State) -> None:
        for position, token in enumerate(state.tokens):
            if isinstance(token, int):
                image.paste(self._tile(tiles, token), self.box(position)[:2])

    def _tile(self, tiles: Tiles, token: int) -> Image.Image:
        if token not in self._scaled:
            atlas = self._open(tiles.png)
            row, column = divmod(token, tiles.columns)
            top, left = min(row * tiles.size, atlas.height), column * tiles.size
            tile = atlas.crop((left, top, left + tiles.size, top + tiles.size))
            method = Image.Resampling.NEAREST if self._cell >= tiles.size else Image.Resampling.BOX
            self._scaled[token] = tile.resize((self._cell, self._cell), method)
        return self._scaled[token]

    def _lay_fates(self, image: Image.Image, state: State) -> None:
        for position, (fate, token) in enumerate(zip(state.fates, state.tokens, strict=True)):
            if fate is not None and token is not None:
                image.paste(self._colors.fates[fate], self.box(position))

    def _grid(self, image: Image.Image, positions: Iterable[int]) -> None:
        pen, surface = ImageDraw.Draw(image), self._colors.surface
        for position in positions:
            left, top, right, bottom = self.box(position)
            pen.rectangle((left, top, right - 1, bottom - 1), fill=surface.panel)
            if self._cell >= 6:
                pen.rectangle((left, top, right, bottom), outline=surface.line)

    def _hatch(self, image: Image.Image, positions: list[int]) -> None:
        """Veil drafts and draw diagonal lines over them."""
        if not positions:
            return
        mask = Image.new("L", image.size, 0)
        for position in positions:
            mask.paste(VEIL, self.box(position))
        image.paste(self._colors.surface.panel, mask=mask)
        lines = hatching(*image.size, max(4, round(self._cell / 3)))
        lines = Image.composite(lines.point(_share(LINES)), Image.new("L", image.size, 0), mask.point(_any))
        image.paste(self._colors.hatch, mask=lines)

    def _mark(self, image: Image.Image, count: int) -> None:
        """Frame the positions that the last pass decided; a rejected draft has a filled corner, too."""
        pen = ImageDraw.Draw(image)
        thick = max(1, round(self._cell / 12))
        for position, left in outcomes(self._trace.steps[count - 1]).items():
            if not (left.fate.final or left.fate in REJECTED):
                continue
            box = self.box(position)
            color = mark_color(left.fate, self._colors)
            edge = box[0], box[1], box[2] - 1, box[3] - 1
            pen.rectangle(edge, outline=color, width=thick)
            if left.fate in REJECTED:
                corner = self._cell * 0.45
                pen.polygon([edge[:2], (edge[0] + corner, edge[1]), (edge[0], edge[1] + corner)], fill=color)

    def _open(self, address: str) -> Image.Image:
        if address not in self._opened:
            if len(self._opened) > 2:
                self._opened.clear()
            self._opened[address] = opened(address)
        return self._opened[address]


def mark_color(fate: Fate, colors: Colors) -> str:
    """Return the colour of the frame around a position that a pass decided."""
    return colors.surface.emphasis if fate in REJECTED else colors.surface.accent


def opened(address: str) -> Image.Image:
    """Return the picture in a data: URL of a trace.

    Raises:
        MovingError: It is damaged, or too large to be read for every frame.
    """
    _, _, data = address.partition("base64,")
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        if picture.width * picture.height <= MOST_PICTURE:
            return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        pass
    raise MovingError(
        f"a picture in the trace is damaged or has more than {MOST_PICTURE} pixels", "record the run again"
    )


def _share(most: int) -> Callable[[float], float]:
    return lambda value: value * most / 255


def _any(value: float) -> float:
    return 255 if value else 0
