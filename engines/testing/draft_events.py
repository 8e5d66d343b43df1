"""Counts of what happens to drafts, so that a proof can state what it tested.

A decoder is observed from outside. Drafts of causal methods are read from their requests to the target, and their
outcome from the final text: a draft counts as accepted if the pass went beyond it and the text has it. Methods that
fill blocks have no such order, so their decisions are read, and a draft counts as accepted only if the text has it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from draftscope.engines.protocol import FATE_CODES, CausalRequest, Decision, Decoder
from draftscope.traces.schema import Fate

MADE, VERIFIED, ACCEPTED, REJECTED = "made", "verified", "accepted", "rejected"
ALL_ACCEPTED, BONUS, ENDED = "all of a pass accepted", "followed by a bonus", "accepted at the end of a text"
UNLIKELY, LIKELY = "verified where its probability is below 0.1", "verified where its probability is above 0.9"
BY_POSITION: Final = (MADE, VERIFIED, ACCEPTED, REJECTED)
OVERALL: Final = (ALL_ACCEPTED, BONUS, ENDED, UNLIKELY, LIKELY)
_VERDICTS: Final = {FATE_CODES[fate]: fate is Fate.ACCEPTED for fate in Fate if fate.judged}


class Event(NamedTuple):
    """Something that happens to drafts, and the draft position (from 1) at which it does; 0 for any position."""

    kind: str
    position: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at draft position {self.position}" if self.position else self.kind


class _Draft(NamedTuple):
    """A draft of a pass, and what is known of it before the text is complete."""

    position: int
    """In the text, from 0."""
    token: Tensor
    prob: float
    """Under the target; not a number where tokens are vectors."""
    accepted: bool | None = None
    """The verdict, None where there is none or where the final text has it."""


class _Pass(NamedTuple):
    drafts: tuple[_Draft, ...]
    num_final: int | None
    """Tokens that were final before it, None for a decision in a block."""


@dataclass(slots=True)
class DraftEvents:
    """Sum of events over texts; every text counts by its weight."""

    weight: defaultdict[Event, float] = field(default_factory=lambda: defaultdict(float))
    """Weight of the texts in which an event occurs, once per text."""
    count: Counter[Event] = field(default_factory=Counter)
    """Occurrences, all of them."""
    texts: int = 0

    def add(self, events: Iterable[Event], weight: float) -> None:
        """Add the events of one text of this weight."""
        found = Counter(events)
        self.count.update(found)
        for event in found:
            self.weight[event] += weight
        self.texts += 1

    def include(self, other: "DraftEvents") -> None:
        """Add the occurrences of other texts; the weight of an event is the larger one."""
        self.count.update(other.count)
        for event, weight in other.weight.items():
            self.weight[event] = max(self.weight[event], weight)
        self.texts += other.texts

    @property
    def reach(self) -> int:
        """The largest draft position at which a draft was made; 0 where none was."""
        return max((event.position for event in self.count if event.kind == MADE), default=0)


def observe(decode: Callable[[Any, Any, Any], Decoder], events: DraftEvents) -> Callable[[Any, Any, Any], Decoder]:
    """Return the same decoder, which also counts events.

    Args:
        decode: Function of a method that starts its decoder.
        events: Receives the events of each text, weighted by the `weight` of its random source, if that has one.
    """

    def observed(task: Any, config: Any, rng: Any) -> Decoder:
        inner, answer = decode(task, config, rng), None
        passes: list[_Pass] = []
        while True:
            try:
                item = inner.send(answer)
            except StopIteration as stop:
                final: Tensor = stop.value
                ends = frozenset(task.eos_token_ids)
                events.add(_events(passes, final, ends), getattr(rng, "weight", 1.0))
                return final
            answer = yield item
            # Requests of a causal method tell all; what its decisions leave to the record takes long to work out.
            if not (isinstance(item, Decision) and passes and passes[-1].num_final is not None):
                passes += _passes(item, answer)

    return observed


def _passes(item: Any, answer: Any) -> Iterator[_Pass]:
    """The verification that a request or a decision shows, if any."""
    if isinstance(item, CausalRequest):
        if item.role != "draft":
            drafts = item.tokens[item.num_final :]
            is_discrete = isinstance(answer, Tensor) and drafts.dim() == 1
            probs = answer[range(len(drafts)), drafts].tolist() if is_discrete else [torch.nan] * len(drafts)
            where = range(item.num_final, item.num_final + len(drafts))
            yield _Pass(tuple(map(_Draft, where, drafts, probs)), item.num_final)
    elif isinstance(item, Decision) and (found := item.resolve()).draft is not None and found.draft.dim() == 1:
        count = len(found.draft)
        probs = [torch.nan] * count if found.p is None else found.p.gather(1, found.draft[:, None]).squeeze(1).tolist()
        verdicts = [_VERDICTS.get(fate) for fate in found.fate[:count].tolist()]
        columns = found.position[:count].tolist(), found.draft, probs, verdicts
        yield _Pass(tuple(_Draft(*column) for column in zip(*columns, strict=True)), None)


def _events(passes: list[_Pass], final: Tensor, ends: frozenset[int]) -> Iterator[Event]:
    """The events of a text, given its passes."""
    causal = [each for each in passes if each.num_final is not None]
    used = causal or passes
    num_final = [each.num_final or 0 for each in causal[1:]] + [len(final)]
    for index, each in enumerate(used):
        gained = num_final[index] - (each.num_final or 0) if causal else 0
        yield from _of_pass(each, final, gained, ends)


def _of_pass(each: _Pass, final: Tensor, gained: int, ends: frozenset[int]) -> Iterator[Event]:
    """The events of one pass, after which `gained` more tokens are final if it is causal."""
    verdicts: list[bool] = []
    for index, draft in enumerate(each.drafts):
        yield Event(MADE, index + 1)
        is_there = draft.position < len(final) and bool(torch.equal(final[draft.position], draft.token))
        if each.num_final is None:
            verdict = None if draft.accepted and not is_there else draft.accepted
        else:
            open_ = all(verdicts) and index < gained
            verdict = is_there if open_ else None
        verdicts.append(verdict is True)
        if verdict is None:
            continue
        yield Event(VERIFIED, index + 1)
        yield Event(ACCEPTED if verdict else REJECTED, index + 1)
        if draft.prob < 0.1:
            yield Event(UNLIKELY)
        if draft.prob > 0.9:
            yield Event(LIKELY)
        if verdict and ends and int(draft.token) in ends:
            yield Event(ENDED)
    if verdicts and all(verdicts):
        yield Event(ALL_ACCEPTED)
        if gained > len(verdicts):
            yield Event(BONUS)


def report(events: DraftEvents, positions: int = 4) -> list[str]:
    """Return the occurrences in words, a line for each of the first draft positions and one for the rest.

    Args:
        events: Counted events.
        positions: Maximum number of draft positions with a line.
    """
    lines = [
        f"draft position {position}: "
        + ", ".join(f"{events.count[Event(kind, position)]:,} {kind}" for kind in BY_POSITION)
        for position in range(1, min(events.reach, positions) + 1)
    ]
    overall = [f"{kind}: {events.count[Event(kind)]:,}" for kind in OVERALL if events.count[Event(kind)]]
    return [*lines, ", ".join(overall)] if overall else lines


def required(events: DraftEvents, further: Iterable[str]) -> Iterator[Event]:
    """The events that a proof must have met, given where drafts were made.

    Args:
        events: What happened.
        further: Events without a draft position that can occur.
    """
    for position in range(1, events.reach + 1):
        for kind in BY_POSITION[1:]:
            yield Event(kind, position)
    yield from map(Event, further)
