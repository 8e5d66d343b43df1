"""Moving pictures of runs, drawn by Pillow: GIF and WebP written by it, too, and MP4 by imageio-ffmpeg's ffmpeg."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Final, TypeVar

import imageio_ffmpeg
import numpy as np
from PIL import Image

from draftscope.traces.files import atomic_path
from draftscope.traces.schema import Trace
from draftscope.visualizers.animation.frames import Film
from draftscope.visualizers.animation.look import MAX_FRAMES, AnimationOptions, MovingError, fitting, moments
from draftscope.visualizers.picture import PictureError, picture_of

__all__ = ["ENDINGS", "AnimationOptions", "Film", "MovingError", "fitting", "moments", "write_clip", "write_moving"]

Item = TypeVar("Item")
Report = Callable[[int, int], None]
"""Progress callback (frames_done, num_frames)."""
ENDINGS: Final = ("gif", "mp4", "webp")
MAX_BYTES: Final = 64 * 2**20
MAX_PIXELS: Final = 2**28
"""Maximum pixels of all frames together: a GIF is composed in memory, one byte per pixel."""
_SAMPLED: Final = 12
"""Frames from which the 255 colours of a GIF are chosen."""
_UNSEEN: Final = 10
"""Channel change, of 255, that is too small to be visible."""
_H264: Final = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
_FFMPEG: Final = "install imageio-ffmpeg, name an ffmpeg in IMAGEIO_FFMPEG_EXE, or write a .gif"


def write_moving(
    traces: Sequence[Trace],
    path: Path,
    look: AnimationOptions | None = None,
    *,
    report: Report = lambda done, frames: None,
) -> None:
    """Write an animation of runs side by side: a GIF, WebP or MP4 file, by the suffix of `path`.

    The file is written completely or not at all; an existing one is replaced.

    Args:
        traces: One to six runs.
        path: Ends in one of `ENDINGS`.
        look: Clock, size and colours.
        report: Called after every frame.

    Raises:
        MovingError: If it would be too long or too large, cannot be drawn, or there is no ffmpeg for an MP4.
        OSError: If the file cannot be written.
    """
    look = look or AnimationOptions()
    all_moments, film = moments(traces, look), Film(traces, look)
    seconds = [moment.seconds for moment in all_moments]
    _save(path, film.size, (film.frames(all_moments), film.frames(_spread(all_moments))), seconds, look.fps, report)


def write_clip(
    trace: Trace, path: Path, look: AnimationOptions | None = None, *, report: Report = lambda done, frames: None
) -> None:
    """Write the decoded clip of a video alone.

    Args:
        trace: Complete run of a video.
        path: GIF, WebP or MP4 file, by its ending.
        look: Frames a second (`fps`) and pixels across (`width`); other options have no effect.
        report: Called with the frames that are written, and with all of them.

    Raises:
        MovingError: The trace has no clip, or what `write_moving` raises.
        OSError: The file cannot be written.
    """
    look, clip = look or AnimationOptions(), trace.output.video
    if not clip:
        raise MovingError("this trace has no decoded clip", "give a complete run of a video")
    if len(clip) > MAX_FRAMES:
        raise MovingError(f"{len(clip)} frames are more than {MAX_FRAMES}")
    try:
        first = picture_of(clip[0])
    except PictureError as error:
        raise MovingError(str(error)) from None
    size = look.width // 2 * 2, max(2, round(look.width * first.height / first.width / 2) * 2)
    frames, sample = ((picture_of(url).resize(size) for url in urls) for urls in (clip, _spread(clip)))
    _save(path, size, (frames, sample), [1 / look.fps] * len(clip), look.fps, report)


def _spread(items: Sequence[Item]) -> list[Item]:
    return [items[round(i * (len(items) - 1) / (_SAMPLED - 1))] for i in range(_SAMPLED)]


def _save(
    path: Path,
    size: tuple[int, int],
    pictures: tuple[Iterable[Image.Image], Iterable[Image.Image]],
    seconds: Sequence[float],
    fps: float,
    report: Report,
) -> None:
    """Write frames to a file whose suffix determines the format.

    Args:
        path: Ends in one of `ENDINGS`.
        size: Width and height of every frame.
        pictures: The frames, as many as `seconds`, and a sample of them for the colours of a GIF.
        seconds: Duration of each frame.
        fps: Frames per second of an MP4; longer frames are repeated.
        report: Called after every frame.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ENDINGS:
        raise MovingError(path.name, f"choose a file that ends in .{', .'.join(ENDINGS)}")
    if len(seconds) * size[0] * size[1] > MAX_PIXELS:
        raise MovingError(
            f"{len(seconds)} frames of {size[0]} x {size[1]} pixels are more than {MAX_PIXELS} pixels in all",
            "choose a smaller width, or fewer frames with every or slow",
        )
    frames = _reported(pictures[0], len(seconds), report)
    try:
        with atomic_path(path) as part:
            if kind == "mp4":
                _write_mp4(part, frames, [max(1, round(time * fps)) for time in seconds], fps)
            else:
                _write_by_pillow(part, kind, frames, pictures[1], seconds)
            written = part.stat().st_size
            if written > MAX_BYTES:
                problem = f"{written / 2**20:.0f} MB are more than {MAX_BYTES // 2**20}"
                raise MovingError(problem, "choose a smaller width")
    except PictureError as error:
        raise MovingError(str(error)) from None


def _reported(frames: Iterable[Image.Image], count: int, report: Report) -> Iterator[Image.Image]:
    for number, frame in enumerate(frames, start=1):
        yield frame
        report(number, count)


def _write_by_pillow(
    path: Path, kind: str, frames: Iterable[Image.Image], sample: Iterable[Image.Image], seconds: Sequence[float]
) -> None:
    options: dict[str, Any] = {"quality": 82, "method": 3}
    if kind == "gif":
        images = list(sample)
        sheet = Image.new("RGB", (images[0].width, sum(image.height for image in images)))
        for row, image in enumerate(images):
            sheet.paste(image, (0, row * image.height))
        palette = sheet.quantize(255, Image.Quantize.MEDIANCUT)  # of 256: one is for pixels that stay as they are
        frames = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in _steady(frames))
        options = {"optimize": True, "disposal": 1}
    frame_iterator = iter(frames)
    first = next(frame_iterator)
    times = [10 * max(2, round(100 * time)) for time in seconds]  # browsers slow down shorter frames
    options |= {"save_all": True, "append_images": frame_iterator, "duration": times, "loop": 0}
    with path.open("wb") as file:
        first.save(file, kind.upper(), **options)


def _steady(frames: Iterable[Image.Image]) -> Iterator[Image.Image]:
    """Leave pixels as they are while they change too little to be seen, which keeps a GIF small."""
    before = None
    for frame in frames:
        pixels = np.asarray(frame, dtype=np.int16)
        if before is not None:
            pixels = np.where(np.abs(pixels - before).max(-1, keepdims=True) <= _UNSEEN, before, pixels)
        before = pixels
        yield Image.fromarray(pixels.astype(np.uint8))


def _write_mp4(path: Path, frames: Iterable[Image.Image], repeats: Sequence[int], fps: float) -> None:
    frame_iterator = (frame for frame, times in zip(frames, repeats, strict=True) for frame in [frame] * times)
    first = next(frame_iterator)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.width}x{first.height}", "-r", f"{fps:g}", "-i", "-"]
    try:
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", *raw, *_H264, str(path)]
        process = Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
    except (RuntimeError, OSError):
        raise MovingError("MP4 files are written by ffmpeg and none was found", _FFMPEG) from None
    assert process.stdin is not None
    with process, suppress(BrokenPipeError), process.stdin as pipe:
        for frame in chain([first], frame_iterator):
            pipe.write(frame.tobytes())
    if process.returncode != 0 or path.stat().st_size == 0:
        raise MovingError("ffmpeg did not write the MP4 file", _FFMPEG)
