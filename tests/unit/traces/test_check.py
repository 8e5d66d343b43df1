"""Checks of a trace and of its rules: what they refuse and accept."""

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from support import handmade

from draftscope.analysis.stats import latency_breakdown, progress_curve
from draftscope.traces import Fate, Trace, TraceError, check, dumps, limits, loads
from draftscope.traces import explanations as rules
from draftscope.traces.schema import Frame, Mask, Milliseconds, Node, PathPair, Rule, Sums
from draftscope.traces.stats import summarise, summarise_sums

PNG = handmade.png(4, 4)


def summed(**fields: Any) -> Trace:
    """A trace of sums over ten passes, with other fields."""
    sums = {"tokens": 17, "forwards": 11, "verifications": 10, "drafts": 20, "accepted": 6}
    columns = {"accepted_by_position": (4, 2), "judged_by_position": (10, 4)}
    trace = replace(handmade.ar(), steps=(), sums=Sums(**{**sums, **columns, **fields}))
    empty = replace(trace, output=replace(trace.output, tokens=(None,) * len(trace.output.tokens)))
    return replace(empty, summary=summarise_sums(empty.sums))


def test_sums_must_be_possible() -> None:
    check(summed())
    assert loads(dumps(summed())) == summed()
    for fields, words in (
        ({"accepted": 7}, "sums.accepted_by_position: add up to 6 where 7"),
        ({"accepted": 6, "drafts": 5}, "sums.accepted: 6 is more than 5"),
        ({"verifications": 12}, "sums.verifications: 12 is more than 11"),
        ({"accepted_by_position": (2, 4)}, "sums.accepted_by_position[1]: 4 is more than 2"),
        ({"accepted_by_position": (11, 0), "accepted": 11}, "sums.accepted_by_position[0]: 11 is more than 10"),
        ({"judged_by_position": (3, 2)}, "sums.accepted_by_position[0]: 4 is more than 3"),
        ({"judged_by_position": (10,)}, "sums.judged_by_position: has 1 positions where"),
    ):
        assert str(first_problem(summed(**fields))).startswith(words)
    assert str(first_problem(replace(handmade.ar(), sums=summed().sums))).startswith("sums: are given with steps")
    lie = json.dumps(json.loads(dumps(summed())) | {"summary": {**asdict(summed().summary), "tokens": 9}})
    with pytest.raises(TraceError, match=r"summary\.tokens: 9 is not 17, which the sums give"):
        loads(lie.encode())


def first_problem(trace: Trace) -> TraceError:
    with pytest.raises(TraceError) as caught:
        check(trace)
    assert caught.value.remedy
    return caught.value


def with_step(trace: Trace, index: int, **fields: Any) -> Trace:
    steps = list(trace.steps)
    steps[index] = replace(steps[index], **fields)
    return replace(trace, steps=tuple(steps))


def with_call(trace: Trace, **fields: Any) -> Trace:
    return with_step(trace, 0, call=replace(trace.steps[0].call, **fields))


def changed(name: str, field: str, **fields: Any) -> Trace:
    trace = handmade.ALL[name]()
    return replace(trace, **{field: replace(getattr(trace, field), **fields)})


def framed(**fields: Any) -> Trace:
    return changed("video", "legend", frames=(Frame(**({"step": 1, "image": PNG} | fields)),))


def tiled(**fields: Any) -> Trace:
    trace = handmade.scd()
    return changed("scd", "legend", tiles=replace(trace.legend.tiles, **fields))


def scd(index: int, **fields: Any) -> Trace:
    return with_step(handmade.scd(), index, **fields)


def noded(**fields: Any) -> Trace:
    trace = handmade.psd()
    node = Node(**({"row": 0, "parents": (0,), "positions": (1,), "accepted": True} | fields))
    return with_step(trace, 1, graph=(*trace.steps[1].graph[:3], node))


def walked(index: int = 1, **fields: Any) -> Trace:
    trace = handmade.cspd()
    pairs = list(trace.steps[1].paths or ())
    pairs[index] = replace(pairs[index], **fields)
    return with_step(trace, 1, paths=tuple(pairs))


def followed(*log_ratio: float, all_steps: float, highest: float) -> Trace:
    """A trace whose second draft has these terms, and says that they come to these sums."""
    trace = walked(log_ratio=log_ratio)
    numbers = {"path_log_ratio": (None, all_steps), "path_log_ratio_highest": (None, highest)}
    return with_step(trace, 1, numbers={**trace.steps[1].numbers, **numbers})


ONE_PATH = PathPair(draft=((0.0, 0.0),), target=((0.0, 0.0),), distance_squared=(0.0,))
LONG_PATH = PathPair(draft=((0.0, 0.0),) * 1002, target=((0.0, 0.0),) * 1002, distance_squared=(0.0,) * 1002)
SHORTER = changed("scd", "output", tokens=(1, 4, 5, 7, None, None))
MASK = Mask(queries=("a",), keys=("a", "b"), runs=((1, 2),))


BROKEN: dict[str, tuple[Callable[[], Trace], str]] = {
    "no method": (lambda: replace(handmade.ar(), method=""), "method"),
    "long name": (lambda: replace(handmade.ar(), method="x" * 501), "method"),
    "no time": (lambda: replace(handmade.ar(), created="noon"), "created"),
    "local time": (lambda: replace(handmade.ar(), created="2026-01-31T12:00:00+02:00"), "created"),
    "digest": (lambda: changed("ar", "model", weights={"a": "f" * 63}), "model.weights.a"),
    "threads": (lambda: changed("ar", "environment", threads=0), "environment.threads"),
    "axes": (lambda: changed("scd", "canvas", shape=(6,)), "canvas.shape"),
    "absurd extent": (lambda: changed("scd", "canvas", shape=(2, 10**4000)), "canvas.shape[1]"),
    "no permutation": (lambda: changed("video", "canvas", order=(0, 1, 2, 3, 4, 5, 6, 6)), "canvas.order"),
    "block": (lambda: changed("s2d2", "canvas", block=5), "canvas.block"),
    "block offset": (lambda: changed("s2d2", "canvas", block_offset=4), "canvas.block_offset"),
    "linked picture": (lambda: framed(image="https://example.org/a.png"), "legend.frames[0].image"),
    "script": (lambda: framed(image="data:text/html;base64,PHNjcmlwdD4="), "legend.frames[0].image"),
    "escape": (lambda: framed(image=PNG + '" onerror="alert(1)'), "legend.frames[0].image"),
    "false png": (lambda: framed(image="data:image/png;base64,AAAA"), "legend.frames[0].image"),
    "picture size": (lambda: framed(image=PNG.rstrip("=") + "A" * limits.PICTURE_CHARACTERS), "legend.frames[0].image"),
    "tiles": (lambda: tiled(png="javascript:alert(1)"), "legend.tiles.png"),
    "tile grid": (lambda: tiled(columns=5), "legend.tiles.png"),
    "pixels": (lambda: changed("scd", "output", image=huge_png()), "output.image"),
    "image": (lambda: changed("scd", "output", image="x"), "output.image"),
    "given": (lambda: changed("video", "output", given=3), "output.given"),
    "rows": (lambda: with_call(handmade.scd(), rows=0), "steps[0].call.rows"),
    "time": (
        lambda: with_call(handmade.scd(), milliseconds=Milliseconds(forward=-1.0)),
        "steps[0].call.milliseconds.forward",
    ),
    "huge seed": (lambda: replace(handmade.ar(), seed=2**63), "seed"),
    "huge measure": (lambda: scd(0, numbers={"entropy": (0, 1e308, 0, 0)}), "steps[0].numbers.entropy[1]"),
    "fates": (lambda: scd(0, fate=(Fate.ACCEPTED,)), "steps[0].fate"),
    "column": (lambda: scd(0, p=(0.5,)), "steps[0].p"),
    "outside": (lambda: scd(0, position=(0, 1, 2, 6)), "steps[0].position[3]"),
    "twice": (lambda: scd(0, position=(0, 1, 2, 2)), "steps[0].position[3]"),
    "row": (lambda: scd(0, row=(0, 1, 2, 0)), "steps[0].row[2]"),
    "negative token": (lambda: scd(0, token=(1, 4, 5, -6)), "steps[0].token[3]"),
    "token length": (lambda: with_step(handmade.cspd(), 0, token=((0.5, 1.0), (0.5,))), "steps[0].token[1]"),
    "p": (lambda: scd(0, p=(0.5, 1.3, 0, 0)), "steps[0].p[1]"),
    "top": (lambda: scd(0, top=(((1, 0.2), (2, 0.7)), (), (), ())), "steps[0].top[0][1][1]"),
    "measure": (lambda: scd(0, numbers={"vt": (0, 0, 0, 0)}), "steps[0].numbers"),
    "measure range": (lambda: scd(0, numbers={"tv": (0, 0, 2, 0)}), "steps[0].numbers.tv[2]"),
    "signal place": (lambda: scd(0, numbers={"window": (0, 0, 0, 0)}), "steps[0].numbers"),
    "kept": (lambda: with_step(handmade.jacobi(), 1, draft=(2, 9, 4, 9)), "steps[1].fate[1]"),
    "accepted": (lambda: scd(0, draft=(2, 2, 3, 6)), "steps[0].fate[0]"),
    "uniform draw above its bar": (lambda: scd(0, coin=(0.6, 0.75, 0.5, 0.25)), "steps[0].fate[0]"),
    "uniform draw below its bar": (lambda: scd(0, coin=(0.25, 0.1, 0.5, 0.25)), "steps[0].fate[1]"),
    "mask runs": (lambda: with_step(handmade.s2d2(), 1, mask=MASK), "steps[1].mask.runs[0]"),
    "node parent": (lambda: noded(parents=(1, 3)), "steps[1].graph[3].parents[1]"),
    "node position": (lambda: noded(positions=(4,)), "steps[1].graph[3].positions[0]"),
    "paths": (lambda: with_step(handmade.cspd(), 1, paths=(None,)), "steps[1].paths"),
    "paths without a draft": (lambda: with_step(handmade.cspd(), 0, paths=(ONE_PATH, None)), "steps[0].paths[0]"),
    "terms of other steps": (lambda: followed(0.5, all_steps=0.5, highest=0.0), "steps[1].paths[1].log_ratio"),
    "terms of another sum": (lambda: followed(0.5, -1.0, all_steps=-0.6, highest=0.5), "steps[1].paths[1].log_ratio"),
    "terms of another height": (
        lambda: followed(0.5, -1.0, all_steps=-0.5, highest=0.0),
        "steps[1].paths[1].log_ratio",
    ),
    "one state": (lambda: with_step(handmade.cspd(), 1, paths=(ONE_PATH, None)), "steps[1].paths[0].draft"),
    "many states": (lambda: with_step(handmade.cspd(), 1, paths=(LONG_PATH, None)), "steps[1].paths[0].draft"),
    "path distances": (lambda: walked(distance_squared=(0.0,)), "steps[1].paths[1].distance_squared"),
    "closer than seen": (lambda: walked(distance_squared=(0.0, 1.0, 2.4)), "steps[1].paths[1].distance_squared[2]"),
    "absurd points": (lambda: walked(draft=((1e308, -1e308),) * 3), "steps[1].paths[1].distance_squared[0]"),
    "output": (lambda: changed("scd", "output", tokens=(1,)), "output.tokens"),
    "other output": (lambda: changed("scd", "output", tokens=(1, 4, 5, 7, 8, 8)), "output.tokens[5]"),
    "summary": (lambda: changed("scd", "summary", accepted=5), "summary.accepted"),
    "no acceptance": (lambda: changed("scd", "summary", acceptance=None), "summary.acceptance"),
    "seconds": (lambda: changed("scd", "summary", seconds=1.0), "summary.seconds"),
    "not complete": (lambda: changed("scd", "summary", complete=False), "summary.complete"),
    "complete": (lambda: replace(SHORTER, steps=SHORTER.steps[:2]), "summary.complete"),
    "final twice": (
        lambda: replace(handmade.scd(), steps=(handmade.scd().steps[0], *handmade.scd().steps)),
        "steps[1].fate[0]",
    ),
    "reopened": (
        lambda: with_step(handmade.s2d2(), 2, position=(1, 3), token=(6, 9), fate=(Fate.REJECTED, Fate.FALLBACK)),
        "steps[2].fate[0]",
    ),
    "edited first": (lambda: with_step(handmade.s2d2(), 2, fate=(Fate.UNMASKED, Fate.EDITED)), "steps[2].fate[1]"),
    "two rows decide": (lambda: with_step(handmade.psd(), 1, fate=(Fate.ACCEPTED,) * 4), "steps[1].fate[2]"),
}


def huge_png() -> str:
    """A tiny file whose header claims ten thousand million pixels."""
    start = "data:image/png;base64,"
    data = base64.b64decode(PNG.removeprefix(start))
    claim = (100_000).to_bytes(4)
    return start + base64.b64encode(data[:16] + claim + claim + data[24:]).decode()


@pytest.mark.parametrize("name", BROKEN)
def test_what_makes_no_sense_is_named(name: str) -> None:
    maker, field = BROKEN[name]
    error = first_problem(maker())
    assert error.field == field
    assert "\n" not in str(error)


def test_slack_for_rounded_numbers() -> None:
    check(scd(0, p=(0.5, 1.0000001, -1e-9, 0.5)))
    trace = handmade.scd()
    check(replace(trace, summary=replace(trace.summary, seconds=trace.summary.seconds * (1 + 1e-9))))


def test_the_largest_numbers_are_summed_without_overflow() -> None:
    slow = Milliseconds(**dict.fromkeys(("prepare", "forward", "logits", "decide"), limits.MILLISECONDS))
    trace = handmade.scd()
    steps = tuple(
        replace(
            step,
            call=replace(step.call, milliseconds=slow, query_tokens=limits.CALL_COUNT, batch=limits.CALL_COUNT),
            numbers={**step.numbers, "entropy": (limits.MEASURE,) * len(step.position)},
        )
        for step in trace.steps
    )
    summary = summarise(steps, len(trace.output.tokens), complete=True)
    for seed in (limits.MAX_INT, -limits.MAX_INT - 1):
        full = replace(trace, steps=steps, summary=summary, seed=seed)
        assert loads(dumps(full)) == full
    assert [stage.share for stage in latency_breakdown(steps)] == [0.25] * 4
    assert progress_curve(steps).milliseconds[-1] == len(steps) * 4 * limits.MILLISECONDS


def test_too_many_entries_and_a_canvas_of_no_known_size_stop_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 9)
    assert first_problem(handmade.scd()).problem == "have 10 entries, more than 9"
    error = first_problem(changed("scd", "canvas", shape=(60_000, 60_000), order=(0,)))
    assert (error.field, error.more) == ("canvas.shape", 0)


def with_rule(formula: str) -> Trace:
    return replace(handmade.jacobi(), rules=(Rule(fates=(Fate.ACCEPTED,), formula=formula),))


@pytest.mark.parametrize(
    "formula",
    [
        "{constructor}",
        "{p",
        "p}",
        "{p ? draft}",
        "{p ? q ? coin}",
        "{fate ? p}",
        "{set __proto__.x}",
        "{tv }{}",
        "{score}",
    ],
)
def test_a_formula_speaks_of_nothing_else(formula: str) -> None:
    with pytest.raises(ValueError):
        rules.check(formula)
    with pytest.raises(TraceError, match=r"rules\[0\]\.formula"):
        loads(dumps(with_rule(formula)))


@pytest.mark.parametrize(
    "formula",
    ["min(1, {p} / {q}); coin {coin ? accept_prob} {set tau}: {fate}", "{confidence} {confidence ? set tau} {set tau}"],
)
def test_a_trace_keeps_its_rules(formula: str) -> None:
    trace = with_rule(formula)
    assert loads(dumps(trace)) == trace


@pytest.mark.parametrize(
    ("likely", "field"),
    [
        (((3, 0.2, 0.1), (4, 0.3, 0.1)), r"likely\[\d+\]\[1\]\[1\]"),
        (((3, 0.2, 0.1), (3, 0.1, 0.1)), r"likely\[\d+\]"),
        (((-3, 0.2, 0.1),), r"likely\[\d+\]\[0\]\[0\]"),
        (((3, 1.2, 0.1),), r"likely\[\d+\]\[0\]\[1\]"),
    ],
)
def test_what_a_verdict_was_between_is_checked(likely: tuple[tuple[int, float, float], ...], field: str) -> None:
    trace = handmade.jacobi()
    step = replace(trace.steps[0], likely=(likely, *(None,) * (len(trace.steps[0].position) - 1)))
    with pytest.raises(TraceError, match=field):
        loads(dumps(replace(trace, steps=(step, *trace.steps[1:]))))
