"""Made-up runs of a video: a disc that drifts from one latent frame to the next, and the clip it stands for."""

from dataclasses import replace

from support.synthetic import Size, _picture, _Run, _trace, ordinary, picture_tokens, tiles

from traces.schema import Canvas, Trace

EACH = 8
"""Frames of the clip for one latent frame."""


def moving_tokens(frames: int, side: int) -> tuple[int, ...]:
    """The codes of a disc that lies one column further to the right in every latent frame."""
    still = picture_tokens(Size(side, side))
    return tuple(
        still[row * side + (column - frame) % side]
        for frame in range(frames)
        for row in range(side)
        for column in range(side)
    )


def film(frames: int = 3, side: int = 12, seed: int = 0, given: int = 0) -> Trace:
    """Speculative Jacobi decoding of a video, latent frame by latent frame, behind some frames that were given."""
    size = Size(frames * side, side, accepted=2.0, seed=seed)
    run = _Run(size)
    run.goal = moving_tokens(frames, side)
    while run.front < size.positions:
        run.step()
    return _as_video(_trace("scd", run.steps, size, {"window": size.window}), frames, side, given)


def plain_film(frames: int = 3, side: int = 12) -> Trace:
    """The ordinary decoding of as many tokens."""
    return _as_video(ordinary(Size(frames * side, side)), frames, side)


def _as_video(trace: Trace, frames: int, side: int, given: int = 0) -> Trace:
    """A picture of `frames` squares below one another as a video."""
    tokens, atlas, square = trace.output.tokens, tiles(), Size(side, side)
    codes = [token if isinstance(token, int) else None for token in tokens]
    parts = [codes[side * side * frame : side * side * (frame + 1)] for frame in range(frames)]
    clip = tuple(_picture(parts[number // EACH], atlas, square) for number in range(EACH * frames))
    return replace(
        trace,
        canvas=Canvas(kind="video", shape=(frames, side, side)),
        output=replace(trace.output, image=None, video=clip[:1] * given + clip, given=given or None),
    )
