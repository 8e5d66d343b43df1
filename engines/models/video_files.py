"""Reading the first frames of a user's GIF or MP4, within bounds.

The type is recognised by the first bytes, never by the name, and only these two are opened: other types may refer to
further files. Sizes are read from the header before a frame is decoded.
"""

import io
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from typing import Final

import imageio_ffmpeg
import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps
from torch import Tensor

from draftscope.engines.settings import ConfigError

ENDINGS: Final = (".gif", ".mp4")
MAX_BYTES: Final = 20_000_000
MAX_PIXELS: Final = 2_100_000
"""Maximum pixels of a frame; 1920 x 1080 fits."""
MAX_FRAMES: Final = 2_000
MAX_SECONDS: Final = 60
SHORTEST_SIDE: Final = 16
MAX_WAIT_SECONDS: Final = 10
"""Seconds that ffmpeg may take."""
_REMEDY: Final = "give a GIF or an MP4 (H.264)"
_BROKEN_MP4: Final = f"clip: the MP4 is broken or its codec is not known here; {_REMEDY} that a browser plays."
_DURATION: Final = re.compile(r"Duration: (\d+):(\d+):([\d.]+)")
_PIXELS: Final = re.compile(r"Video: .*?\b(\d{1,6})x(\d{1,6})\b")


def read_clip(data: bytes, frames: int, height: int, width: int) -> UInt8[Tensor, "F H W 3"]:
    """Return the first frames of a clip, cropped to their middle and resized.

    Args:
        data: Content of a GIF or MP4 file, of at most `MAX_BYTES`.
        frames: Number of frames.
        height: Height in pixels.
        width: Width in pixels.

    Raises:
        ConfigError: If it is another file, too large, damaged, or has fewer frames.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(f"clip: the file has {len(data):,} bytes; cut it to at most {MAX_BYTES:,}.")
    if data[:6] in (b"GIF87a", b"GIF89a"):
        pictures = list(_gif(data, frames))
    elif data[4:8] == b"ftyp":
        pictures = list(_mp4(data, frames, height, width))
    else:
        raise ConfigError(f"clip: the file is neither a GIF nor an MP4; {_REMEDY}.")
    if len(pictures) < frames:
        raise ConfigError(f"clip: the file has {len(pictures)} frames; give one with at least {frames}.")
    fitted = [ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR) for picture in pictures]
    return torch.from_numpy(np.stack([np.asarray(picture) for picture in fitted]))


def _gif(data: bytes, wanted: int) -> Iterator[Image.Image]:
    _check(int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(data), formats=("GIF",))
        count: int = getattr(picture, "n_frames", 1)
        if count > MAX_FRAMES:
            raise ConfigError(f"clip: the file has {count:,} frames; cut it to at most {MAX_FRAMES:,}.")
        for index in range(min(count, wanted)):
            picture.seek(index)
            yield picture.convert("RGB")
    except ConfigError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError, Warning):
        raise ConfigError(f"clip: the GIF is broken; {_REMEDY} that a browser plays.") from None


def _mp4(data: bytes, wanted: int, high: int, wide: int) -> Iterator[Image.Image]:
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(data)
        file.flush()
        about = _ffmpeg(file.name, "-t", "0", "-f", "null", "-").stderr.decode(errors="replace")
        duration, size = _DURATION.search(about), _PIXELS.search(about)
        if duration is None or size is None:
            raise ConfigError(_BROKEN_MP4)
        hours, minutes, seconds = (float(part) for part in duration.groups())
        lasts = 3600 * hours + 60 * minutes + seconds
        if lasts > MAX_SECONDS:
            raise ConfigError(f"clip: it lasts {lasts:.0f} s; cut it to at most {MAX_SECONDS} s.")
        width, height = int(size[1]), int(size[2])
        _check(width, height)
        share = min(width / wide, height / high)
        across, down = max(1, round(share * wide)), max(1, round(share * high))
        cut = f"crop={across}:{down}:exact=1,scale={2 * wide}:{2 * high}:flags=area"
        options = ("-vf", cut, "-frames:v", str(wanted), "-fps_mode", "passthrough")
        done = _ffmpeg(file.name, *options, "-pix_fmt", "rgb24", "-f", "rawvideo", "-")
        if done.returncode:
            raise ConfigError(_BROKEN_MP4)
        bytes_each = 3 * 4 * wide * high
        for first in range(0, len(done.stdout), bytes_each):
            yield Image.frombytes("RGB", (2 * wide, 2 * high), done.stdout[first : first + bytes_each])


def _ffmpeg(path: str, *wanted: str) -> subprocess.CompletedProcess[bytes]:
    """Run ffmpeg on a file that holds an MP4 and nothing else: no playlist in it is followed anywhere."""
    bounds = ("-f", "mov", "-protocol_whitelist", "file", "-max_pixels", str(MAX_PIXELS), "-threads", "1")
    streams = ("-an", "-sn", "-dn", "-threads", "1")
    try:
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-nostdin", *bounds, "-i", path, *streams, *wanted]
        return subprocess.run(command, capture_output=True, timeout=MAX_WAIT_SECONDS, check=False)
    except (RuntimeError, OSError):
        raise ConfigError("clip: ffmpeg is missing here; give a GIF, or pip install imageio-ffmpeg.") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"clip: the MP4 took more than {MAX_WAIT_SECONDS} s to read; give a smaller one.") from None


def _check(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ConfigError(f"clip: a frame has {width} x {height} pixels; shrink it to at most {MAX_PIXELS:,} in all.")
    if min(width, height) < SHORTEST_SIDE:
        raise ConfigError(f"clip: a frame has {width} x {height} pixels; give at least {SHORTEST_SIDE} each way.")
