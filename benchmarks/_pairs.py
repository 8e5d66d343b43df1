"""Runs in pairs, an ordinary one beside another, so that whatever else the machine does falls on both; lockstep."""

import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from benchmarks._results import Claim, Row, spread
from benchmarks._runs import Decoded, decode
from engines.runtime.driver import Job

Key = TypeVar("Key", bound=Hashable)
Pair = tuple[Decoded, Decoded]
"""An ordinary run and another, of the same prompt."""


def paired(ordinary: Job, others: Mapping[Key, Job], turn: int) -> dict[Key, Pair]:
    """Decode each of the others beside an ordinary run; `turn` says which goes first."""
    pairs = {}
    for key, other in others.items():
        if turn % 2:
            usual, own = decode([ordinary]), decode([other])
        else:
            own, usual = decode([other]), decode([ordinary])
        pairs[key] = (usual, own)
    return pairs


def gathered(rounds: Sequence[Mapping[Key, Pair]]) -> dict[Key, list[Pair]]:
    """The pairs of all prompts, by what they compare."""
    return {key: [pairs[key] for pairs in rounds] for key in rounds[0]}


def speed(pairs: Sequence[Pair]) -> Row:
    """Passes and seconds of the others, and how many times faster than ordinary decoding they are."""
    forwards = statistics.fmean(own.forwards for _, own in pairs)
    faster = spread([usual.seconds / own.seconds for usual, own in pairs])
    return {
        "nfe": forwards,
        "fewer_passes": statistics.fmean(usual.forwards for usual, _ in pairs) / forwards,
        "seconds_median": spread([own.seconds for _, own in pairs]).median,
        "faster_median": faster.median,
        "faster_low_quartile": faster.low,
        "faster_high_quartile": faster.high,
    }


def throughput(jobs: Sequence[Job], repeats: int, label: str, noun: str) -> Claim:
    """How many more `noun` a second lockstep gives than one at a time, and whether they are the same.

    Its `numbers` are those of the last repetition.
    """
    ratios, numbers, same = [], dict[str, float](), 0
    for _ in range(repeats):
        batch, singles = decode(jobs), [decode([one]) for one in jobs]
        alone = sum(run.seconds for run in singles)
        ratios.append(alone / batch.seconds)
        numbers = {"batch": len(jobs), "per_second": len(jobs) / batch.seconds, "per_second_alone": len(jobs) / alone}
        same = sum(run.tokens[0] == tokens for run, tokens in zip(singles, batch.tokens, strict=True))
    ratio = spread(ratios)
    rates = f"{numbers['per_second']:.2f} against {numbers['per_second_alone']:.2f} {noun} a second"
    return Claim(
        name=f"{label}: throughput of {len(jobs)} in lockstep over one at a time",
        measured=ratio.median,
        unit="×",
        reason=f"{rates}, {same} of {len(jobs)} with the same tokens; {ratio}",
        numbers={"decoder": label, **numbers},
    )
