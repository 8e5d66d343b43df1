"""The recorded pairs that the first screen plays: ordinary decoding and a run of the same prompt that guesses ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from demo.recordings import Recording
from engines.config import ConfigError, make_config
from engines.methods import METHODS
from traces.schema import Trace

KINDS: Final = ("video", "picture", "text", "continuous")
"""What is decoded, in the order in which it is offered."""
_EXACT: Final = (
    "A guess is kept with just the probability that makes the tokens follow the model's own distribution, and a "
    "rejected one is drawn again from what that leaves over. So nothing is lost by guessing: both runs are draws from "
    "one distribution. The coins fall differently, and so the outcome may differ. The page Methods has the formulas."
)
_SAME: Final = (
    "Both runs take the likeliest token at every place, and a guess is kept only where it is that token. So guessing "
    "changes how many passes it takes, and nothing else. The page Methods has the rule."
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording with its baseline."""

    kind: str
    """One of `KINDS`."""
    recording: Recording
    truth: str
    """What the second run has in common with the first, in a clause."""
    why: str


def pairs(among: Sequence[Recording]) -> tuple[Pair, ...]:
    """One pair for each kind that was recorded with its baseline, the one that shows best what guessing ahead does."""
    fit = [one for one in among if len(one.traces) > 1 and _shown(one.traces[-1])]
    found = {kind: [one for one in fit if kind_of(one.traces[-1]) == kind] for kind in KINDS}
    return tuple(_pair(kind, max(ones, key=_merit)) for kind, ones in found.items() if ones)


def kind_of(trace: Trace) -> str:
    """What a run decodes."""
    if trace.method in METHODS and METHODS[trace.method].family == "continuous-ar":
        return "continuous"
    return {"image": "picture"}.get(trace.canvas.kind, trace.canvas.kind)


def _shown(trace: Trace) -> bool:
    """Whether a run shows drafts that were put to the test."""
    return trace.method in METHODS and trace.summary.complete and trace.summary.judged > 0


def _merit(one: Recording) -> tuple[bool, bool, float]:
    """Runs that take fewer passes come first, among others those that are exact; then what a pass accepts counts."""
    usual, made = one.traces[0].summary, one.traces[-1].summary
    fewer = made.forwards < usual.forwards
    return fewer, fewer or not deviation_of(one.traces[-1]), made.accepted / made.forwards


def _pair(kind: str, one: Recording) -> Pair:
    usual, made = one.traces[0], one.traces[-1]
    if deviation := deviation_of(made):
        return Pair(kind, one, "Not the model's own distribution", deviation)
    if usual.output.tokens == made.output.tokens:
        return Pair(kind, one, "The same tokens", _SAME)
    return Pair(kind, one, "Same distribution, another draw", _EXACT)


def deviation_of(trace: Trace) -> str:
    """How the distribution of a run differs from ordinary decoding's; empty where it does not."""
    method, values = METHODS[trace.method], dict[str, Any](trace.config)
    try:
        return method.deviation(make_config(method.config, values))
    except ConfigError:
        return "This run was recorded under settings that are no longer there."
