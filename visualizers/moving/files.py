"""Frames to a file: GIF and WebP by Pillow, MP4 by the ffmpeg that comes with imageio-ffmpeg. Whole or not at all."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from typing import Any, Final

import imageio_ffmpeg
import numpy as np
from PIL import Image, features

from traces.files import whole
from visualizers.moving.errors import MOST_BYTES, CodecMissing, MovingError

ENDINGS: Final = ("gif", "mp4", "webp")
GIF_COLORS: Final = 240
"""Of 256: Pillow takes one more for what did not change."""
STEADY: Final = 10
"""Of 255: a change of a channel that is too small to be seen from one frame of a GIF to the next."""
_WEBP_QUALITY: Final = 82
_MP4_QUALITY: Final = "20"
"""Of x264: lower is better, and 17 to 23 looks like the original."""
_REMEDIES: Final = ("install imageio-ffmpeg, or name an ffmpeg in {IMAGEIO_FFMPEG_EXE}", "choose .gif")


def save(path: Path, frames: Iterable[Image.Image], seconds: Sequence[float], fps: float, palette: Image.Image) -> None:
    """Write frames, all of one size, to a file of the kind that its ending names. A file that is there stays till then.

    Args:
        path: Ends in one of `ENDINGS`.
        frames: As many as `seconds`.
        seconds: How long each frame stays.
        fps: Frames a second, of files whose frames all take the same time.
        palette: The colours of a GIF, see `palette_of`.

    Raises:
        CodecMissing: What writes such a file is not there or does not work.
        MovingError: The file would be too large.
        OSError: The file cannot be written.
    """
    kind = path.suffix.removeprefix(".").lower()
    with whole(path) as part:
        if kind == "gif":
            _write_gif(part, frames, seconds, palette)
        elif kind == "webp":
            _write_webp(part, frames, seconds)
        else:
            _write_mp4(part, frames, seconds, fps)
        size = part.stat().st_size
        if size > MOST_BYTES:
            raise MovingError(
                f"{size / 2**20:.0f} MB are more than {MOST_BYTES // 2**20}",
                "choose a smaller {size}",
                "have fewer frames with {every} or {slow}",
            )


def palette_of(sample: Sequence[Image.Image], fixed: Sequence[str]) -> Image.Image:
    """Return a palette with the fixed colours and those that the sample is best drawn with."""
    sheet = Image.new("RGB", (max(image.width for image in sample), sum(image.height for image in sample)))
    top = 0
    for image in sample:
        sheet.paste(image, (0, top))
        top += image.height
    found = sheet.quantize(GIF_COLORS - len(fixed), Image.Quantize.MEDIANCUT).getpalette() or []
    first = [int(color[i : i + 2], 16) for color in fixed for i in (1, 3, 5)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(first + found)
    return palette


def _centiseconds(seconds: Sequence[float]) -> list[int]:
    """Return times in hundredths of a second, at least two each, whose sums stay as close as can be."""
    shown, due, found = 0, 0.0, []
    for time in seconds:
        due += 100 * time
        found.append(max(2, round(due) - shown))
        shown += found[-1]
    return found


def _write_gif(path: Path, frames: Iterable[Image.Image], seconds: Sequence[float], palette: Image.Image) -> None:
    flat = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in _steadied(frames))
    first = next(flat)
    times = [10 * time for time in _centiseconds(seconds)]
    options: dict[str, Any] = {"duration": times, "loop": 0, "optimize": True, "disposal": 1}
    with path.open("wb") as file:
        first.save(file, "GIF", save_all=True, append_images=flat, **options)


def _steadied(frames: Iterable[Image.Image]) -> Iterator[Image.Image]:
    """Leave pixels as they are while they differ less than can be seen: what stays costs a GIF nothing."""
    shown = None
    for frame in frames:
        wanted = np.asarray(frame, dtype=np.int16)
        if shown is not None:
            near = np.abs(wanted - shown).max(-1, keepdims=True) <= STEADY
            wanted = np.where(near, shown, wanted)
        shown = wanted
        yield Image.fromarray(shown.astype(np.uint8))


def _write_webp(path: Path, frames: Iterable[Image.Image], seconds: Sequence[float]) -> None:
    if not features.check("webp"):
        raise CodecMissing("WebP files are written by libwebp, which this Pillow lacks", "choose .gif")
    every = iter(frames)
    first = next(every)
    times = [10 * time for time in _centiseconds(seconds)]
    options: dict[str, Any] = {"duration": times, "loop": 0, "quality": _WEBP_QUALITY, "method": 3}
    with path.open("wb") as file:
        first.save(file, "WEBP", save_all=True, append_images=every, **options)


def _write_mp4(path: Path, frames: Iterable[Image.Image], seconds: Sequence[float], fps: float) -> None:
    """Write frames that all take the same time; one that stays longer is written several times."""
    every = _repeated(frames, seconds, fps)
    first = next(every)
    shape = ["-s", f"{first.width}x{first.height}", "-r", f"{fps:g}"]
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", *shape, "-i", "-"]
    wanted = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", _MP4_QUALITY, "-movflags", "+faststart"]
    with TemporaryFile() as said:
        try:
            program = imageio_ffmpeg.get_ffmpeg_exe()
            command = [program, "-y", "-v", "error", *given, *wanted, os.fspath(path)]
            process = Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=said)
        except (RuntimeError, OSError):
            raise CodecMissing("MP4 files are written by ffmpeg and none was found", *_REMEDIES) from None
        code = _fed(process, chain([first], every))
        if code != 0 or path.stat().st_size == 0:
            said.seek(0)
            reason = said.read(4096).decode(errors="replace").strip().splitlines()
            told = f" ({reason[-1][:200]})" if reason else ""
            raise CodecMissing(f"ffmpeg did not write the MP4 file{told}", *_REMEDIES)


def _fed(process: Popen[bytes], frames: Iterable[Image.Image]) -> int:
    """Give a program the pixels of the frames and return its exit code; it ends with us, whatever happens."""
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:  # It says itself why it left early.
            for frame in frames:
                pipe.write(frame.tobytes())
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _repeated(frames: Iterable[Image.Image], seconds: Sequence[float], fps: float) -> Iterator[Image.Image]:
    for frame, time in zip(frames, seconds, strict=True):
        for _ in range(max(1, round(time * fps))):
            yield frame
