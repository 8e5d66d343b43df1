"""The canvas of a text: words where they stand at the end, drafts hatched, masks as empty boxes.

Every token has its place from the first frame on, so that nothing jumps: as much room as its final text takes.
"""

from dataclasses import dataclass
from typing import Final

from PIL import Image, ImageDraw

from traces.replay import PENDING, Outcome, State, outcomes
from traces.schema import Fate, Trace
from visualizers.moving.colors import REJECTED, Colors, hatching
from visualizers.moving.errors import NoRoom
from visualizers.moving.lettering import Letters, written

NARROWEST: Final = 0.5
"""Of the size of letters: the width of a place whose text is no longer."""
PADDING: Final = 0.07
"""Of the size of letters: what a place has on either side of its text."""
_BREAK: Final = "↵"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token stands: left, top and width in pixels."""

    left: int
    top: int
    width: int


class TextCanvas:
    """What a text looks like after some passes. Its size is fixed when it is made."""

    def __init__(self, trace: Trace, room: tuple[int, int], unit: float, colors: Colors) -> None:
        """Set the text in lines as wide as the room, in letters as large as its height allows; `unit` scales all.

        Raises:
            NoRoom: The text is too long for any size of letters that can be read.
        """
        self._trace, self._colors = trace, colors
        self._vocabulary = trace.legend.vocabulary or {}
        self.width = room[0]
        self.positions = told(trace)
        for size in (17, 15, 13, 11, 9):
            self._letters = Letters(size * unit, colors.surface.text)
            self._line = round(size * unit * 1.75)
            self.places = self._set(room[1] - self._line)
            self.height = self.places[-1].top + self._line
            if len(self.places) == self.positions:
                return
        raise NoRoom(f"a text of {self.positions} tokens does not fit", "choose a smaller {size}")

    def _word(self, token: object) -> str:
        """Return the text of a token as it is drawn, without the spaces around it."""
        text = self._vocabulary.get(token, f"#{token}") if isinstance(token, int) else "#"
        return written(text.strip(" ").replace("\n", _BREAK).replace(_BREAK, "") or " ")

    def _set(self, lowest: int) -> list[Place]:
        """Find the place of every token from the final texts, as far as lines are no lower than that."""
        size = self._letters.size
        places: list[Place] = []
        left = top = 0
        pad = round(size * PADDING)
        for position in range(self.positions):
            token = self._trace.output.tokens[position]
            text = self._vocabulary.get(token, "") if isinstance(token, int) else ""
            width = round(max(self._letters.width(self._word(token)), NARROWEST * size)) + 2 * pad
            gap = round(size * 0.26) if text.startswith(" ") and left else 0
            if left + gap + width > self.width and left:
                left, top, gap = 0, top + self._line, 0
            if top > lowest and places:
                break
            places.append(Place(left + gap, top, min(width, self.width)))
            left += gap + width + 1
            if "\n" in text:
                left, top = 0, top + self._line
        return places

    def box(self, position: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a position, the last two not included."""
        place = self.places[position]
        margin = round(self._line * 0.1)
        return place.left, place.top + margin, place.left + place.width, place.top + self._line - margin

    def paint(self, state: State, tick: int = 0) -> Image.Image:
        """Return the canvas after `state.step` passes, which looks the same at every tick."""
        image = Image.new("RGB", (self.width, self.height), self._colors.surface.background)
        moving = 0 < state.step < len(self._trace.steps)
        left = outcomes(self._trace.steps[state.step - 1]) if moving else {}
        for position in range(self.positions):
            token, fate = state.tokens[position], state.fates[position]
            if token is None:
                self._mask(image, position, left.get(position))
            elif fate in PENDING:
                self._draft(image, position, token)
            else:
                self._final(image, position, token, left.get(position))
        return image

    def _mask(self, image: Image.Image, position: int, dropped: Outcome | None) -> None:
        """Draw an open position; a cross where this pass rejected its draft."""
        surface, box = self._colors.surface, self.box(position)
        pen = ImageDraw.Draw(image)
        edge = box[0], box[1], box[2] - 1, box[3] - 1
        pen.rectangle(edge, fill=surface.panel, outline=surface.line)
        if dropped is not None and dropped.fate in REJECTED:
            pen.rectangle(edge, outline=surface.emphasis, width=max(1, round(self._letters.size / 9)))
            pen.line((edge[0], edge[3], edge[2], edge[1]), fill=surface.emphasis, width=max(1, self._line // 16))

    def _draft(self, image: Image.Image, position: int, token: object) -> None:
        surface, box = self._colors.surface, self.box(position)
        width, height = box[2] - box[0], box[3] - box[1]
        patch = Image.new("RGB", (width, height), surface.panel)
        lines = hatching(width, height, max(4, round(self._letters.size / 2)))
        patch.paste(surface.line, mask=lines)
        self._say(patch, token, surface.muted)
        ImageDraw.Draw(patch).rectangle((0, 0, width - 1, height - 1), outline=surface.line)
        image.paste(patch, box[:2])

    def _final(self, image: Image.Image, position: int, token: object, decided: Outcome | None) -> None:
        """Draw a final token; on the colour of its fate if this pass decided it, with a corner after a rejection."""
        colors, box = self._colors, self.box(position)
        patch = Image.new("RGB", (box[2] - box[0], box[3] - box[1]), colors.surface.background)
        ink = colors.surface.text
        if decided is not None and decided.fate.final:
            rejected = decided.fate in REJECTED
            fate = Fate.RESAMPLED if rejected else Fate.ACCEPTED
            patch.paste(colors.fates[fate], (0, 0, *patch.size))
            ink = colors.inks[fate]
            if rejected:
                side = patch.height * 0.4
                ImageDraw.Draw(patch).polygon([(0, 0), (side, 0), (0, side)], fill=ink)
        self._say(patch, token, ink)
        image.paste(patch, box[:2])

    def _say(self, patch: Image.Image, token: object, color: str) -> None:
        letters = Letters(self._letters.size, color)
        word = self._word(token)
        if letters.width(word) > patch.width:
            letters = Letters(max(6.0, letters.size * patch.width / letters.width(word)), color)
        left = max(0.0, (patch.width - letters.width(word)) / 2)
        letters.write(patch, (left, patch.height / 2 + self._letters.size * 0.34), word)


def told(trace: Trace) -> int:
    """Return how many positions count: up to the end of a text that is complete, else the whole canvas."""
    return trace.summary.tokens if trace.summary.complete and trace.summary.tokens else len(trace.output.tokens)
