"""Small traces written by hand, one for every kind of method, to show that the records fit them all."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from PIL import Image

from draftscope.traces.replay import canvas_size, replay_steps
from draftscope.traces.schema import (
    VERSION,
    Call,
    Canvas,
    Environment,
    Fate,
    Frame,
    Legend,
    Mask,
    Milliseconds,
    ModelCard,
    Node,
    Output,
    PathPair,
    Step,
    Tiles,
    Trace,
)
from draftscope.traces.stats import summarise


def make(method: str, canvas: Canvas, steps: Sequence[Step], **fields: Any) -> Trace:
    """A trace of the steps, with output and summary that follow from them."""
    size = canvas_size(canvas)
    end = replay_steps(steps, size)
    tokens = tuple(token if final else None for token, final in zip(end.tokens, end.final, strict=True))
    head: dict[str, Any] = {
        "model": ModelCard(id="hand/made", title="Made by hand", weights={"model.safetensors": "0" * 64}),
        "prompt": "a small red boot",
        "config": {"window": 4, "alpha": 0.5, "coupling": "maximal", "exact": True, "limit": None},
        "seed": 7,
        "created": "2026-01-31T12:00:00+00:00",
        "environment": Environment(
            device="cpu", dtype="float32", python="3.11.0", platform="Linux", libraries={"torch": "2.0"}, threads=2
        ),
        "output": Output(tokens=tokens),
        "summary": summarise(steps, size, complete=None not in tokens),
    }
    return Trace(method=method, canvas=canvas, steps=tuple(steps), **head | fields)


def step(entries: str = "", *, role: Any = "target", mode: str = "causal", **fields: Any) -> Step:
    """A step from words like `3:17=accepted`: position, token and fate of every entry."""
    columns = [entry.replace("=", ":").split(":") for entry in entries.split()]
    call = Call(
        role=role,
        mode=mode,
        rows=fields.pop("rows", 1),
        query_tokens=fields.pop("query_tokens", 1),
        milliseconds=Milliseconds(prepare=0.25, forward=4.0, logits=0.5, decide=0.25),
    )
    position = tuple(int(column[0]) for column in columns)
    token = fields.pop("token", tuple(int(column[1] or 0) for column in columns))
    return Step(call=call, position=position, token=token, fate=tuple(Fate(column[2]) for column in columns), **fields)


def png(width: int, height: int) -> str:
    """A black picture as a data URI."""
    buffer = BytesIO()
    Image.new("L", (width, height)).save(buffer, "PNG")
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"


def ar() -> Trace:
    """Ordinary decoding of a text that ends before its canvas does."""
    words = {0: "<end>", 5: "The", 6: "boot"}
    steps = [
        step("0:5=sampled", top=(((5, 0.5), (6, 0.25)),)),
        step("1:6=sampled", top=(((6, 0.9),),)),
        step("2:0=sampled"),
    ]
    return make(
        "ar",
        Canvas(kind="text", shape=(4,)),
        steps,
        legend=Legend(vocabulary=words),
        output=Output(tokens=(5, 6, 0, None), text="The boot"),
        summary=summarise(steps, 4, complete=True),
    )


def scd() -> Trace:
    """Jacobi iterations on a picture of 2 x 3 tokens, four drafts in the window."""
    first = step(
        "0:1=accepted 1:4=resampled 2:5=drafted 3:6=drafted",
        query_tokens=8,
        rows=2,
        draft=(1, 2, 3, 6),
        p=(0.5, 0.125, 0.25, 0.5),
        q=(1.0, 1.0, 1.0, 1.0),
        accept_prob=(0.5, 0.125, 0.25, 0.5),
        coin=(0.25, 0.75, 0.5, 0.25),
        numbers={"age": (0, 0, 0, 0), "initial": (1, 1, 1, 1), "tv": (0.5, 0.875, 0.75, 0.5)},
        signals={"accepted": 1, "window": 4},
    )
    second = step(
        "2:5=accepted 3:7=resampled 4:8=drafted 5:9=drafted",
        query_tokens=8,
        rows=2,
        draft=(5, 6, 2, 3),
        p=(0.5, 0.25, 0.5, 0.5),
        q=(0.5, 0.5, 1.0, 1.0),
        accept_prob=(1.0, 0.5, 0.5, 0.5),
        coin=(None, 0.75, 0.625, 0.625),
        numbers={"age": (1, 1, 0, 0), "initial": (0, 0, 1, 1), "tv": (0.25, 0.5, 0.5, 0.5)},
        signals={"accepted": 1, "window": 4},
    )
    third = step(
        "4:8=accepted 5:9=accepted",
        query_tokens=6,
        rows=2,
        draft=(8, 9),
        p=(0.75, 0.5),
        q=(0.5, 0.5),
        accept_prob=(1.0, 1.0),
        coin=(0.5, 0.5),
        numbers={"age": (1, 1), "initial": (0, 0), "tv": (0.125, 0.25)},
        signals={"accepted": 2, "window": 2},
    )
    legend = Legend(tiles=Tiles(png=png(8, 6), size=2, columns=4))
    canvas = Canvas(kind="image", shape=(2, 3))
    output = Output(tokens=(1, 4, 5, 7, 8, 9), image=png(6, 4))
    return make("scd", canvas, [first, second, third], legend=legend, output=output)


def jacobi() -> Trace:
    """Drafts that wait for several iterations, for what is counted between windows."""
    initial = {"initial": (1, 1, 1, 1), "age": (0, 0, 0, 0), "tv": (0.9, 0.9, 0.9, 0.9)}
    steps = [
        step("0:1=resampled 1:2=drafted 2:3=drafted 3:4=drafted", draft=(9, 2, 9, 9), numbers=initial),
        step(
            "1:5=resampled 2:3=kept 3:6=changed 4:7=drafted",
            draft=(2, 3, 4, 9),
            numbers={"initial": (0, 0, 0, 1), "age": (1, 1, 1, 0), "tv": (0.5, 0.25, 0.75, 0.9)},
        ),
        step(
            "2:8=resampled 3:4=changed 4:7=kept",
            draft=(3, 6, 7),
            numbers={"initial": (0, 0, 0), "age": (2, 2, 1), "tv": (0.5, 0.25, 0.25)},
        ),
        step("3:4=accepted 4:7=accepted", draft=(4, 7), numbers={"age": (3, 2), "tv": (0.0, 0.125)}),
    ]
    return make("scd", Canvas(kind="image", shape=(1, 5)), steps)


def video() -> Trace:
    """A film of two frames, decoded frame by frame in a shuffled order, with pictures of the canvas."""
    steps = [
        step("0:1=prefilled 1:1=prefilled 2:2=prefilled 3:2=prefilled", mode="prefill", query_tokens=4),
        step("4:3=accepted 5:3=accepted 6:4=accepted 7:4=bonus", draft=(3, 3, 4, None), query_tokens=4),
    ]
    canvas = Canvas(kind="video", shape=(2, 2, 2), order=(3, 2, 1, 0, 7, 6, 5, 4), block=4)
    frames = (Frame(step=1, image=png(4, 4)), Frame(step=2, image=png(4, 4)))
    output = Output(tokens=(1, 1, 2, 2, 3, 3, 4, 4), video=(png(4, 4), png(4, 4)))
    return make("scd", canvas, steps, legend=Legend(frames=frames), output=output)


def cspd() -> Trace:
    """Continuous tokens: a small head drafts, a large one verifies by densities."""
    draft = step("0:=drafted 1:=drafted", role="draft", token=((0.5, -1.0), (0.25, 0.0)), query_tokens=2)
    verify = step(
        "0:=accepted 1:=resampled",
        mode="verify",
        token=((0.5, -1.0), (0.125, 0.75)),
        draft=((0.5, -1.0), (0.25, 0.0)),
        query_tokens=3,
        accept_prob=(1.0, 0.25),
        coin=(0.875, 0.5),
        numbers={
            "log_density_target": (1.5, -2.0),
            "log_density_draft": (1.25, -0.5),
            "log_ratio": (0.25, -1.5),
            "log_variance_ratio": (0.0, 0.0),
            "distance_squared": (0.125, 2.5),
            "tries": (None, 3),
            "capped": (None, 0),
        },
        signals={"accepted": 1},
        paths=(
            PathPair(
                draft=((1.414, 0.0), (0.424, 0.424), (-0.354, 1.061)),
                target=((1.414, 0.0), (0.566, 0.424), (0.0, 1.061)),
                distance_squared=(0.0, 0.02, 0.125),
            ),
            PathPair(
                draft=((-0.707, -0.707), (0.0, 0.0), (0.177, 0.177)),
                target=((-0.707, -0.707), (0.707, 0.707), (1.591, 0.884)),
                distance_squared=(0.0, 1.0, 2.5),
            ),
        ),
    )
    canvas = Canvas(kind="image", shape=(1, 2), order=(1, 0))
    return make("cspd", canvas, [draft, verify], legend=Legend(frames=(Frame(step=2, image=png(4, 2)),)))


def s2d2() -> Trace:
    """A block drafted at once and verified autoregressively, with the router's numbers and the mask."""
    draft = step(
        "0:4=drafted 1:5=drafted 2:6=drafted 3:7=drafted",
        role="self",
        mode="diffusion",
        query_tokens=4,
        numbers={"confidence": (0.9, 0.75, 0.5, 0.25), "estimate": (0.9, 0.8, 0.6, 0.4)},
        signals={"block": 0, "span": 4, "expected_accepted": 2.2, "score": 1.2, "verify": 1, "switch": 1},
    )
    verify = step(
        "0:4=accepted 1:8=resampled 2:6=discarded 3:7=discarded",
        role="self",
        mode="verify",
        query_tokens=8,
        draft=(4, 5, 6, 7),
        p=(0.75, 0.25, 0.5, 0.5),
        q=(0.5, 0.75, 0.5, 0.25),
        accept_prob=(1.0, 0.333333, None, None),
        coin=(0.25, 0.5, None, None),
        numbers={"ratio": (1.5, 0.333333, None, None), "residual_mass": (None, 0.5, None, None)},
        signals={"accepted": 1, "committed": 2},
        mask=Mask(queries=("x0", "x1"), keys=("cache", "x0", "x1", "m1"), runs=((0, 2, 2), (0, 1, 1, 2))),
    )
    final = step("2:6=unmasked 3:9=fallback", role="self", mode="diffusion", query_tokens=4, signals={"verify": 0})
    edit = step("3:7=edited", role="self", mode="edit", query_tokens=4)
    return make("s2d2", Canvas(kind="text", shape=(4,), block=4), [draft, verify, final, edit])


def psd() -> Trace:
    """Drafts of future steps as rows of one call: a root, a chain and a branch that lost."""
    spatial = step("0:3=unmasked", role="self", mode="diffusion", query_tokens=4, signals={"unmasked": 1})
    graph = (
        Node(row=0, parents=(), positions=(), accepted=True),
        Node(row=1, parents=(0,), positions=(1,), accepted=True, vouched_by=(0,)),
        Node(row=2, parents=(0, 1), positions=(1, 2), accepted=True, vouched_by=(1,)),
        Node(row=3, parents=(0, 1), positions=(1, 3), accepted=False),
    )
    speculative = step(
        "1:4=accepted 2:5=accepted 1:4=discarded 3:6=rejected",
        role="self",
        mode="verify",
        rows=4,
        query_tokens=16,
        row=(2, 2, 3, 3),
        draft=(4, 5, 4, 6),
        numbers={"rank": (0, 1, 0, 2), "level": (1, 2, 1, 2), "confidence": (0.9, 0.8, 0.9, 0.3)},
        signals={"winner": 2, "speculated": 2},
        graph=graph,
    )
    last = step("3:8=fallback", role="self", mode="diffusion", query_tokens=4)
    return make("psd", Canvas(kind="text", shape=(4,), block=4), [spatial, speculative, last])


def simsd() -> Trace:
    """A small model reveals tokens in its own order, a large one verifies them in that order; then the run is
    stopped."""
    steps = [
        step("2:5=drafted", role="draft", mode="diffusion", query_tokens=4, numbers={"order": (0,)}),
        step("0:6=drafted", role="draft", mode="diffusion", query_tokens=4, numbers={"order": (1,)}),
        step(
            "2:5=accepted 0:6=rejected",
            mode="verify",
            query_tokens=8,
            draft=(5, 6),
            p=(0.75, 0.125),
            q=(0.5, 0.5),
            accept_prob=(1.0, 0.25),
            coin=(0.5, 0.5),
            numbers={"order": (0, 1), "kl": (0.1, 0.5), "cross_entropy": (0.3, 2.1), "agrees": (1, 0)},
        ),
    ]
    return make("simsd", Canvas(kind="text", shape=(4,), block=4), steps, note="Stopped by hand.")


def coarse(counts: Sequence[Mapping[str, float]], length: int, **fields: Any) -> bytes:
    """Return a file whose passes have only numbers of accepted, drafted and final tokens."""
    head = {"schema": "draftscope-trace", "version": VERSION, "method": "elsewhere", "model": {"id": "owner/model"}}
    head |= {"prompt": "", "config": {}, "created": "2026-01-31T12:00:00+00:00", "output": {}}
    steps = [{"call": {"role": "target", "mode": "verify", "query_tokens": 5}, "signals": each} for each in counts]
    return json.dumps(head | {"canvas": {"kind": "text", "shape": [length]}, "steps": steps} | fields).encode()


ALL = {maker.__name__: maker for maker in (ar, scd, jacobi, video, cspd, s2d2, psd, simsd)}
"""Name -> maker of a valid trace."""


def several_rows() -> Trace:
    """Two drafts of the same positions verified in one call, and a repair of a final token."""
    steps = (
        step("0:5=accepted 1:6=rejected 0:7=discarded 1:8=kept", mode="verify", rows=2, row=(0, 0, 1, 1)),
        step("0:9=edited 1:8=unmasked", mode="edit"),
    )
    return make("elsewhere", Canvas(kind="image", shape=(1, 2)), steps)
