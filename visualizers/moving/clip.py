"""A video while it is decoded: its latent frames fill, and above them plays what is already there of the clip."""

from PIL import Image

from traces.replay import State
from traces.schema import Trace
from traces.video import cell_of, frame_count, frame_size, frames_each
from visualizers.moving.canvas import PictureCanvas, opened
from visualizers.moving.colors import Colors
from visualizers.moving.lettering import Letters


class ClipCanvas:
    """The latent frames of a video below its clip. Its size is fixed when it is made."""

    def __init__(self, trace: Trace, room: tuple[int, int], unit: float, colors: Colors) -> None:
        """Lay the latent frames and the clip out in `room`, in pixels; `unit` scales all else."""
        self._trace, self._unit, self._colors = trace, unit, colors
        self.strip = PictureCanvas(trace, (room[0], round(room[1] * 0.4)), unit, colors)
        first = opened(trace.output.video[0])
        self._gap = round(8 * unit)
        across = min(
            room[0],
            max(self.strip.width, round(260 * unit)),
            (room[1] - self.strip.height) * first.width // first.height,
        )
        self._size = across, round(across * first.height / first.width)
        self.width = max(self.strip.width, across)
        self.height = self._size[1] + self._gap + self.strip.height

    def paint(self, state: State, tick: int = 0) -> Image.Image:
        """Return the canvas after `state.step` passes; `tick` counts the frames of the moving picture."""
        surface = self._colors.surface
        image = Image.new("RGB", (self.width, self.height), surface.background)
        left = (self.width - self._size[0]) // 2
        there = playable(self._trace, state)
        if there:
            number = tick % there
            frame = opened(self._trace.output.video[number]).resize(self._size, Image.Resampling.BICUBIC)
            given = ", given" if number < (self._trace.output.given or 0) else ""
            said = f"frame {number + 1} of {len(self._trace.output.video)}{given}"
        else:
            frame = Image.new("RGB", self._size, surface.panel)
            said = "no frame yet"
        letters = Letters(12 * self._unit, surface.text)
        width, height = round(letters.width(said) + 12 * self._unit), round(20 * self._unit)
        frame.paste(surface.panel, (0, frame.height - height, width, frame.height))
        letters.write(frame, (6 * self._unit, frame.height - 6 * self._unit), said)
        image.paste(frame, (left, 0))
        image.paste(self.strip.paint(state), ((self.width - self.strip.width) // 2, self._size[1] + self._gap))
        return image

    def box(self, position: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a position, the last two not included."""
        left, top, right, bottom = self.strip.box(position)
        across, down = (self.width - self.strip.width) // 2, self._size[1] + self._gap
        return left + across, top + down, right + across, bottom + down


def playable(trace: Trace, state: State) -> int:
    """Return how many frames of the clip are decided: the given ones, and those of latent frames that are final.

    Where the clip is not shared out evenly to the latent frames, what follows the given ones plays when all is final.
    """
    frames, size = frame_count(trace.canvas), frame_size(trace.canvas)
    moving = {cell_of(trace.canvas, p) // size for p, final in enumerate(state.final) if not final}
    ready = min(moving, default=frames)
    return len(trace.output.video) if ready == frames else (trace.output.given or 0) + frames_each(trace) * ready
