"""A made-up run of parallel speculative decoding whose every number is known: the right answer is drafted in order."""

from dataclasses import dataclass, replace
from typing import Any

from draftscope.traces.schema import Canvas, Legend, ModelCard, Node, Output, Step, Trace
from draftscope.traces.stats import summarise
from support.handmade import make, step

WORDS = ("<mask>", *(f" w{i}" for i in range(1, 30)))


@dataclass(frozen=True)
class Plan:
    """How every block goes: what the policy reveals in a pass, and how many drafts hold, by pass."""

    block: int = 8
    blocks: int = 3
    revealed: int = 1
    num_final: tuple[int, ...] = (0, 2, 1, 2)
    depth: int = 3


def speculated(plan: Plan = Plan(), **fields: Any) -> Trace:
    """Positions become final from left to right; the ranking is that order, too, and every token comes true."""
    steps: list[Step] = []
    for number in range(plan.blocks):
        left = list(range(number * plan.block, (number + 1) * plan.block))
        turn = 0
        while left:
            num_final = plan.num_final[turn % len(plan.num_final)] if turn else 0
            steps.append(_pass(plan, number, left, num_final, drafted=turn > 0))
            left = left[min(len(left), num_final) + plan.revealed :]
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


def _pass(plan: Plan, number: int, left: list[int], num_final: int, drafted: bool) -> Step:
    depth = min(plan.depth, len(left)) if drafted else 0
    num_final = min(num_final, depth)
    unfinished, shown = left[num_final:], min(plan.revealed, len(left) - num_final)
    judged, entries = left[:depth], [*left[:depth], *unfinished]
    fates = ["accepted"] * num_final + ["rejected"] * (depth > num_final) + ["discarded"] * (depth - num_final - 1)
    fates += ["unmasked"] * shown + ["drafted"] * (len(unfinished) - shown)
    depths = [float(i + 1) for i in range(depth)]
    target_pass = step(
        " ".join(f"{position}:{_token(position)}={fate}" for position, fate in zip(entries, fates, strict=True)),
        role="self",
        mode="verify" if drafted else "draft",
        rows=depth + 1,
        query_tokens=(depth + 1) * plan.block,
        numbers={
            "confidence": tuple(0.95 - 0.01 * position for position in entries),
            "rank": (*depths, *[None] * shown, *[float(i + 1) for i in range(len(unfinished) - shown)]),
            "level": (*depths, *[0.0] * len(unfinished)),
        },
        signals={"block": number, "open": len(left), "winner": num_final, "speculated": num_final, "unmasked": shown},
    )
    if not drafted:
        return target_pass
    under = [(k - 1,) if 0 < k <= num_final else () for k in range(depth + 1)]
    graph = tuple(
        Node(row=k, parents=(*range(k),), positions=(*judged[:k],), accepted=k <= num_final, vouched_by=under[k])
        for k in range(depth + 1)
    )
    untested = [None] * len(unfinished)
    return replace(
        target_pass,
        row=(*[num_final if k < num_final else k + 1 for k in range(depth)], *[num_final] * len(unfinished)),
        draft=(*map(_token, judged), *untested),
        p=(*[0.8] * depth, *untested),
        q=(*[0.6] * depth, *untested),
        graph=graph,
    )
