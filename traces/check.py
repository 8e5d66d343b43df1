"""Whether a well-typed trace makes sense: sizes, pictures, and steps that add up.

Checks yield problems in reading order. Steps are replayed only when every record is sound on its own.
"""

import base64
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Final

from traces import limits, rules
from traces.check_steps import check_steps
from traces.errors import Problem, outside, quote
from traces.replay import canvas_size, outcomes
from traces.schema import Fate, Summary, Token, Trace, is_later
from traces.stats import summarise

_AXES: Final = {"text": ("length",), "image": ("rows", "columns"), "video": ("frames", "rows", "columns")}
_PICTURE: Final = re.compile(r"data:image/(png|webp);base64,([A-Za-z0-9+/]+={0,2})")
_MAGIC: Final = {"png": "iVBORw0KGgo", "webp": "UklGR"}
"""What base64 makes of the first bytes of each format."""
_PICTURE_REMEDY: Final = "give the picture itself as data:image/png;base64,... or data:image/webp;base64,..."
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SUMMARY_SLACK: Final = 1e-6
_MANY: Final = f"hold more than {limits.EXTENSION_VALUES} values", "keep large data in its own file"


def part_problems(trace: Trace) -> Iterator[Problem]:
    """What is wrong with records whose types and ranges are right, each taken alone."""
    sound = True
    parts = (
        *(_check_head, _check_rules, _check_canvas, _check_legend),
        *(check_steps, _check_output, _check_extensions),
    )
    for check_part in parts:
        for problem in check_part(trace):
            sound = False
            yield problem
        if check_part is _check_canvas and not sound:
            return  # Nothing can be said of positions on a canvas of no known size.


def _check_head(trace: Trace) -> Iterator[Problem]:
    try:
        utc = datetime.fromisoformat(trace.created).utcoffset() == timedelta(0)
    except ValueError:
        utc = False
    if not utc:
        problem = f"{quote(trace.created)} is no ISO 8601 time in UTC"
        yield Problem("created", problem, "write it like 2026-01-31T12:00:00+00:00")
    yield from _check_hashes("model.weights", trace.model.weights)
    yield from _check_hashes("model.files", trace.model.files)


def _check_hashes(field: str, hashes: Mapping[str, str]) -> Iterator[Problem]:
    for name, digest in hashes.items():
        if not _SHA256.fullmatch(digest):
            yield Problem(f"{field}[{quote(name)}]", f"{quote(digest)} is no SHA-256", "give its 64 hexadecimal digits")


def _check_rules(trace: Trace) -> Iterator[Problem]:
    for index, rule in enumerate(trace.rules):
        try:
            list(rules.read(rule.formula))
        except ValueError as error:
            if not is_later(trace.version):
                yield Problem(f"rules[{index}].formula", str(error), "use the names of docs/trace.md, each in braces")


def _check_canvas(trace: Trace) -> Iterator[Problem]:
    canvas, axes = trace.canvas, _AXES[trace.canvas.kind]
    size = canvas_size(canvas)
    if len(canvas.shape) != len(axes):
        yield Problem("canvas.shape", f"has {len(canvas.shape)} numbers", f"give ({', '.join(axes)}) for {canvas.kind}")
        return
    if size > limits.POSITIONS:
        yield Problem("canvas.shape", f"has {size} positions, more than {limits.POSITIONS}", "trace a smaller canvas")
        return
    if canvas.order is not None and sorted(canvas.order) != list(range(size)):
        problem = f"is no permutation of the cells of {size} positions"
        yield Problem("canvas.order", problem, f"list each cell from 0 to {size - 1} once")
    if canvas.block is not None:
        yield from outside("canvas.block", canvas.block, 1, size + canvas.block_offset, "leave it out without blocks")
    yield from outside("canvas.block_offset", canvas.block_offset, 0, (canvas.block or 1) - 1, "count within a block")


def _check_legend(trace: Trace) -> Iterator[Problem]:
    tiles, patches = trace.legend.tiles, trace.legend.patches
    if tiles is not None:
        yield from _check_picture("legend.tiles.png", tiles.png, "png")
        pixels = _png_size(tiles.png)
        if pixels is not None and pixels[0] != tiles.size * tiles.columns:
            wanted = f"{tiles.columns} tiles of {tiles.size} pixels to a row"
            yield Problem("legend.tiles.png", f"is {pixels[0]} pixels wide, not {wanted}", "correct size or columns")
    if patches is not None:
        yield from _check_picture("legend.patches.image", patches.image)
        if len(set(patches.ids)) != len(patches.ids):
            yield Problem("legend.patches.ids", "name a token twice", "give each token one picture")
    for index, frame in enumerate(trace.legend.frames):
        yield from outside(f"legend.frames[{index}].step", frame.step, 0, len(trace.steps), "drop the frame")
        yield from _check_picture(f"legend.frames[{index}].image", frame.image)


def _check_picture(field: str, url: str, kind: str | None = None) -> Iterator[Problem]:
    match = _PICTURE.fullmatch(url)
    if match is None:
        yield Problem(field, f"{quote(url)} is no embedded picture", _PICTURE_REMEDY)
        return
    if kind not in (None, match[1]) or not match[2].startswith(_MAGIC[match[1]]):
        yield Problem(field, f"is no {kind or match[1]} picture", _PICTURE_REMEDY)
    if len(url) > limits.PICTURE_CHARACTERS:
        yield Problem(field, f"has {len(url)} characters, more than {limits.PICTURE_CHARACTERS}", "shrink the picture")
    pixels = _png_size(url)
    if pixels is not None and pixels[0] * pixels[1] > limits.PICTURE_PIXELS:
        area = f"{pixels[0]} x {pixels[1]} pixels"
        yield Problem(field, f"is {area}, more than {limits.PICTURE_PIXELS}", "shrink the picture")


def _png_size(url: str) -> tuple[int, int] | None:
    """Width and height that the header of a PNG claims."""
    start = "data:image/png;base64,"
    if not url.startswith(start + _MAGIC["png"]) or len(url) < len(start) + 32:
        return None
    try:
        header = base64.b64decode(url[len(start) : len(start) + 32], validate=True)
    except ValueError:
        return None
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])


def _check_output(trace: Trace) -> Iterator[Problem]:
    output, size = trace.output, canvas_size(trace.canvas)
    unknown = not output.tokens and trace.steps and not any(step.token for step in trace.steps)
    if len(output.tokens) != size and not unknown:
        remedy = "give one token per position, null where a run stopped early"
        yield Problem("output.tokens", f"has {len(output.tokens)} tokens for {size} positions", remedy)
    if output.image is not None:
        yield from _check_picture("output.image", output.image)
    if output.given is not None:
        remedy = "give the number of frames that were not decoded"
        yield from outside("output.given", output.given, 0, len(output.video), remedy)
    for index, picture in enumerate(output.video):
        yield from _check_picture(f"output.video[{index}]", picture)


def _check_extensions(trace: Trace) -> Iterator[Problem]:
    """The first thing that is wrong with the extensions of a trace."""
    waiting: list[tuple[str, Any, int]] = [("extensions", trace.extensions, 0)]
    seen = 0
    while waiting:
        path, value, depth = waiting.pop()
        seen += 1
        wrong = _wrong(value, depth) if seen <= limits.EXTENSION_VALUES else _MANY
        if wrong is not None:
            yield Problem(path if len(path) <= limits.NAME_CHARACTERS and wrong is not _MANY else "extensions", *wrong)
            return
        if isinstance(value, Mapping):
            waiting += [(f"{path}[{quote(name)}]", below, depth + 1) for name, below in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{index}]", below, depth + 1) for index, below in enumerate(value)]


def _wrong(value: Any, depth: int) -> tuple[str, str] | None:
    """What is wrong with one value of a JSON document, whatever it holds, and the remedy."""
    if depth > limits.EXTENSION_NESTING:
        return f"nests deeper than {limits.EXTENSION_NESTING} levels", "flatten it"
    if isinstance(value, Mapping) and any(len(name) > limits.NAME_CHARACTERS for name in value):
        name = next(name for name in value if len(name) > limits.NAME_CHARACTERS)
        return f"{quote(name)} is no name", f"use text of up to {limits.NAME_CHARACTERS} characters"
    if isinstance(value, str) and len(value) > limits.TEXT_CHARACTERS:
        return f"has {len(value)} characters, more than {limits.TEXT_CHARACTERS}", "shorten it"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not finite", "write null where a number does not apply"
    if isinstance(value, int) and not -limits.WHOLE - 1 <= value <= limits.WHOLE:
        return f"{quote(value)} does not fit 64 bits", "write it as text"
    return None


def replay_problems(trace: Trace) -> Iterator[Problem]:
    """Follow the steps of sound records: what is final stays, and output and summary say what the steps say."""
    final: dict[int, Token | None] = {}
    for index, step in enumerate(trace.steps):
        left = outcomes(step)
        for position, (_, fate, entry) in left.items():
            if position in final and fate is not Fate.EDITED:
                problem = f"position {position} was final before and is now {fate}"
                yield Problem(f"steps[{index}].fate[{entry}]", problem, "only the fate edited touches a final token")
            elif position not in final and fate is Fate.EDITED:
                problem = f"position {position} is edited before it was final"
                yield Problem(f"steps[{index}].fate[{entry}]", problem, "give the fate by which it becomes final")
        final |= {position: token for position, (token, fate, _) in left.items() if fate.final}
    for position, token in enumerate(trace.output.tokens):
        if token != final.get(position) and (position not in final or final[position] is not None):
            problem = f"{quote(token)} is not {quote(final.get(position))}, which the steps end with"
            yield Problem(f"output.tokens[{position}]", problem, "give the final token, null where there is none")
    yield from _check_summary(trace, full=len(final) == canvas_size(trace.canvas))


def _check_summary(trace: Trace, *, full: bool) -> Iterator[Problem]:
    summary = trace.summary
    if summary.complete != full and (full or trace.canvas.kind != "text"):  # A text may end before its canvas does.
        problem = f"{summary.complete} for a canvas that is {'full' if full else 'not full'}"
        yield Problem("summary.complete", problem, f"make it {full}")
    computed = summarise(trace.steps, canvas_size(trace.canvas), summary.complete, trace.legend.ends)
    for field in fields(Summary):
        own, due = getattr(summary, field.name), getattr(computed, field.name)
        if own is None and field.name == "drafts":  # older than the field
            continue
        if own != due and not (isinstance(own, float) and due and math.isclose(own, due, rel_tol=_SUMMARY_SLACK)):
            remedy = "recompute the summary with traces.stats.summarise"
            yield Problem(f"summary.{field.name}", f"{quote(own)} is not {quote(due)}, which the steps give", remedy)
