"""Moving pictures of runs, drawn without a browser: GIF, WebP and MP4."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from PIL import Image

from traces.schema import Trace
from visualizers.moving.canvas import opened
from visualizers.moving.clock import SIZES, Look, Moment, fitted, moments
from visualizers.moving.colors import colors_of
from visualizers.moving.errors import MOST_CELLS, MOST_FRAMES, MOST_PIXELS, MOST_SECONDS, CodecMissing, MovingError
from visualizers.moving.files import ENDINGS, palette_of, save
from visualizers.moving.stage import Stage

__all__ = [
    "ENDINGS",
    "SIZES",
    "CodecMissing",
    "Look",
    "Moment",
    "MovingError",
    "Stage",
    "fitting",
    "moments",
    "write_clip",
    "write_moving",
]

Report = Callable[[int, int], None]
"""Is told the frames that are done and how many there are in all."""
_KINDS: Final = {"text": "a text", "image": "a picture"}
_SAMPLED: Final = 12
"""Frames from which the colours of a GIF are chosen."""


def write_moving(
    traces: Sequence[Trace], path: Path, look: Look | None = None, *, report: Report | None = None
) -> None:
    """Write a moving picture of runs side by side: a GIF, WebP or MP4 file, by the ending of `path`.

    The file appears whole or not at all; one that is there is replaced.

    Args:
        traces: One to six runs.
        path: Where to; ends in one of `ENDINGS`.
        look: Clock, size and colours.
        report: Is told how far it is.

    Raises:
        MovingError: It would be too long or too large, or cannot be drawn; `CodecMissing` when it cannot be written.
        OSError: The file cannot be written.
    """
    look = look or Look()
    shown = moments(traces, look)
    stage = Stage(traces, look)
    _check_pixels(len(shown), stage.size)
    cells = len(shown) * sum(len(trace.output.tokens) for trace in traces)
    if cells > MOST_CELLS:
        raise MovingError(
            f"{cells} positions in all frames are more than {MOST_CELLS}", "leave passes out with {every}"
        )
    _ending(path)
    sample = [shown[round(i * (len(shown) - 1) / (_SAMPLED - 1))] for i in range(_SAMPLED)]
    colors = palette_of(list(stage.frames(sample)), colors_of(look.theme).every) if _is_gif(path) else _no_palette()
    frames = _reported(stage.frames(shown), len(shown), report)
    save(path, frames, [moment.seconds for moment in shown], look.fps, colors)


def fitting(traces: Sequence[Trace], look: Look) -> Look:
    """Return the look on the clock of passes with as many of them to a frame as it takes to keep within the limits."""
    width, height = Stage(traces, look).size
    positions = sum(len(trace.output.tokens) for trace in traces)
    return fitted(traces, look, min(MOST_FRAMES, MOST_PIXELS // (width * height), MOST_CELLS // positions))


def write_clip(trace: Trace, path: Path, look: Look | None = None, *, report: Report | None = None) -> None:
    """Write the decoded clip of a video alone, `look.fps` frames a second and `look.width` pixels across.

    Raises:
        MovingError: The trace is no video or has no clip, or what `write_moving` raises.
        OSError: The file cannot be written.
    """
    look = look or Look()
    if trace.canvas.kind != "video":
        kind = _KINDS[trace.canvas.kind]
        raise MovingError(f"this trace is no video but {kind}", "leave {clip} out to see it decoded")
    if not trace.output.video:
        raise MovingError("this trace holds no decoded frames", "decode the video to its end", "leave {clip} out")
    count = len(trace.output.video)
    if count > MOST_FRAMES or count / look.fps > MOST_SECONDS:
        raise MovingError(
            f"{count} frames, {look.fps:g} a second, are more than {MOST_FRAMES} or {MOST_SECONDS} s",
            *(["choose a higher {fps}"] if count <= MOST_FRAMES else []),
            "leave {clip} out",
        )
    first = opened(trace.output.video[0])
    size = look.width // 2 * 2, max(2, round(look.width * first.height / first.width / 2) * 2)
    _check_pixels(count, size)
    _ending(path)

    def frames(addresses: Iterable[str]) -> Iterator[Image.Image]:
        for address in addresses:
            picture = opened(address)
            smooth = Image.Resampling.LANCZOS if picture.width > size[0] else Image.Resampling.BICUBIC
            yield picture.resize(size, smooth)

    sampled = trace.output.video[:: max(1, count // _SAMPLED)]
    colors = palette_of(list(frames(sampled)), ()) if _is_gif(path) else _no_palette()
    save(path, _reported(frames(trace.output.video), count, report), [1 / look.fps] * count, look.fps, colors)


def _check_pixels(count: int, size: tuple[int, int]) -> None:
    pixels = count * size[0] * size[1]
    if pixels > MOST_PIXELS:
        raise MovingError(
            f"{count} frames of {size[0]} x {size[1]} pixels are more than {MOST_PIXELS} pixels in all",
            "choose a smaller {size}",
            "have fewer frames with {every} or {slow}",
        )


def _ending(path: Path) -> None:
    if path.suffix.removeprefix(".").lower() not in ENDINGS:
        raise MovingError(path.name, f"choose a file that ends in .{', .'.join(ENDINGS)}")


def _is_gif(path: Path) -> bool:
    return path.suffix.lower() == ".gif"


def _no_palette() -> Image.Image:
    return Image.new("P", (1, 1))


def _reported(frames: Iterator[Image.Image], count: int, report: Report | None) -> Iterator[Image.Image]:
    for number, frame in enumerate(frames, start=1):
        yield frame
        if report is not None:
            report(number, count)
