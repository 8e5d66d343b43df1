"""Made-up results of sweeps: one row a run and problem."""

import random
from collections.abc import Mapping
from typing import Any


def row(method: str, label: str, config: Mapping[str, object], problem: int = 0, **fields: Any) -> dict[str, Any]:
    """A valid row."""
    return {
        "method": method,
        "label": label,
        "config": dict(config),
        "problem": problem,
        "correct": True,
        "forwards": 40,
        "forwards_by_mode": {"prefill": 1, "draft": 35, "commit": 4},
        "row_forwards": 40,
        "query_tokens": 400,
        "tokens": 80,
        "seconds": 2.0,
    } | fields


def sweep(problems: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Three methods on the same problems, in settings that trade accuracy for speed."""
    chance = random.Random(seed)
    settings = [("ar", "AR", {"block": 1}, 0.78, 80)]
    for block in (4, 8, 16, 32):
        settings.append(
            ("dynamic", f"B {block}", {"block": block, "threshold": 0.9}, 0.78 - 0.004 * block, 320 // block + 22)
        )
        for cost in (0.0, 1.0):
            label = f"B {block}, c {cost:g}"
            config = {"block": block, "verification_cost": cost, "router": "score"}
            settings.append(("s2d2", label, config, 0.79 - 0.0015 * block, int(240 // block + 16 + 4 * cost)))
    rows = []
    for method, label, config, skill, forwards in settings:
        for problem in range(problems):
            spent = forwards + chance.randrange(-3, 4)
            modes, correct = {"prefill": 1, "draft": spent - 5, "commit": 4}, chance.random() < skill
            costs = {"forwards": spent, "forwards_by_mode": modes, "query_tokens": spent * 8, "seconds": 0.01 * spent}
            rows.append(row(method, label, config, problem, correct=correct, **costs))
    return rows
