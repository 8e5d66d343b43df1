"""Frames to a file: GIF and WebP by Pillow, MP4 by imageio-ffmpeg's ffmpeg. All or nothing is written."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Final

import imageio_ffmpeg
import numpy as np
from PIL import Image

from traces.files import whole
from visualizers.moving.look import MovingError

ENDINGS: Final = ("gif", "mp4", "webp")
MOST_BYTES: Final = 64 * 2**20
_UNSEEN: Final = 10
"""Of 255: a change of a channel that is too small to be seen."""
_H264: Final = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
_FFMPEG: Final = "install imageio-ffmpeg, name an ffmpeg in IMAGEIO_FFMPEG_EXE, or write a .gif"


def kind_of(path: Path) -> str:
    """Return the kind of file that the ending names.

    Raises:
        MovingError: It is none of `ENDINGS`.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ENDINGS:
        raise MovingError(path.name, f"choose a file that ends in .{', .'.join(ENDINGS)}")
    return kind


def save(
    path: Path, frames: Iterable[Image.Image], seconds: Sequence[float], fps: float, sample: Iterable[Image.Image]
) -> None:
    """Write frames, all of one size, to a file of the kind that its ending names.

    Args:
        path: Ends in one of `ENDINGS`.
        frames: As many as `seconds`.
        seconds: How long each frame stays.
        fps: Frames a second of an MP4; a frame that stays longer is repeated.
        sample: Frames from which the 255 colours of a GIF are chosen.

    Raises:
        MovingError: The file would be too large, or ffmpeg is missing or fails.
        OSError: The file cannot be written.
    """
    kind = kind_of(path)
    with whole(path) as part:
        if kind == "mp4":
            _write_mp4(part, frames, [max(1, round(time * fps)) for time in seconds], fps)
        else:
            options: dict[str, Any] = {"quality": 82, "method": 3}
            if kind == "gif":
                palette = _palette(list(sample))
                frames = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in _steady(frames))
                options = {"optimize": True, "disposal": 1}
            every = iter(frames)
            first = next(every)
            times = [10 * max(2, round(100 * time)) for time in seconds]  # browsers slow down shorter frames
            options |= {"save_all": True, "append_images": every, "duration": times, "loop": 0}
            with part.open("wb") as file:
                first.save(file, kind.upper(), **options)
        size = part.stat().st_size
        if size > MOST_BYTES:
            raise MovingError(f"{size / 2**20:.0f} MB are more than {MOST_BYTES // 2**20}", "choose a smaller width")


def _palette(sample: Sequence[Image.Image]) -> Image.Image:
    sheet = Image.new("RGB", (sample[0].width, sum(image.height for image in sample)))
    for row, image in enumerate(sample):
        sheet.paste(image, (0, row * image.height))
    return sheet.quantize(255, Image.Quantize.MEDIANCUT)  # Pillow needs one more, for pixels that stay as they are


def _steady(frames: Iterable[Image.Image]) -> Iterator[Image.Image]:
    """Leave pixels as they are while they change too little to be seen, which keeps a GIF small."""
    shown = None
    for frame in frames:
        wanted = np.asarray(frame, dtype=np.int16)
        if shown is not None:
            wanted = np.where(np.abs(wanted - shown).max(-1, keepdims=True) <= _UNSEEN, shown, wanted)
        shown = wanted
        yield Image.fromarray(shown.astype(np.uint8))


def _write_mp4(path: Path, frames: Iterable[Image.Image], repeats: Sequence[int], fps: float) -> None:
    every = (frame for frame, times in zip(frames, repeats, strict=True) for frame in [frame] * times)
    first = next(every)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.width}x{first.height}", "-r", f"{fps:g}", "-i", "-"]
    try:
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", *raw, *_H264, str(path)]
        process = Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
    except (RuntimeError, OSError):
        raise MovingError("MP4 files are written by ffmpeg and none was found", _FFMPEG) from None
    assert process.stdin is not None
    with process, suppress(BrokenPipeError), process.stdin as pipe:
        for frame in chain([first], every):
            pipe.write(frame.tobytes())
    if process.returncode != 0 or path.stat().st_size == 0:
        raise MovingError("ffmpeg did not write the MP4 file", _FFMPEG)
