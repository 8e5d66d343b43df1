"""Shared by benchmarks that decode: prompts, jobs, a stopwatch around the driver, and paired runs."""

import itertools
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from benchmarks._report_format import Row, spread
from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled.prompts import PROMPTS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.models.sessions.block import Network
from draftscope.engines.protocol import ForwardResult, Model, Session, StageCallback
from draftscope.engines.runtime import driver
from draftscope.engines.runtime.driver import Job, open_session
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.traces.labels import COUPLINGS
from draftscope.traces.schema import Step

SAME = "same"
NAMES = {"ar": "vanilla", **COUPLINGS, SAME: "SJD, same noise", "gsd": "GSD"}
"""Decoders by the names the papers use: a method, a coupling of SCD, or SCD with the noise of ordinary decoding."""

Key = TypeVar("Key", bound=Hashable)


def prompts(model_id: str, count: int) -> list[str]:
    """`count` prompts: of all that a model was trained on, in an order that never changes."""
    if not MODELS[model_id].default_prompt:
        return [""] * count
    prompts = [str(prompt) for prompt in PROMPTS]
    random.Random(0).shuffle(prompts)
    return list(itertools.islice(itertools.cycle(prompts), count))


def job(decoder: str, model: Model, prompt: str, sample: int, **settings: object) -> Job:
    """A job for a decoder of `NAMES`; settings that the method does not have are an error."""
    if decoder == SAME:
        settings["same_noise"] = True
    decoder_settings = settings if decoder in (*METHODS, SAME) else {"coupling": decoder, **settings}
    name = decoder if decoder in METHODS else "scd"
    return RunRequest(name, model, prompt, settings=decoder_settings, sample=sample).job()


def jobs(decoder: str, model: Model, prompts: Sequence[str], **settings: object) -> list[Job]:
    """A job for every prompt, each with random draws of its own."""
    return [job(decoder, model, prompt, sample, **settings) for sample, prompt in enumerate(prompts)]


def processor_seconds() -> float:
    """Seconds: the processor's where one thread does all, which other work on the machine does not lengthen.

    With a GPU or several threads it is the wall clock's.
    """
    alone = torch.get_num_threads() == 1 and not torch.cuda.is_available()
    return time.process_time() if alone else time.perf_counter()


class Stopwatch:
    """A session that adds up the time spent in forward passes, and counts those in which only a drafter works."""

    def __init__(self, session: Session) -> None:
        self.session, self.spent = session, defaultdict[str, float](float)
        self.forwards, self.drafts, self.passes = 0, 0, Counter[int]()
        self._watch(session)

    def forward(self, requests: Mapping[int, Any], sampling: Any, lap: StageCallback) -> Mapping[int, ForwardResult]:
        """Run one forward pass for the requesting sequences."""
        self.forwards += 1
        self.passes.update(requests.keys())
        self.drafts += all(request.role == "draft" for request in requests.values())
        return self.session.forward(requests, sampling, lap)

    def _watch(self, session: Any) -> None:
        """Time passes, the networks in them, and heads that denoise; also of the sessions in a session."""
        inside = [getattr(session, name) for name in ("_blocks", "_backbone") if hasattr(session, name)]
        for inner in (*inside, *getattr(session, "_sessions", {}).values()):
            self._watch(inner)
        for name in ("logits", "network", "paths"):
            if isinstance(part := getattr(session, name, None), Network):
                hidden, head = self._timed(part.hidden, name), self._timed(part.head, name)
                setattr(session, name, replace(part, hidden=hidden, head=head))
            elif callable(part):
                setattr(session, name, self._timed(part, name))

    def _timed(self, do: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            begun = processor_seconds()
            result = do(*arguments, **named)
            self.spent[name] += processor_seconds() - begun
            return result

        return timed


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoding, timed by `now` from opening the session to the last token."""

    tokens: tuple[tuple[Any, ...], ...]
    passes: tuple[int, ...]
    """Those in which each sequence took part."""
    forwards: int
    """Passes in which at least one sequence took part."""
    draft_forwards: int
    """Those of them that were of a drafter alone."""
    seconds: float
    forward_seconds: float
    bare_seconds: float
    """Those of the networks alone, and of heads that denoise."""
    steps: tuple[tuple[Step, ...], ...]


def decode(jobs: Sequence[Job], *, record: bool = False) -> Decoded:
    """Decode jobs in lockstep and time it."""
    start, watch = processor_seconds(), Stopwatch(open_session(jobs))
    sequences = driver.decode(jobs, watch, record=record)
    tokens = tuple(tuple(sequence.result[0].tolist()) for sequence in sequences)
    seconds, steps = processor_seconds() - start, tuple(tuple(sequence.steps) for sequence in sequences)
    spent, bare = watch.spent, watch.spent["network"] + watch.spent["paths"]
    each = tuple(watch.passes[i] for i in range(len(sequences)))
    return Decoded(tokens, each, watch.forwards, watch.drafts, seconds, spent["logits"], bare, steps)


Pair = tuple[Decoded, Decoded]
"""An ordinary run and another, of the same prompt."""


def paired(rounds: Iterable[tuple[Job, Mapping[Key, Job]]]) -> dict[Key, list[Pair]]:
    """Decode an ordinary job right before or after each other job, so that other load on the machine affects both.

    Which of a pair goes first changes from round to round.
    """
    pairs: dict[Key, list[Pair]] = defaultdict(list)
    for turn, (ordinary, others) in enumerate(rounds):
        for key, other in others.items():
            if turn % 2:
                baseline, accelerated = decode([ordinary]), decode([other])
            else:
                accelerated, baseline = decode([other]), decode([ordinary])
            pairs[key].append((baseline, accelerated))
    return pairs


def speed(pairs: Sequence[Pair]) -> Row:
    """Passes and seconds of the others, and how many times faster than ordinary decoding they are."""
    forwards = statistics.fmean(run.forwards for _, run in pairs)
    return {
        "nfe": forwards,
        "fewer_passes": statistics.fmean(baseline.forwards for baseline, _ in pairs) / forwards,
        "seconds_median": statistics.median(run.seconds for _, run in pairs),
        **spread([baseline.seconds / run.seconds for baseline, run in pairs]).row("faster"),
    }


def in_lockstep(jobs: Sequence[Job], repeats: int, label: str) -> Row:
    """Return the share of bare passes in the time of batched decoding, and its speed-up over single runs."""
    singles, batches = [decode([one]) for one in jobs], [decode(jobs) for _ in range(repeats)]
    alone, batch = sum(run.seconds for run in singles), batches[-1]
    return {
        "decoder": label,
        "batch": len(jobs),
        "same_tokens": sum(run.tokens[0] == tokens for run, tokens in zip(singles, batch.tokens, strict=True)),
        "per_second_alone": len(jobs) / alone,
        **spread([len(jobs) / run.seconds for run in batches]).row("per_second"),
        **spread([alone / run.seconds for run in batches]).row("gain"),
        **spread([run.bare_seconds / run.seconds for run in batches]).row("bare"),
    }
