"""A made-up run of parallel speculative decoding whose every number is known: the right answer is drafted in order."""

from dataclasses import dataclass
from typing import Any

from support.handmade import make

from traces.schema import Call, Canvas, Fate, Legend, Milliseconds, ModelCard, Node, Output, Step, Trace
from traces.stats import summarise

WORDS = ("<mask>", *(f" w{i}" for i in range(1, 30)))


@dataclass(frozen=True)
class Plan:
    """How every block goes: what the policy reveals in a pass, and how many drafts hold, by pass."""

    block: int = 8
    blocks: int = 3
    revealed: int = 1
    held: tuple[int, ...] = (0, 2, 1, 2)
    depth: int = 3


def speculated(plan: Plan = Plan(), **fields: Any) -> Trace:
    """Positions become final from left to right; the ranking is that order, too, and every token comes true."""
    steps: list[Step] = []
    for number in range(plan.blocks):
        left = list(range(number * plan.block, (number + 1) * plan.block))
        turn = 0
        while left:
            held = plan.held[turn % len(plan.held)] if turn else 0
            steps.append(_pass(plan, number, left, held, drafted=turn > 0))
            left = left[min(len(left), held) + plan.revealed :]
            turn += 1
    length = plan.block * plan.blocks
    tokens = tuple(_token(i) for i in range(length))
    head = {
        "model": ModelCard(id="synthetic-blocks", title="Synthetic block model"),
        "config": {"block": plan.block, "depth": plan.depth},
        "legend": Legend(vocabulary=dict(enumerate(WORDS))),
        "output": Output(tokens=tokens, text="".join(WORDS[t] for t in tokens)),
        "summary": summarise(steps, length, complete=True),
    }
    return make("psd", Canvas(kind="text", shape=(length,), block=plan.block), steps, **head | fields)


def _token(position: int) -> int:
    return 1 + position % (len(WORDS) - 1)


def _pass(plan: Plan, number: int, left: list[int], held: int, drafted: bool) -> Step:
    depth = min(plan.depth, len(left)) if drafted else 0
    held = min(held, depth)
    fates = [Fate.ACCEPTED] * held + [Fate.REJECTED] * (depth > held) + [Fate.DISCARDED] * (depth - held - 1)
    rest = left[held:]
    kinds = [Fate.UNMASKED] * min(plan.revealed, len(rest))
    kinds += [Fate.DRAFTED] * (len(rest) - len(kinds))
    open_after = len(rest) - kinds.count(Fate.UNMASKED)
    ranks = [None] * kinds.count(Fate.UNMASKED) + [float(i + 1) for i in range(open_after)]
    judged = left[:depth]
    graph = tuple(
        Node(
            row=k,
            parents=tuple(range(k)),
            positions=tuple(judged[:k]),
            accepted=k <= held,
            vouched_by=(k - 1,) if 0 < k <= held else (),
        )
        for k in range(depth + 1)
    )
    rows = tuple(held if fate is Fate.ACCEPTED else k + 1 for k, fate in enumerate(fates)) + (held,) * len(rest)
    return Step(
        call=Call(
            role="self",
            mode="verify" if drafted else "draft",
            rows=depth + 1,
            query_tokens=(depth + 1) * plan.block,
            milliseconds=Milliseconds(forward=2.0),
        ),
        position=(*judged, *rest),
        token=tuple(map(_token, (*judged, *rest))),
        fate=(*fates, *kinds),
        row=rows if drafted else None,
        draft=(*map(_token, judged), *[None] * len(rest)) if drafted else None,
        p=(*[0.8] * depth, *[None] * len(rest)) if drafted else None,
        q=(*[0.6] * depth, *[None] * len(rest)) if drafted else None,
        numbers={
            "confidence": tuple(0.95 - 0.01 * place for place in (*judged, *rest)),
            "rank": (*[float(i + 1) for i in range(depth)], *ranks),
            "level": (*[float(i + 1) for i in range(depth)], *[0.0] * len(rest)),
        },
        signals={
            "block": number,
            "open": len(left),
            "winner": held,
            "speculated": held,
            "unmasked": kinds.count(Fate.UNMASKED),
        },
        graph=graph if drafted else None,
    )
