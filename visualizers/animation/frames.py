"""The frames of a moving picture: each run as a canvas with its name above and its counters below.

Final tokens are drawn as they are, drafts faded, open positions as an empty grid. Positions that the last pass decided
have an outline in the colour of their fate, the player's; where it rejected a draft, with a filled corner.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from math import ceil
from textwrap import wrap
from typing import Final, TypeAlias

from PIL import Image, ImageDraw

from draftscope.analysis.run_report import run_reports
from draftscope.traces.labels import labels
from draftscope.traces.replay import PENDING, CanvasReplay, CanvasState, Outcome, canvas_size, position_updates
from draftscope.traces.schema import Fate, Token, Trace
from draftscope.traces.video import frame_count
from draftscope.traces.words import JOINER, canvas_texts, direction, first_piece, words
from draftscope.visualizers.animation.letters import Place, draw_text, han_forms, text_width, visual_places
from draftscope.visualizers.animation.look import AnimationOptions, Moment, MovingError, pass_ends
from draftscope.visualizers.palette import DARK, LIGHT, MARKS, REJECTED, Surface, ink
from draftscope.visualizers.picture import cells, grid, picture_of, recorded_picture, render_canvas

MAX_HEIGHT: Final = 2400
"""Pixels of a frame."""
VEIL: Final = 145
"""Opacity, of 255, of the background over a draft."""
MARGIN, GAP, TITLE, BELOW, FOOT = 14, 20, 30, 62, 52
"""Around a frame, between runs, above and below a canvas, and for the legend; 720 of these units fill the width."""
PICTURE_WIDTH: Final = 432
"""Units that a picture is wide at most."""
_MAX_LETTERS: Final = 400
_SIGN: Final = re.compile(
    r"<(?!0x)[^<>\s]{1,32}>|\[[A-Z]{1,16}\]"
)  # special tokens, as text.js has it; they have no letters

Rectangle: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; the last two are not included."""


def fitted_text(text: str, size: float, width: float) -> str:
    """Return the text, cut at its end where it takes more than `width` pixels in letters of `size` pixels."""
    if len(text) <= _MAX_LETTERS and text_width(text, size) <= width:
        return text
    fits = bisect_right(range(len(text[:_MAX_LETTERS])), width, key=lambda end: text_width(text[:end] + "...", size))
    return text[: max(0, fits - 1)] + "..."


class GridCanvas:
    """A picture, or the latent frames of a video side by side."""

    def __init__(self, trace: Trace, room: tuple[int, int], surface: Surface) -> None:
        """Choose the largest cells that fit into `room`, in pixels.

        Raises:
            MovingError: A cell would be smaller than a pixel.
        """
        self._trace, self._surface = trace, surface
        rows, columns = grid(trace.canvas)
        side = min(room[0] // columns, room[1] // rows)
        if side < 1:
            size = " x ".join(map(str, trace.canvas.shape))
            raise MovingError(f"a canvas of {size} tokens does not fit", "choose a larger width, or fewer runs")
        self.width, self.height = columns * side, rows * side
        self.boxes: list[Rectangle] = [
            (column * side, row * side, (column + 1) * side, (row + 1) * side) for row, column in cells(trace.canvas)
        ]
        self._veil = Image.new("L", (side, side), VEIL)

    def paint(self, state: CanvasState, left: dict[int, Outcome]) -> Image.Image:
        """Return the canvas in a state.

        Args:
            state: State after a pass.
            left: Outcome of the last pass by position; what it made final or rejected is outlined.
        """
        image, surface = self._ground(state), self._surface
        pen = ImageDraw.Draw(image)
        for box, token, fate, final in zip(self.boxes, state.tokens, state.fates, state.final, strict=True):
            if token is None and not final:
                pen.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill=surface.panel)
                pen.rectangle(box, outline=surface.line)
            elif fate in PENDING:
                image.paste(surface.panel, box, self._veil)
        for position, outcome in left.items():
            if _marked(outcome.fate):
                _outline(pen, self.boxes[position], outcome.fate, surface)
        wide = self.width // frame_count(self._trace.canvas)
        for edge in range(wide, self.width, wide):
            pen.rectangle((edge - 1, 0, edge + 1, self.height), fill=surface.background)
        return image

    def _ground(self, state: CanvasState) -> Image.Image:
        """Return the tiles of this state, the picture that was recorded for it, or the colours of its fates."""
        legend, size = self._trace.legend, (self.width, self.height)
        if legend.tiles is not None:
            tiles = render_canvas(legend.tiles, self._trace.canvas, state, opaque=True)
            return tiles.convert("RGB").resize(size, Image.Resampling.BOX)
        if recorded := recorded_picture(self._trace, state):
            picture = picture_of(recorded)
            smaller = picture.width > self.width
            return picture.resize(size, Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST)
        image = Image.new("RGB", size, self._surface.panel)
        for box, fate in zip(self.boxes, state.fates, strict=True):
            if fate is not None:
                image.paste(MARKS[fate].light, box)
        return image


class TextCanvas:
    """A text; every token keeps its position from the first frame on, as wide as its final text."""

    def __init__(self, trace: Trace, room: tuple[int, int], surface: Surface, unit: float) -> None:
        """Set the text in the largest letters that fit into `room`, in pixels; `unit` scales them.

        Raises:
            MovingError: The text does not fit in any size that can be read.
        """
        self._surface, self._vocabulary = surface, trace.legend.vocabulary or {}
        self._forms = _forms_of([trace])
        self.width = room[0]
        tokens = trace.output.tokens[: positions_of(trace)]
        for size in (17, 14, 11, 9):
            self._size = size * unit
            self.boxes = self._placed(tokens, room[1])
            if len(self.boxes) == len(tokens):
                self.height = self.boxes[-1][3]
                return
        raise MovingError(f"a text of {len(tokens)} tokens does not fit", "choose a smaller width, or fewer runs")

    def _placed(self, tokens: Sequence[Token | None], high: int) -> list[Rectangle]:
        """Return the boxes of the tokens, as many as fit."""
        line = round(1.75 * self._size)
        texts = canvas_texts(self._vocabulary, tokens)
        shown = words(texts)
        lines: list[list[Place]] = [[]]
        left = top = 0
        for text, width in zip(shown, self._widths(texts, shown), strict=True):
            side = direction(text or "")
            gap = round(0.3 * self._size) if (text or "").startswith(" ") and left else 0
            if left and left + gap + width > self.width:
                left, gap, top = 0, 0, top + line
                lines.append([])
            if top + line > high:
                break
            lines[-1].append((left + gap, width, side))
            left += gap + width + (0 if (text or "").endswith(JOINER) else 1)
            if "\n" in (text or ""):
                left, top = 0, top + line
                lines.append([])
        base = direction("".join(text or "" for text in shown))
        return [
            (round(at), row * line, round(at) + int(width), row * line + line - 4)
            for row, line_words in enumerate(lines)
            for at, (_, width, _) in zip(visual_places(line_words, self.width, base), line_words, strict=True)
        ]

    def _widths(self, texts: Sequence[str | None], shown: Sequence[str | None]) -> list[int]:
        """Return the width of each token's box; the tokens of a character have equal parts of its width."""
        widths: list[int] = []
        for position, text in enumerate(shown):
            word = _word(text or "")
            padding = 0 if JOINER in (word[:1], word[-1:]) else 0.15 * self._size
            width = min(self.width, max(text_width(word, self._size) + padding, 0.5 * self._size))
            first = first_piece(texts, shown, position)
            count = position + 1 - first
            widths[first:] = [max(2, round(width / count))] * count
        return widths

    def paint(self, state: CanvasState, left: dict[int, Outcome]) -> Image.Image:
        """Return the text in a state.

        Args:
            state: State after a pass.
            left: Outcome of the last pass by position: what it made final is coloured, what it rejected is outlined.
        """
        surface = self._surface
        image = Image.new("RGB", (self.width, self.height), surface.background)
        pen = ImageDraw.Draw(image)
        texts = canvas_texts(self._vocabulary, state.tokens[: len(self.boxes)])
        shown, colors = words(texts), list[str]()
        for position, box in enumerate(self.boxes):
            token, outcome = state.tokens[position], left.get(position)
            rejected = outcome is not None and outcome.fate in REJECTED
            fill = edge = surface.background
            color = surface.text
            if token is None or state.fates[position] in PENDING:
                fill, edge, color = surface.panel, surface.line, surface.muted
            elif outcome is not None and outcome.fate.final:
                fill = edge = _color(outcome.fate, surface)
                color = ink(fill)
            pen.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill=fill, outline=edge)
            if outcome is not None and rejected:
                _outline(pen, box, outcome.fate, surface)
            colors.append(color)
        for position, (text, color) in enumerate(zip(shown, colors, strict=True)):
            self._write(pen, self.boxes[first_piece(texts, shown, position) : position + 1], _word(text or ""), color)
        return image

    def _write(self, pen: ImageDraw.ImageDraw, boxes: Sequence[Rectangle], word: str, color: str) -> None:
        """Write a word over the boxes of its tokens, the last alone if they are on two lines."""
        boxes = [box for box in boxes if box[1] == boxes[-1][1]]
        left, right = min(box[0] for box in boxes), max(box[2] for box in boxes)
        if len(word) > 2:
            word = fitted_text(word, self._size, right - left + 1)
        across = (left + right - text_width(word, self._size)) / 2
        draw_text(
            pen, (across, (boxes[0][1] + boxes[0][3]) / 2 + 0.34 * self._size), word, self._size, color, self._forms
        )


def _forms_of(traces: Sequence[Trace]) -> int:
    """The forms of Han characters in some runs, by their prompts and texts."""
    texts = (text for trace in traces for text in (trace.prompt, trace.output.text or "") if not text.isascii())
    return han_forms("".join(text[:_MAX_LETTERS] for text in texts))


def _word(text: str) -> str:
    return "" if _SIGN.fullmatch(text) else " ".join(text[:_MAX_LETTERS].split())


def _marked(fate: Fate) -> bool:
    """Whether a position with this fate is marked: it was decided, or its draft rejected."""
    return fate.final or fate in REJECTED


def _color(fate: Fate, surface: Surface) -> str:
    return MARKS[fate].dark if surface is DARK else MARKS[fate].light


def _outline(pen: ImageDraw.ImageDraw, box: Rectangle, fate: Fate, surface: Surface) -> None:
    color = _color(fate, surface)
    left, top, right, bottom = box[0], box[1], box[2] - 1, box[3] - 1
    pen.rectangle((left, top, right, bottom), outline=color, width=max(1, (bottom - top) // 12))
    if fate in REJECTED:
        corner = 0.4 * (bottom - top)
        pen.polygon([(left, top), (left + corner, top), (left, top + corner)], fill=color)


def positions_of(trace: Trace) -> int:
    """Return how many positions count: those up to the end of a complete text, else the whole canvas."""
    return trace.summary.tokens if trace.summary.complete and trace.summary.tokens else len(trace.output.tokens)


class Film:
    """Runs side by side, drawn frame by frame. The size is fixed when it is made."""

    def __init__(self, traces: Sequence[Trace], look: AnimationOptions) -> None:
        """Lay the runs out.

        Raises:
            MovingError: They do not fit.
        """
        self._traces, self._look = traces, look
        self._unit = look.width / 720
        self._surface = DARK if look.theme == "dark" else LIGHT
        self._across = {1: 1, 2: 2, 4: 2}.get(len(traces), 3)
        self._names = [*look.names, *labels(traces)[len(look.names) :]]
        same = len({(trace.prompt, trace.model.id) for trace in traces}) == 1
        heading = f"{traces[0].prompt} ({traces[0].model.title or traces[0].model.id})" if same else ""
        self._heading = wrap(heading[:_MAX_LETTERS], 84)[:3]
        seen = {fate for trace in traces for step in trace.steps for fate in step.fate}
        self._key = [fate for fate in MARKS if fate in seen and _marked(fate)]
        self._faded = "faded: draft" if seen & set(PENDING) else ""
        self._computed = ", computed" if look.machine else ""
        self._ends = [pass_ends(trace, look.machine) for trace in traces]
        self._top = (MARGIN + 22 * len(self._heading)) * self._unit
        self._column = (look.width - (2 * MARGIN + (self._across - 1) * GAP) * self._unit) / self._across
        rows = ceil(len(traces) / self._across)
        room = (MAX_HEIGHT - self._top - FOOT * self._unit) / rows - (TITLE + BELOW) * self._unit
        self.canvases = [self._canvas(trace, int(min(room, 900 * self._unit))) for trace in traces]
        self._row = max(canvas.height for canvas in self.canvases) + (TITLE + BELOW) * self._unit
        self.size = look.width // 2 * 2, ceil((self._top + FOOT * self._unit + rows * self._row) / 2) * 2

    def _canvas(self, trace: Trace, high: int) -> GridCanvas | TextCanvas:
        if trace.canvas.kind == "text":
            return TextCanvas(trace, (int(self._column), high), self._surface, self._unit)
        wide = min(self._column, PICTURE_WIDTH * self._unit) if trace.canvas.kind == "image" else self._column
        return GridCanvas(trace, (int(wide), high), self._surface)

    def corner(self, run: int) -> tuple[int, int]:
        """Return left and top of the canvas of a run, in pixels."""
        row, column = divmod(run, self._across)
        left = MARGIN * self._unit + column * (self._column + GAP * self._unit)
        left += (self._column - self.canvases[run].width) / 2
        return round(left), round(self._top + TITLE * self._unit + row * self._row)

    def frames(self, moments: Sequence[Moment]) -> Iterator[Image.Image]:
        """Draw the moments, which follow one another."""
        replays = [CanvasReplay(canvas_size(trace.canvas)) for trace in self._traces]
        steps = [iter(trace.steps) for trace in self._traces]
        foot = self.size[1] / self._unit
        for moment in moments:
            image = Image.new("RGB", self.size, self._surface.background)
            for line, text in enumerate(self._heading):
                self._write(image, (MARGIN, MARGIN + 12 + 22 * line), text, 15)
            for run, (replay, count) in enumerate(zip(replays, moment.counts, strict=True)):
                for step in islice(steps[run], count - replay.state().step):
                    replay.apply(step)
                self._paint(image, run, replay.state())
            done = all(count == len(trace.steps) for count, trace in zip(moment.counts, self._traces, strict=True))
            self._legend(image, foot - 32)
            self._write(image, (MARGIN, foot - 12), (self._comparison() if done else "") or self._clock(), 13)
            yield image

    def _paint(self, image: Image.Image, run: int, state: CanvasState) -> None:
        """Draw a run: its name, its canvas, and how far it has come."""
        trace, canvas, unit, surface = self._traces[run], self.canvases[run], self._unit, self._surface
        done = state.step == len(trace.steps)
        left, top = self.corner(run)
        last = position_updates(trace.steps[state.step - 1]) if state.step and not done else {}
        image.paste(canvas.paint(state, last), (left, top))
        positions = positions_of(trace)
        decoded = sum(state.final[:positions])
        bottom = top + canvas.height + round(8 * unit)
        pen = ImageDraw.Draw(image)
        pen.rectangle((left, bottom, left + canvas.width - 1, bottom + 4 * unit), fill=surface.line)
        if decoded:
            end = max(left, left + canvas.width * decoded / positions - 1)
            pen.rectangle((left, bottom, end, bottom + 4 * unit), fill=surface.accent)
        passes = f"{state.step} pass{'' if state.step == 1 else 'es'}"
        tokens = f"{decoded} tokens in {passes}" if done else f"{decoded} of {positions} tokens, {passes}"
        rate = f"{decoded / state.step:.2f} tokens a pass, " if state.step else ""
        x, y = left / unit, bottom / unit
        self._write(image, (x, top / unit - 8), self._names[run], 15, self._column)
        self._write(image, (x, y + 24), tokens, 15, self._column)
        self._write(
            image, (x, y + 43), f"{rate}{self._ends[run][state.step]:,.0f} ms{self._computed}", 12, self._column
        )

    def _legend(self, image: Image.Image, down: float) -> None:
        """Draw the words of the player's legend, each after its colour."""
        pen, across, unit = ImageDraw.Draw(image), float(MARGIN), self._unit
        for fate in self._key:
            box = (across * unit, (down - 9) * unit, (across + 9) * unit, down * unit)
            pen.rectangle(box, fill=_color(fate, self._surface))
            self._write(image, (across + 14, down), fate.value, 12)
            across += 28 + text_width(fate.value, 12 * unit) / unit
        self._write(image, (across, down), self._faded, 12)

    def _clock(self) -> str:
        if machine := self._look.machine:
            return f"Time computed for {machine.device.name}, {machine.target.name}, {self._look.slowdown:g}x slower."
        if self._look.clock == "milliseconds":
            return f"Time as measured, shown {self._look.slowdown:g}x slower."
        drafted = any(step.call.role == "draft" for trace in self._traces for step in trace.steps)
        passes = f"{'target' if drafted else 'forward'} pass{'es' if self._look.passes_per_frame > 1 else ''}"
        return f"A frame is {self._look.passes_per_frame} {passes} of every run."

    def _comparison(self) -> str:
        """Return what the last run gained over the first; empty if they cannot be compared."""
        report = run_reports(self._traces)[-1]
        first, last = (ends[-1] for ends in (self._ends[0], self._ends[-1]))
        headline = report.headline(self._names[0], (first, last) if self._look.machine and first and last else None)
        return f"{self._names[-1]}: {headline[:1].lower()}{headline[1:]}" if headline else ""

    def _write(self, image: Image.Image, at: tuple[float, float], text: str, size: float, width: float = 0) -> None:
        """Write a line of text, cut after `width` pixels; place and size are in units. Small text is muted."""
        color = self._surface.text if size > 12 else self._surface.muted
        room = width or self.size[0] - 2 * MARGIN * self._unit
        fitting = fitted_text(text[:_MAX_LETTERS], size * self._unit, room)
        where = at[0] * self._unit, at[1] * self._unit
        draw_text(ImageDraw.Draw(image), where, fitting, size * self._unit, color, _forms_of(self._traces))
