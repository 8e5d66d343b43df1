"""Moving pictures of runs, drawn by Pillow: GIF, WebP and MP4."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from PIL import Image

from traces.schema import Trace
from visualizers.moving.files import ENDINGS, kind_of, save
from visualizers.moving.frames import Film
from visualizers.moving.look import MOST_FRAMES, SIZES, Look, MovingError, fitting, moments
from visualizers.picture import PictureError, picture_of

__all__ = [
    "ENDINGS",
    "SIZES",
    "Film",
    "Look",
    "Moment",
    "MovingError",
    "fitting",
    "moments",
    "write_clip",
    "write_moving",
]

Item = TypeVar("Item")
Report = Callable[[int, int], None]
"""Is told how many frames are done, and how many there are in all."""
MOST_PIXELS: Final = 2**28
"""Of all frames together: a GIF is put together in memory, a byte a pixel."""
_SAMPLED: Final = 12
"""Frames from which the colours of a GIF are chosen."""


def write_moving(
    traces: Sequence[Trace], path: Path, look: Look | None = None, *, report: Report | None = None
) -> None:
    """Write a moving picture of runs side by side: a GIF, WebP or MP4 file, by the ending of `path`.

    The file appears whole or not at all; one that is there is replaced.

    Args:
        traces: One to six runs.
        path: Ends in one of `ENDINGS`.
        look: Clock, size and colours.
        report: Is told about every frame.

    Raises:
        MovingError: It would be too long or too large, cannot be drawn, or there is no ffmpeg for an MP4.
        OSError: The file cannot be written.
    """
    look = look or Look()
    shown = moments(traces, look)
    film = Film(traces, look)
    _check(path, len(shown), film.size)
    try:
        frames = _reported(film.frames(shown), len(shown), report)
        save(path, frames, [moment.seconds for moment in shown], look.fps, film.frames(_spread(shown)))
    except PictureError as error:
        raise MovingError(str(error)) from None


def write_clip(trace: Trace, path: Path, look: Look | None = None, *, report: Report | None = None) -> None:
    """Write the decoded clip of a video alone, `look.fps` frames a second and `look.width` pixels across.

    Raises:
        MovingError: The trace has no clip, or what `write_moving` raises.
        OSError: The file cannot be written.
    """
    look = look or Look()
    clip = trace.output.video
    if not clip:
        raise MovingError("this trace has no decoded clip", "give a complete run of a video")
    if len(clip) > MOST_FRAMES:
        raise MovingError(f"{len(clip)} frames are more than {MOST_FRAMES}")
    try:
        first = picture_of(clip[0])
        size = look.width // 2 * 2, max(2, round(look.width * first.height / first.width / 2) * 2)
        _check(path, len(clip), size)
        frames = _reported((picture_of(url).resize(size) for url in clip), len(clip), report)
        sample = (picture_of(url).resize(size) for url in _spread(clip))
        save(path, frames, [1 / look.fps] * len(clip), look.fps, sample)
    except PictureError as error:
        raise MovingError(str(error)) from None


def _spread(items: Sequence[Item]) -> list[Item]:
    return [items[round(i * (len(items) - 1) / (_SAMPLED - 1))] for i in range(_SAMPLED)]


def _check(path: Path, count: int, size: tuple[int, int]) -> None:
    kind_of(path)
    if count * size[0] * size[1] > MOST_PIXELS:
        raise MovingError(
            f"{count} frames of {size[0]} x {size[1]} pixels are more than {MOST_PIXELS} pixels in all",
            "choose a smaller width, or fewer frames with every or slow",
        )


def _reported(frames: Iterator[Image.Image], count: int, report: Report | None) -> Iterator[Image.Image]:
    for number, frame in enumerate(frames, start=1):
        yield frame
        if report is not None:
            report(number, count)
