"""Measurements that mean the same for every family of models: what the engine adds, what recording adds, lockstep."""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks._results import Claim, spread
from benchmarks._runs import decode
from engines.runtime.driver import Job
from traces.stats import cost, latency_breakdown

MOST_OVERHEAD_PERCENT: Final = 15.0
MOST_TRACING_PERCENT: Final = 5.0


def overhead(jobs: Sequence[Job], label: str) -> list[Claim]:
    """The share of a step outside the network, by the recorded stages and from outside."""
    recorded, walls, stages = [], [], []
    for asked in jobs:
        steps = decode([asked], record=True).steps[0]
        total = cost(steps).milliseconds
        recorded.append(100 * (1 - total.forward / total.total))
        stages.append({stage.name: stage.mean_milliseconds for stage in latency_breakdown(steps)})
        plain = decode([asked])
        walls.append(100 * (1 - plain.forward_seconds / plain.seconds))
    parts = {name: statistics.median(run[name] for run in stages) for name in stages[0]}
    written = ", ".join(f"{name} {milliseconds:.2f}" for name, milliseconds in parts.items())
    by_stages, by_wall = spread(recorded), spread(walls)
    return [
        Claim(
            name=f"Share of a step outside the forward pass, {label}, {how}",
            measured=found.median,
            unit="%",
            bound="at most",
            target=MOST_OVERHEAD_PERCENT,
            reason=f"{reason}; {found}",
        )
        for how, found, reason in (
            ("by recorded stages", by_stages, f"milliseconds a step: {written}"),
            ("from outside", by_wall, "opening the session and resuming the decoder included"),
        )
    ]


def tracing(jobs: Sequence[Job], label: str, mostly: str = "") -> Claim:
    """Time with recording over without it. The tokens have to be the same; `mostly` says what it goes to."""
    slower, added = [], []
    for i, asked in enumerate(jobs):
        runs = {record: decode([asked], record=record) for record in ((True, False) if i % 2 else (False, True))}
        if runs[True].tokens != runs[False].tokens:
            raise RuntimeError(f"recording changed the tokens of sample {asked.sample}; this is a defect of the driver")
        slower.append(100 * (runs[True].seconds / runs[False].seconds - 1))
        added.append(1000 * (runs[True].seconds - runs[False].seconds) / runs[False].forwards)
    found = spread(slower)
    return Claim(
        name=f"Time that recording a trace adds, {label}",
        measured=found.median,
        unit="%",
        bound="at most",
        target=MOST_TRACING_PERCENT,
        reason=f"{spread(added).median:.2f} ms a step{mostly and f', most of it {mostly}'}, beside a pass that is "
        f"short here; same tokens every time; {found}",
    )


def throughput(jobs: Sequence[Job], repeats: int, label: str, noun: str) -> Claim:
    """How many more `noun` a second lockstep gives than one at a time, and whether they are the same.

    `benchmarks.lean` has what part of the gain of bare passes that is.
    """
    ratios, together, alone, same = [], 0.0, 0.0, 0
    for _ in range(repeats):
        batch, singles = decode(jobs), [decode([one]) for one in jobs]
        together, alone = batch.seconds, sum(run.seconds for run in singles)
        ratios.append(alone / together)
        same = sum(run.tokens[0] == tokens for run, tokens in zip(singles, batch.tokens, strict=True))
    found = spread(ratios)
    return Claim(
        name=f"{label}: throughput of {len(jobs)} in lockstep over one at a time",
        measured=found.median,
        unit="×",
        reason=f"{len(jobs) / together:.2f} against {len(jobs) / alone:.2f} {noun} a second, {same} of {len(jobs)} "
        f"with the same tokens; {found}",
    )
