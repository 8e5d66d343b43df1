"""Runs decoders on a model: one sequence, or many in lockstep, live.

The driver merges what the decoders ask for into one forward pass per round, post-processes the logits, reads one
tensor back to the host, times the stages and records the steps. Sequences advance by their own gains; no lane waits
for another's rejections.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from engines.config import as_values
from engines.continuous.denoising import ContinuousSampling
from engines.methods.method import Method
from engines.models.base import DiscreteAR, Session
from engines.models.catalog import load_model, small_of
from engines.models.denoising_session import Denoising, DenoisingPair
from engines.models.pair import PairSession, check_pair
from engines.protocol import Answer, Decision, Decoder, PathForward, Request, Task
from engines.runtime.environment import environment
from engines.runtime.recorder import derive, pack, unpack
from engines.sampling.chance import SeededChance
from engines.sampling.distributions import Sampling, guidance_of, to_probs
from traces.schema import Call, Milliseconds, Step, Trace
from traces.stats import summarise


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: a method on a model for one prompt and seed."""

    method: Method
    model: DiscreteAR
    prompt: str
    config: Sampling | ContinuousSampling
    seed: int = 0
    sample: int = 0
    """Distinguishes sequences that share a seed."""
    small: DiscreteAR | None = None
    """Drafts in place of the catalogue's small model, for methods that have another model draft."""

    @property
    def draft(self) -> DiscreteAR | None:
        """The model that drafts, for methods that let the user choose.

        Raises:
            ModelError: when it cannot be had.
        """
        drafter = getattr(self.config, "drafter", None)
        if drafter is None or drafter == "itself":
            return self.model if drafter else None
        return self.small or load_model(small_of(self.model.card.id), str(self.model.device))

    @property
    def task(self) -> Task:
        """What the model is to decode.

        Raises:
            ValueError: for a prompt or setting that the model refuses.
        """
        return self.model.pose(self.prompt, self.config)

    def decoder(self) -> Decoder:
        """A fresh decoder of the job."""
        return self.method.decode(self.task, self.config, SeededChance(self.seed, self.sample))


@dataclass(frozen=True, slots=True)
class Lane:
    """One sequence under way."""

    decoder: Decoder
    steps: list[Step] = field(default_factory=list)
    result: list[Tensor] = field(default_factory=list)
    """Holds the tokens once the decoder is done."""


def open_session(jobs: Sequence[Job]) -> Session | Denoising:
    """A session of the model for jobs that share it and a config.

    Raises:
        ModelError: when a model that is to draft cannot be had.
        ValueError: for a prompt or setting that the model refuses, or two models that speak of different tokens.
    """
    first = jobs[0]
    tasks, guided, draft = [job.task for job in jobs], guidance_of(first.config) != 1.0, first.draft
    session = first.model.start(tasks, guided)
    if draft is None:
        return session
    check_pair(first.model, draft)
    drafting = draft.start(tasks, guided)
    if isinstance(session, Denoising) and isinstance(drafting, Denoising):
        return DenoisingPair({"target": session, "draft": drafting})
    return PairSession({"target": session, "draft": drafting})


def drive(
    lanes: Sequence[Lane],
    session: Session | Denoising,
    sampling: Sampling | ContinuousSampling,
    *,
    record: bool = True,
) -> Iterator[list[int]]:
    """Advance all lanes together, one forward pass per iteration, until each is done.

    Yields:
        The lanes that took part in the pass. With `record`, their step has been appended.
    """
    answers: dict[int, Any] = dict.fromkeys(range(len(lanes)))
    while answers:
        clock = [time.perf_counter()]
        requests = _ask(lanes, answers)
        if not requests:
            return
        clock.append(time.perf_counter())
        all_probs = _evaluate(session, requests, sampling, clock)
        decisions: dict[int, Decision] = {}
        for lane, probs in all_probs.items():
            decision = lanes[lane].decoder.send(probs)
            assert isinstance(decision, Decision)
            decisions[lane] = decision
        decided = time.perf_counter()
        packed = {lane: pack(d, derive(d)) for lane, d in decisions.items()} if record else {}
        measured = time.perf_counter()
        host = _read_back([d.readback for d in decisions.values()], [part for p in packed.values() for part in p.parts])
        # What deriving the trace's own numbers took is nobody's cost but the trace's.
        clock.append(time.perf_counter() - (measured - decided))
        answers = {}
        for i, lane in enumerate(decisions):
            answers[lane] = tuple(int(value) for value in host[i])
        if record:
            stages = [1000 * (b - a) for a, b in pairwise(clock)]
            for i, lane in enumerate(decisions):
                call = _call(requests[lane], session, len(requests), stages)
                count = len(packed[lane].parts)
                parts = host[len(decisions) + count * i : len(decisions) + count * (i + 1)]
                lanes[lane].steps.append(unpack(packed[lane], parts, call, requests[lane].drawn()))
        yield list(decisions)


def _ask(lanes: Sequence[Lane], answers: Mapping[int, Any]) -> dict[int, Request]:
    """Resume the decoders and collect the forward passes they want; those that end leave their tokens."""
    requests = {}
    for lane, answer in answers.items():
        try:
            request = lanes[lane].decoder.send(answer)
        except StopIteration as stop:
            lanes[lane].result.append(stop.value)
            continue
        assert isinstance(request, Request)
        requests[lane] = request
    return requests


def _evaluate(
    session: Session | Denoising, requests: Mapping[int, Any], sampling: Any, clock: list[float]
) -> dict[int, Answer]:
    """The network, then what makes distributions of its output: post-processing, or a diffusion head."""
    if isinstance(session, Denoising):
        conditions = session.conditions(requests)
        _settle(next(iter(conditions.values())))
        clock.append(time.perf_counter())
        paths = session.paths(requests, conditions, sampling)
        _settle(next(iter(paths.values())).last.mean)
        clock.append(time.perf_counter())
        return {lane: paths[lane] for lane in requests}
    logits = session.logits(requests)
    _settle(logits)
    clock.append(time.perf_counter())
    all_probs = to_probs(logits, sampling)
    _settle(all_probs)
    clock.append(time.perf_counter())
    return {lane: request.cut(all_probs[row]) for row, (lane, request) in enumerate(requests.items())}


def _settle(tensor: Tensor) -> None:
    """Wait for the device, so that stages are timed apart. A wait reads nothing back."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def _read_back(numbers: Sequence[Tensor], tables: Sequence[Tensor]) -> list[Any]:
    """Bring all tensors to the host in one copy and return them as nested lists."""
    parts = [*numbers, *tables]
    flat = torch.cat([part.reshape(-1).to(torch.float64) for part in parts]).cpu()
    host, at = [], 0
    for part in parts:
        host.append(flat[at : at + part.numel()].reshape(part.shape).tolist())
        at += part.numel()
    return host


def _call(request: Request, session: Session | Denoising, batch: int, stages: Sequence[float]) -> Call:
    if isinstance(session, Denoising) and isinstance(request, PathForward):
        rows, fed = session.cost(request)
    else:
        rows, fed = request.cost(session.rows, session.prefix)
    prepare, forward, logits, decide = (round(stage, 4) for stage in stages)
    return Call(
        role=request.role,
        mode=request.mode,
        rows=rows,
        query_tokens=fed,
        batch=batch,
        milliseconds=Milliseconds(prepare=prepare, forward=forward, logits=logits, decide=decide),
    )


class Run:
    """One sequence, live: iterate to advance by one forward pass; `trace()` says what happened so far."""

    def __init__(self, job: Job) -> None:
        """Open a session for the job.

        Raises:
            ValueError: for a prompt or setting that the model refuses.
        """
        self.job = job
        self._lane = Lane(job.decoder())
        self._session = open_session([job])

    def __iter__(self) -> Iterator[Step]:
        for _ in drive([self._lane], self._session, self.job.config):
            yield self._lane.steps[-1]

    def trace(self) -> Trace:
        """The trace of the steps taken, marked incomplete before the decoder is done."""
        return make_trace(self.job, self._lane)


def run_batch(jobs: Sequence[Job]) -> list[Trace]:
    """Decode jobs of one model and one config in lockstep."""
    first = jobs[0]
    if any(job.model is not first.model or job.config != first.config for job in jobs):
        raise ValueError("jobs: a batch shares one model and one config; run the others on their own.")
    lanes = [Lane(job.decoder()) for job in jobs]
    session = open_session(jobs)
    for _ in drive(lanes, session, first.config):
        pass
    return [make_trace(job, lane) for job, lane in zip(jobs, lanes, strict=True)]


def sample_tokens(jobs: Sequence[Job]) -> list[list[Any]]:
    """The tokens of jobs decoded in lockstep, nothing recorded."""
    lanes = [Lane(job.decoder()) for job in jobs]
    session = open_session(jobs)
    for _ in drive(lanes, session, jobs[0].config, record=False):
        pass
    return [lane.result[0].tolist() for lane in lanes]


def mentioned(steps: Iterable[Step]) -> set[int]:
    """The ids that steps speak of: tokens, drafts, and what was likely."""
    spoken = {token for step in steps for best in step.top or () for token, _ in best}
    return spoken.union(
        token for step in steps for token in (*step.token, *(step.draft or ())) if isinstance(token, int)
    )


def make_trace(job: Job, lane: Lane) -> Trace:
    """The trace of the steps a job has taken; it is complete once the decoder is done."""
    model, task, steps = job.model, job.task, lane.steps
    length = task.length
    canvases: dict[int, tuple[Any, ...]] = {}
    held: list[Any] = [None] * length
    final = [False] * length
    for k, step in enumerate(steps):
        for position, token, fate in zip(step.position, step.token, step.fate, strict=True):
            held[position], final[position] = token, fate.final
        canvases[k + 1] = tuple(held)
    tokens = [token if done else None for token, done in zip(held, final, strict=True)]
    legend = model.legend(canvases, mentioned(steps))
    return Trace(
        method=job.method.name,
        variant=job.method.variant(job.config),
        model=model.card,
        draft_model=job.draft.card if job.draft else None,
        prompt=job.prompt,
        config=as_values(job.config),
        seed=job.seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment(model.device, model.dtype),
        canvas=task.canvas,
        legend=legend,
        steps=tuple(steps),
        output=model.output(tokens),
        summary=summarise(steps, length, bool(lane.result), legend.ends),
        note=job.method.deviation(job.config),
    )
