"""Runs of a video on the toy raster, latent frame by latent frame, and the clip that its tiles show."""

from dataclasses import replace

from benchmarks._toy_runs import jacobi, ordinary, picture
from draftscope.traces.schema import Canvas, Trace

EACH = 8
"""Frames of the clip for one latent frame."""


def film(frames: int = 3, side: int = 12, seed: int = 0, prefix: int = 0) -> Trace:
    """Speculative Jacobi decoding after some frames of the prompt."""
    return _as_video(jacobi(frames * side, side, seed=seed), frames, side, prefix)


def plain_film(frames: int = 3, side: int = 12) -> Trace:
    """The ordinary decoding of as many tokens."""
    return _as_video(ordinary(frames * side, side), frames, side)


def _as_video(trace: Trace, frames: int, side: int, prefix: int = 0) -> Trace:
    """A picture of `frames` squares below one another as a video."""
    tokens, square = trace.output.tokens, side * side
    clip = tuple(picture(tokens[square * k : square * (k + 1)], side) for k in range(frames) for _ in range(EACH))
    return replace(
        trace,
        canvas=Canvas(kind="video", shape=(frames, side, side)),
        output=replace(trace.output, image=None, video=clip[:1] * prefix + clip, given=prefix or None),
    )
