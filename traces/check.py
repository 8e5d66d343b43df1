"""Checks that a well-typed trace is consistent: sizes, images, and steps that add up.

Checks yield problems in reading order. Steps are replayed only if every record is valid on its own.
"""

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any, Final

from draftscope.traces import explanations as rules
from draftscope.traces import limits
from draftscope.traces.errors import Problem, format_value, range_problem
from draftscope.traces.measures import FREE_PREFIX, MEASURES
from draftscope.traces.replay import canvas_size, position_updates
from draftscope.traces.schema import Fate, Mask, Node, Numbers, PathPair, Step, Summary, Sums, Token, Trace, is_later
from draftscope.traces.stats import summarise, summarise_sums

_AXES: Final = {"text": ("length",), "image": ("rows", "columns"), "video": ("frames", "rows", "columns")}
_PICTURE: Final = re.compile(r"data:image/(png|webp);base64,([A-Za-z0-9+/]+={0,2})")
_MAGIC: Final = {"png": "iVBORw0KGgo", "webp": "UklGR"}
"""First bytes of each format in base64."""
_PICTURE_REMEDY: Final = "give the picture itself as data:image/png;base64,... or data:image/webp;base64,..."
_SUMMARY_SLACK: Final = 1e-6
_MANY: Final = f"hold more than {limits.EXTENSION_VALUES} values", "keep large data in its own file"
_COLUMNS: Final = ("token", "fate", "row", "draft", "p", "q", "accept_prob", "coin", "top", "likely", "paths")
_PLANE_SLACK: Final = 0.01
"""Points of the plane of paths are rounded further."""
_SAME: Final = {Fate.KEPT: True, Fate.ACCEPTED: True, Fate.CHANGED: False}
"""Whether the token must be the draft or must not be it."""


def part_problems(trace: Trace) -> Iterator[Problem]:
    """Yield problems of single records whose types and ranges are correct."""
    first = [*_check_head(trace), *_check_rules(trace), *_check_canvas(trace)]
    yield from first
    if first:
        return  # Positions cannot be checked on a canvas of unknown size.
    for check_part in (_check_legend, _check_steps, _check_sums, _check_output, _check_extensions):
        yield from check_part(trace)


def _check_head(trace: Trace) -> Iterator[Problem]:
    try:
        utc = datetime.fromisoformat(trace.created).utcoffset() == timedelta(0)
    except ValueError:
        utc = False
    if not utc:
        problem = f"{format_value(trace.created)} is no ISO 8601 time in UTC"
        yield Problem("created", problem, "write it like 2026-01-31T12:00:00+00:00")


def _check_rules(trace: Trace) -> Iterator[Problem]:
    for index, rule in enumerate(trace.rules):
        try:
            rules.check(rule.formula)
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
        problem = f"is not a permutation of the cells of {size} positions"
        yield Problem("canvas.order", problem, f"list each cell from 0 to {size - 1} once")
    if canvas.block is not None:
        yield from range_problem(
            "canvas.block", canvas.block, 1, size + canvas.block_offset, "leave it out without blocks"
        )
    yield from range_problem(
        "canvas.block_offset", canvas.block_offset, 0, (canvas.block or 1) - 1, "count within a block"
    )


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
        yield from range_problem(f"legend.frames[{index}].step", frame.step, 0, len(trace.steps), "drop the frame")
        yield from _check_picture(f"legend.frames[{index}].image", frame.image)


def _check_picture(field: str, url: str, kind: str | None = None) -> Iterator[Problem]:
    match = _PICTURE.fullmatch(url)
    if match is None:
        yield Problem(field, f"{format_value(url)} is not an embedded picture", _PICTURE_REMEDY)
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


def _check_steps(trace: Trace) -> Iterator[Problem]:
    """All that is wrong with the steps, each taken alone."""
    size = canvas_size(trace.canvas)
    entries = sum(len(step.position) for step in trace.steps)
    if entries > limits.ENTRIES:
        yield Problem("steps", f"have {entries} entries, more than {limits.ENTRIES}", "record a shorter run")
        return
    first = next((token for step in trace.steps for token in step.token), 0)
    width, later = None if isinstance(first, int) else len(first), is_later(trace.version)
    states = next((len(pair.draft) for step in trace.steps for pair in step.paths or () if pair), None)
    for index, step in enumerate(trace.steps):
        path = f"steps[{index}]"
        for name, value in step.signals.items():
            yield from _check_measure(f"{path}.signals", name, (value,), "step", later=later)
        if step.mask is not None:
            yield from _check_mask(f"{path}.mask", step.mask)
        if step.graph is not None:
            yield from _check_graph(f"{path}.graph", step.graph, step.call.rows, size)
        uneven = list(_check_lengths(path, step))
        yield from uneven
        if not uneven:
            yield from _check_columns(path, step, size, width)
            for name, column in step.numbers.items():
                yield from _check_measure(f"{path}.numbers", name, column, "position", later=later)
            yield from _check_paths(path, step, width, states)


def _check_sums(trace: Trace) -> Iterator[Problem]:
    sums = trace.sums
    if sums is None:
        return
    if trace.steps or any(token is not None for token in trace.output.tokens):
        problem = "are given with steps or ids of the output"
        yield Problem("sums", problem, "give the steps of a run, or sums over many passes")
    accepted, judged = sums.accepted_by_position, sums.judged_by_position
    if judged and len(judged) != len(accepted):
        problem = f"has {len(judged)} positions where accepted_by_position has {len(accepted)}"
        yield Problem("sums.judged_by_position", problem, "give both for the same positions")
        return
    for name, low, high in _contained(sums):
        if low > high:
            problem = f"{format_value(low)} is more than {format_value(high)}"
            yield Problem(f"sums.{name}", problem, "count every pass and draft once")
    if accepted and sum(accepted) != sums.accepted:
        problem = f"add up to {sum(accepted)} where {sums.accepted} drafts were accepted"
        yield Problem("sums.accepted_by_position", problem, "count every accepted draft at its position")


def _contained(sums: Sums) -> Iterator[tuple[str, int, int]]:
    """Counts with one that they cannot exceed, by field."""
    passes = sums.forwards if sums.verifications is None else sums.verifications
    yield "verifications", passes, sums.forwards
    yield "accepted", sums.accepted, sums.drafts
    columns = {"judged_by_position": sums.judged_by_position, "accepted_by_position": sums.accepted_by_position}
    for name, counts in columns.items():
        for index, (before, count) in enumerate(pairwise((passes, *counts))):
            yield f"{name}[{index}]", count, before
    for index, (accepted, judged) in enumerate(zip(sums.accepted_by_position, sums.judged_by_position, strict=False)):
        yield f"accepted_by_position[{index}]", accepted, judged


def _check_lengths(path: str, step: Step) -> Iterator[Problem]:
    columns = {name: getattr(step, name) for name in _COLUMNS}
    columns |= {f"numbers.{name}": column for name, column in step.numbers.items()}
    for name, column in columns.items():
        if name == "token" and not column:
            continue  # The ids are unknown.
        if column is not None and len(column) != len(step.position):
            problem = f"has {len(column)} entries where position has {len(step.position)}"
            yield Problem(f"{path}.{name}", problem, "give every column one entry per position")


def _check_columns(path: str, step: Step, size: int, width: int | None) -> Iterator[Problem]:
    yield from _check_positions(path, step, size)
    for name, tokens in {"token": step.token, "draft": step.draft or ()}.items():
        for index, token in enumerate(tokens):
            if token is not None:
                yield from _check_token(f"{path}.{name}[{index}]", token, width)
    for index, top in enumerate(step.top or ()):
        yield from _check_ranked(f"{path}.top[{index}]", top)
    for index, likely in enumerate(step.likely or ()):
        yield from _check_ranked(f"{path}.likely[{index}]", likely or ())
        if len({token for token, *_ in likely or ()}) != len(likely or ()):
            yield Problem(f"{path}.likely[{index}]", "names a token twice", "give each token once")
    yield from _check_verdicts(path, step)


def _check_positions(path: str, step: Step, size: int) -> Iterator[Problem]:
    seen: set[tuple[int, int]] = set()
    final: set[int] = set()
    for index, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
        row = step.row[index] if step.row is not None else 0
        yield from range_problem(f"{path}.position[{index}]", position, 0, size - 1, "give a position of the canvas")
        yield from range_problem(f"{path}.row[{index}]", row, 0, step.call.rows - 1, "give a row of the call")
        if (row, position) in seen:
            problem = f"{format_value(position)} appears twice in one row"
            yield Problem(f"{path}.position[{index}]", problem, "give one entry per row and position")
        if fate.final and position in final:
            problem = f"position {format_value(position)} becomes final twice in one step"
            yield Problem(f"{path}.fate[{index}]", problem, "let one row decide")
        seen.add((row, position))
        if fate.final:
            final.add(position)


def _check_verdicts(path: str, step: Step) -> Iterator[Problem]:
    """Check that fates do not contradict the tokens and uniform draws of the same entries."""
    empty = (None,) * len(step.position)
    columns = zip(
        step.fate, step.token or empty, step.draft or empty, step.accept_prob or empty, step.coin or empty, strict=True
    )
    for index, (fate, token, draft, accept_prob, coin) in enumerate(columns):
        if None not in (draft, token) and fate in _SAME and (token == draft) is not _SAME[fate]:
            problem = f"{fate}, but the token is {'another than' if _SAME[fate] else 'that of'} the draft"
            yield Problem(f"{path}.fate[{index}]", problem, "give the fate that fits, or correct the draft")
        if accept_prob is None or coin is None or not fate.judged:
            continue
        off = coin - accept_prob if fate is Fate.ACCEPTED else accept_prob - coin
        if off > limits.TOLERANCE:
            problem = f"{fate} with coin {coin:g} against {accept_prob:g}"
            yield Problem(
                f"{path}.fate[{index}]", problem, "a draft is accepted if its uniform draw is below accept_prob"
            )


def _check_token(field: str, token: Token, width: int | None) -> Iterator[Problem]:
    """`width` is the length of continuous tokens, None for a vocabulary."""
    if isinstance(token, int) and width is None:
        return
    if isinstance(token, int) or width is None:
        problem = "an id among continuous tokens" if isinstance(token, int) else "a list among vocabulary ids"
        yield Problem(field, f"is {problem}", "use one kind of token in a trace")
    elif len(token) != width:
        yield Problem(field, f"has {len(token)} numbers, others have {width}", "give all tokens one length")


def _check_ranked(field: str, ranked: Sequence[tuple[int, float] | tuple[int, float, float]]) -> Iterator[Problem]:
    """Tokens with one or two probabilities, by the first of them."""
    before = 1.0
    for index, share in enumerate(entry[1] for entry in ranked):
        if share > before + limits.TOLERANCE:
            problem = f"{share:g} is above the one before it"
            yield Problem(f"{field}[{index}][1]", problem, "list the likeliest token first")
        before = share


def _check_measure(path: str, name: str, column: Numbers, per: str, *, later: bool) -> Iterator[Problem]:
    """`later`: the trace is of a version to come, which may have measures that are not known yet."""
    measure = MEASURES.get(name)
    if measure is None:
        if not later and not name.startswith(FREE_PREFIX):
            remedy = f"use a name of docs/trace.md or begin it with {FREE_PREFIX}"
            yield Problem(path, f"{format_value(name)} is not a known measure", remedy)
        return
    if measure.per != per:
        home = "numbers" if measure.per == "position" else "signals"
        yield Problem(path, f"{format_value(name)} belongs to a {measure.per}, not to a {per}", f"move it to {home}")
        return
    minimum = -math.inf if measure.low is None else measure.low
    maximum = math.inf if measure.high is None else measure.high
    field, remedy = f"{path}.{name}", f"give {measure.unit or 'a number'} in its range"
    for index, value in enumerate(column):
        if value is not None:
            at = field if per == "step" else f"{field}[{index}]"
            yield from range_problem(at, value, minimum, maximum, remedy, limits.TOLERANCE)


def _check_mask(path: str, mask: Mask) -> Iterator[Problem]:
    if len(mask.runs) != len(mask.queries):
        problem = f"has {len(mask.runs)} rows for {len(mask.queries)} queries"
        yield Problem(f"{path}.runs", problem, "give one row of runs per query")
    for index, runs in enumerate(mask.runs):
        if any(run < 0 for run in runs) or sum(runs) != len(mask.keys):
            problem = f"do not add up to the {len(mask.keys)} keys"
            yield Problem(f"{path}.runs[{index}]", problem, "count hidden, seen, hidden ... keys from the left")


def _check_graph(path: str, graph: Sequence[Node], rows: int, size: int) -> Iterator[Problem]:
    for index, node in enumerate(graph):
        item_path = f"{path}[{index}]"
        yield from range_problem(f"{item_path}.row", node.row, 0, rows - 1, "give a row of the call")
        for at, parent in enumerate(node.parents):
            yield from range_problem(
                f"{item_path}.parents[{at}]", parent, 0, index - 1, "list parents before their children"
            )
        for at, parent in enumerate(node.vouched_by):
            if parent not in node.parents:
                problem = f"{format_value(parent)} is not a parent of node {index}"
                yield Problem(f"{item_path}.vouched_by[{at}]", problem, "name one of its parents")
        for at, position in enumerate(node.positions):
            yield from range_problem(
                f"{item_path}.positions[{at}]", position, 0, size - 1, "give a position of the canvas"
            )


def _check_paths(path: str, step: Step, width: int | None, states: int | None) -> Iterator[Problem]:
    """`width` is the length of tokens, `states` that of the first path of the trace."""
    if step.paths and width is None:
        yield Problem(f"{path}.paths", "are given for vocabulary ids", "leave them out, ids are not denoised")
        return
    for index, pair in enumerate(step.paths or ()):
        if pair is None:
            continue
        if step.draft is None or step.draft[index] is None:
            yield Problem(f"{path}.paths[{index}]", "is given where no draft was verified", "write null there")
        yield from _check_pair(f"{path}.paths[{index}]", pair, states)
        if pair.log_ratio:
            yield from _check_log_ratio(f"{path}.paths[{index}].log_ratio", pair, step, index)


def _check_pair(path: str, pair: PathPair, states: int | None) -> Iterator[Problem]:
    """Paths have one length throughout, and are never closer than the plane shows them."""
    count = len(pair.draft)
    if not 2 <= count <= limits.PATH_STATES:
        problem = f"has {count} states, outside 2 ... {limits.PATH_STATES}"
        yield Problem(f"{path}.draft", problem, "give x_T first and x_0 last")
    lengths = {"draft": (count, states), "target": (len(pair.target), count)}
    lengths["distance_squared"] = (len(pair.distance_squared), count)
    for name, (length, wanted) in lengths.items():
        if length != wanted:
            problem = f"has {length} states, others have {wanted}"
            yield Problem(f"{path}.{name}", problem, "give all paths of a run the same steps")
            return
    for index, (draft, target, squared) in enumerate(zip(pair.draft, pair.target, pair.distance_squared, strict=True)):
        seen = math.dist(draft, target)
        if squared < 0 or math.sqrt(squared) < seen - _PLANE_SLACK:
            problem = f"{squared:g} is below {seen * seen:g}, the squared distance in the plane"
            yield Problem(f"{path}.distance_squared[{index}]", problem, "take the distance of whole vectors")


def _check_log_ratio(field: str, pair: PathPair, step: Step, index: int) -> Iterator[Problem]:
    """The terms of a path sum to its log ratio, and the highest sum on the way is the one that log w is below."""
    terms = pair.log_ratio
    if len(terms) != len(pair.draft) - 1:
        problem = f"has {len(terms)} terms for {len(pair.draft)} states"
        yield Problem(field, problem, "give one for each denoising step")
        return
    *before, total = accumulate(terms, initial=0.0)
    slack = limits.TOLERANCE * (1 + sum(map(abs, terms)))
    for name, expected in (("path_log_ratio", total), ("path_log_ratio_highest", max(before))):
        recorded = step.numbers.get(name, (None,) * len(step.position))[index]
        if recorded is not None and not abs(recorded - expected) <= slack:
            yield Problem(
                field,
                f"adds up to {expected:g} where {name} is {recorded:g}",
                "give the terms of the path that was verified",
            )


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
        yield from range_problem("output.given", output.given, 0, len(output.video), remedy)
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
            waiting += [(f"{path}[{format_value(name)}]", below, depth + 1) for name, below in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{index}]", below, depth + 1) for index, below in enumerate(value)]


def _wrong(value: Any, depth: int) -> tuple[str, str] | None:
    """Return what is wrong with one value of a JSON document, and the remedy; None if nothing is."""
    if depth > limits.EXTENSION_NESTING:
        return f"nests deeper than {limits.EXTENSION_NESTING} levels", "flatten it"
    if isinstance(value, Mapping) and any(len(name) > limits.NAME_CHARACTERS for name in value):
        name = next(name for name in value if len(name) > limits.NAME_CHARACTERS)
        return f"{format_value(name)} is not a name", f"use text of up to {limits.NAME_CHARACTERS} characters"
    if isinstance(value, str) and len(value) > limits.TEXT_CHARACTERS:
        return f"has {len(value)} characters, more than {limits.TEXT_CHARACTERS}", "shorten it"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not finite", "write null where a number does not apply"
    if isinstance(value, int) and not -limits.MAX_INT - 1 <= value <= limits.MAX_INT:
        return f"{format_value(value)} does not fit 64 bits", "write it as text"
    return None


def replay_problems(trace: Trace) -> Iterator[Problem]:
    """Replay the steps of valid records: final tokens must stay, and output and summary must agree with the steps."""
    final: dict[int, Token | None] = {}
    for index, step in enumerate(trace.steps):
        left = position_updates(step)
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
            problem = f"{format_value(token)} is not {format_value(final.get(position))}, which the steps end with"
            yield Problem(f"output.tokens[{position}]", problem, "give the final token, null where there is none")
    yield from _check_summary(trace, full=len(final) == canvas_size(trace.canvas))


def _check_summary(trace: Trace, *, full: bool) -> Iterator[Problem]:
    summary = trace.summary
    if (
        trace.sums is None and summary.complete != full and (full or trace.canvas.kind != "text")
    ):  # A text may end before its canvas does.
        problem = f"{summary.complete} for a canvas that is {'full' if full else 'not full'}"
        yield Problem("summary.complete", problem, f"make it {full}")
    size, ends = canvas_size(trace.canvas), trace.legend.ends
    computed = summarise_sums(trace.sums) if trace.sums else summarise(trace.steps, size, summary.complete, ends)
    for field in fields(Summary):
        stored, expected = getattr(summary, field.name), getattr(computed, field.name)
        if stored is None and field.name == "drafts":  # older than the field
            continue
        if stored != expected and not (
            isinstance(stored, float) and expected and math.isclose(stored, expected, rel_tol=_SUMMARY_SLACK)
        ):
            remedy, source = "recompute the summary with traces.stats.summarise", "sums" if trace.sums else "steps"
            yield Problem(
                f"summary.{field.name}",
                f"{format_value(stored)} is not {format_value(expected)}, which the {source} give",
                remedy,
            )
