"""The latent frames of a video: where they end along decoding, what they cover, how they follow from one another."""

from math import prod

from draftscope.traces.schema import Canvas, Fate, Trace
from draftscope.traces.stats import Tally, count_verdicts


def frame_count(canvas: Canvas) -> int:
    """Latent frames of a video; 1 for everything else."""
    return canvas.shape[0] if canvas.kind == "video" else 1


def frame_size(canvas: Canvas) -> int:
    """Return the positions of one latent frame; all positions if the canvas is not a video."""
    return prod(canvas.shape[1:] if canvas.kind == "video" else canvas.shape)


def cell_of(canvas: Canvas, position: int) -> int:
    """Return the cell of a position, counted in raster order.

    Args:
        canvas: Canvas, whose `order` may differ from raster order.
        position: Position in decoding order, from 0.
    """
    return position if canvas.order is None else canvas.order[position]


def frame_ends(canvas: Canvas) -> tuple[int, ...]:
    """First position of every latent frame but the first; none where latent frames are not decoded one by one."""
    size = frame_size(canvas)
    frames = frame_count(canvas)
    decoded = [cell_of(canvas, position) // size for position in range(size * frames)]
    ends = tuple(size * frame for frame in range(1, frames))
    return ends if all(len(set(decoded[start : start + size])) == 1 for start in (0, *ends)) else ()


def frame_names(trace: Trace) -> tuple[str, ...]:
    """Return names of all latent frames.

    The frames of the clip that each covers, from 1, if the trace specifies them.
    """
    latent, start = frame_count(trace.canvas), trace.output.given or 0
    each, remainder = divmod(len(trace.output.video) - start, latent)
    if each == 0 or remainder or trace.canvas.kind != "video":  # the clip is not shared out evenly
        return tuple(f"latent frame {number}" for number in range(1, latent + 1))
    if each == 1:
        return tuple(f"frame {start + number}" for number in range(1, latent + 1))
    return tuple(f"frames {start + each * k + 1} to {start + each * (k + 1)}" for k in range(latent))


def kept_by_change(trace: Trace) -> tuple[Tally, Tally]:
    """Count verified drafts whose token equals that of the previous latent frame, and those whose token differs.

    The final tokens of the same cell in successive latent frames are compared; the first latent frame has no
    predecessor in the trace and is left out, as are positions that were never final.
    """
    size = frame_size(trace.canvas)
    token = {cell_of(trace.canvas, position): value for position, value in enumerate(trace.output.tokens)}
    verdicts: dict[bool, list[Fate]] = {True: [], False: []}
    for step in trace.steps:
        for position, fate in zip(step.position, step.fate, strict=True):
            cell = cell_of(trace.canvas, position)
            if fate.judged and cell >= size and None not in (token[cell], token[cell - size]):
                verdicts[token[cell] == token[cell - size]].append(fate)
    return count_verdicts(verdicts[True]), count_verdicts(verdicts[False])
