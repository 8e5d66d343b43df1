"""Video files: frames, limits and refusals."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image

from draftscope.engines.models import video_files as video_clips
from draftscope.engines.settings import ConfigError

Film = Callable[..., bytes]


def read_clip(data: bytes) -> torch.Tensor:
    """Return the input of the studio video model for a file."""
    return video_clips.read_clip(data, frames=9, height=48, width=48)


def moving(frames: int, height: int = 40, width: int = 60) -> np.ndarray[Any, Any]:
    """Frames [F, H, W, 3] on which a white bar moves to the right over blue, 4 pixels a frame."""
    clip = np.zeros((frames, height, width, 3), np.uint8)
    clip[..., 2] = 200
    for k in range(frames):
        clip[k, :, 4 * k % width : 4 * k % width + 6] = 255
    return clip


@cache
def gif(frames: int, **size: int) -> bytes:
    return bytes(iio.imwrite("<bytes>", moving(frames, **size), extension=".gif", duration=80, loop=0))


@cache
def mp4(frames: int, fps: int = 12, **size: int) -> bytes:
    how = {"extension": ".mp4", "plugin": "FFMPEG", "fps": fps, "macro_block_size": 1}
    return bytes(iio.imwrite("<bytes>", moving(frames, **size), **how))


@pytest.mark.parametrize(
    ("frames", "height", "width", "box"),
    [(k, 48, 48, (10, 0, 50, 40)) for k in (12, 9)] + [(9, 32, 80, (0, 8, 60, 32)), (9, 48, 24, (20, 0, 40, 40))],
)
@pytest.mark.parametrize("film", [gif, mp4])
def test_the_first_nine_frames_are_read_and_the_middle_of_each(
    film: Film, frames: int, height: int, width: int, box: tuple[int, int, int, int]
) -> None:
    clip = video_clips.read_clip(film(frames), frames=9, height=height, width=width).numpy()
    assert clip.shape == (9, height, width, 3)
    for k, frame in enumerate(moving(9)):
        cut = Image.fromarray(frame).crop(box).resize((width, height), Image.Resampling.BILINEAR)
        assert np.abs(clip[k] - np.asarray(cut, np.float32)).mean() < 12, k


def enormous() -> bytes:
    """A GIF that claims to be 60,000 pixels wide and high."""
    data = bytearray(gif(9))
    data[6:10] = (60_000).to_bytes(2, "little") * 2
    return bytes(data)


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "neither a GIF nor an MP4"),
    "a playlist": (lambda: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "neither a GIF nor an MP4"),
    "a GIF that is cut off": (lambda: gif(12)[:400], "broken|frames; give one"),
    "a GIF of junk": (lambda: b"GIF89a" + bytes(range(256)) * 8, "broken|pixels"),
    "an MP4 of junk": (lambda: b"\0\0\0\x18ftypisom" + bytes(range(256)) * 20, "broken"),
    "a codec that is not known": (lambda: mp4(12).replace(b"avc1", b"zzz9"), "codec"),
    "a short GIF": (lambda: gif(8), "has 8 frames; give one with at least 9"),
    "a picture": (lambda: gif(1), "has 1 frames"),
    "a long MP4": (lambda: mp4(70, fps=1), "lasts 70 s; cut it"),
    "enormous": (enormous, "60000 x 60000 pixels; shrink"),
    "tiny": (lambda: gif(9, height=8, width=8), "8 x 8 pixels; give at least 16"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_clip_is_refused_in_one_sentence(kind: str) -> None:
    make, problem = BROKEN[kind]
    with pytest.raises(ConfigError, match=problem) as caught:
        read_clip(make())
    text = str(caught.value)
    assert text.startswith("clip: ") and text.endswith(".") and "\n" not in text


def test_size_is_checked_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_clips, "_gif", None)
    with pytest.raises(ConfigError, match=r"20,000,001 bytes; cut it"):
        read_clip(b"GIF89a" + bytes(video_clips.MAX_BYTES - 5))


@pytest.mark.parametrize("make", [lambda: mp4(9), BROKEN["an MP4 of junk"][0], BROKEN["a long MP4"][0]])
def test_nothing_stays_on_disk(make: Callable[[], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with suppress(ConfigError):
        read_clip(data)
    assert list(tmp_path.iterdir()) == []
