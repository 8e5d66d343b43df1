"""Runs decoders on a model: one sequence, or many in lockstep, live.

The driver merges what the decoders ask for into one forward pass per round, reads one tensor back to the host, times
the stages and records the steps. Sequences advance by their own gains; no sequence waits for another's rejections.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NoReturn, cast

import torch
from torch import Tensor
from tqdm import tqdm

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.methods.method import Method
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.models.catalog import MODELS, drafter_of, eagle_of, load_model, models_for
from draftscope.engines.models.vocabularies import check_vocabularies
from draftscope.engines.protocol import (
    Decision,
    Decoder,
    ForwardRequest,
    Model,
    OpensDrafterSession,
    ReadsTarget,
    Renderer,
    Role,
    Session,
    Task,
)
from draftscope.engines.runtime.environment import environment
from draftscope.engines.runtime.model_pair import (
    InPlaceSession,
    PairSession,
    check_heads,
    check_prompt_compatibility,
    differs_in_shift,
)
from draftscope.engines.runtime.recorder import LIKELY, MAX_TOP_K, PendingStep, StepRecorder
from draftscope.engines.runtime.stage_timer import Cuda, Host, StageTimer
from draftscope.engines.sampling.random_source import SeededRandom, UniformOverride, parse_seed
from draftscope.engines.settings import ConfigError, config_values
from draftscope.traces.replay import CanvasReplay
from draftscope.traces.schema import Call, Step, Trace
from draftscope.traces.stats import summarise

OTHER_DRAFTERS: Final = ("small", "mixture")
"""Settings of `drafter` by which another model drafts."""


@dataclass(frozen=True, slots=True)
class Job:
    """Run specification: a method on a model for one prompt and seed."""

    method: Method
    model: Model
    prompt: str
    config: Any
    """Settings of the method: an instance of its Config."""
    seed: int = 0
    sample: int = 0
    """Distinguishes sequences that share a seed."""
    drafter: Model | None = None
    """Drafts in place of the catalogue's small model, for methods that have another model draft."""
    record_top_k: int | None = None
    """Tokens to record of the distributions of each verdict; by default `LIKELY` for models of the catalogue."""
    uniform_overrides: Sequence[UniformOverride] = ()
    """Uniform draws that differ from the seed's, in the order in which they were changed."""

    def __post_init__(self) -> None:
        parse_seed(self.seed)
        if self.record_top_k is not None and not (
            isinstance(self.record_top_k, int) and 0 <= self.record_top_k <= MAX_TOP_K
        ):
            raise ConfigError(
                f"likely: {self.record_top_k!r} is not allowed; use a whole number from 0 to {MAX_TOP_K}."
            )
        if self.method.family not in self.model.families:
            raise ConfigError(
                f"model: {self.method.name} runs on models of the family {self.method.family}, and "
                f"{self.model.card.id} is of {' and '.join(self.model.families)}; "
                f"use {', '.join(models_for(self.method.family))}."
            )
        if self.drafter is not None and self.method.family not in self.drafter.families:
            raise ConfigError(
                f"drafter: {self.method.name} drafts with models of the family {self.method.family}, and "
                f"{self.drafter.card.id} is of {' and '.join(self.drafter.families)}; give another one."
            )

    @property
    def recorded(self) -> int:
        """Number of tokens recorded of the distributions of each verdict."""
        return self.record_top_k if self.record_top_k is not None else LIKELY if self.model.card.id in MODELS else 0

    def load_drafter(self) -> Model | None:
        """Return the model that drafts, loading its weights if necessary; None for methods without a drafter.

        Raises:
            ModelError: If the drafter is unknown or its weights are missing.
        """
        drafter = self.method.find_drafter(self.config) if self.method.find_drafter else ""
        if drafter == "itself":
            return self.model
        if drafter in EAGLE_DRAFTERS:
            return self.drafter or eagle_of(self.model)
        if drafter not in OTHER_DRAFTERS:
            return None
        return self.drafter or load_model(drafter_of(self.model.card.id, drafter), str(self.model.device))

    @property
    def task(self) -> Task:
        """Decoding task of the prompt.

        Raises:
            ValueError: If the model rejects the prompt or a setting.
        """
        return self.model.make_task(self.prompt, self.config)

    @property
    def drawing(self) -> Renderer:
        """Renderer of the canvas."""
        return self.task.renderer or self.model

    def decoder(self) -> Decoder:
        """A fresh decoder of the job, begun; raises ConfigError for settings that do not go with the task."""
        decoder = self.method.decode(
            self.task, self.config, SeededRandom(self.seed, self.sample, self.uniform_overrides)
        )
        return _begun(next(decoder), decoder)


def _begun(item: ForwardRequest | Decision, decoder: Decoder) -> Decoder:
    """Return a decoder that continues one whose first request is `item`."""
    while True:
        try:
            item = decoder.send((yield item))
        except StopIteration as stop:
            return cast(Tensor, stop.value)


@dataclass(frozen=True, slots=True)
class RunningSequence:
    """One sequence while it is decoded."""

    decoder: Decoder
    recording: StepRecorder = field(default_factory=StepRecorder)
    result: list[Tensor] = field(default_factory=list)
    """Holds the tokens once the decoder is done."""
    job: Job | None = None
    """Names the model in messages."""

    @property
    def steps(self) -> list[Step]:
        """Recorded steps, one per pass."""
        return self.recording.steps


class NotFiniteError(ValueError):
    """A model's logits are not finite; the message names model, dtype, pass and remedy."""


def run_of(job: Job) -> RunningSequence:
    """Return a sequence at its beginning; raises ConfigError for settings that do not go with the task."""
    return RunningSequence(job.decoder(), job=job)


def _raise_not_finite(sequence: RunningSequence, request: ForwardRequest, number: int) -> NoReturn:
    """Raise NotFiniteError for a pass, counted from 1."""
    job, name = sequence.job, "the model"
    if job is not None:
        drafter = job.load_drafter() if request.role == "draft" else None
        model = drafter or job.model
        name = f"{model.card.id} in {str(model.dtype).removeprefix('torch.')}"
    is_half = job is not None and torch.finfo(job.model.dtype).bits < 32
    remedy = "half precision overflows, so use dtype=float32" if is_half else "check the weights of the model"
    raise NotFiniteError(f"model: the output of {name} is not finite in pass {number} ({request.mode}); {remedy}.")


def open_session(jobs: Sequence[Job]) -> Session:
    """A session of the model for jobs that share it and a config.

    Raises:
        ModelError: when a model that is to draft cannot be had.
        ValueError: for a prompt or setting that the model refuses, or two models that speak of different tokens.
    """
    first = jobs[0]
    if first.model.device.type == "cuda":  # cuDNN's attention makes a plan for every new length of a KV cache: 60 ms
        torch.backends.cuda.enable_cudnn_sdp(False)
    tasks, guided, draft = [job.task for job in jobs], first.config.uses_guidance, first.load_drafter()
    session = first.model.open_session(tasks, guided)
    if draft is None:
        return session
    if isinstance(draft, OpensDrafterSession):
        return PairSession({"target": session, "draft": draft.open_drafter_session(session, tasks)})
    if isinstance(draft, ReadsTarget) and draft is not first.model:
        draft = draft.drafting_for(first.model, tasks)
        return _pair(first.model, session, draft, draft.open_session(tasks, guided))
    check_vocabularies(first.model, draft)
    if first.method.find_drafter and isinstance(tasks[0], ContinuousTask) and draft is not first.model:
        check_heads(
            first.method.find_drafter(first.config),
            tasks[0],
            draft.card.id,
            draft.make_task(first.prompt, first.config),
        )
    if tasks[0].canvas.kind == "text" and draft is not first.model:
        draft_tasks = [draft.make_task(job.prompt, job.config) for job in jobs]
        for task, draft_task in zip(tasks, draft_tasks, strict=True):
            check_prompt_compatibility(first.model, draft, task, draft_task)
        if differs_in_shift(tasks[0], draft_tasks[0]):
            return _pair(first.model, session, draft, InPlaceSession(draft.open_session(tasks, guided)))
    return _pair(first.model, session, draft, draft.open_session(tasks, guided))


def _pair(target: Model, session: Session, draft: Model, draft_session: Session) -> PairSession:
    devices: dict[Role, torch.device] = {"target": target.device, "draft": draft.device}
    return PairSession({"target": session, "draft": draft_session}, devices)


@torch.inference_mode()
def run_passes(
    sequences: Sequence[RunningSequence], session: Session, sampling: Any, *, record: bool = True, likely: int = 0
) -> Iterator[list[int]]:
    """Advance all sequences together, one forward pass per iteration, until each is done.

    Args:
        sequences: Sequences to decode; the driver numbers them from 0.
        session: Answers their requests.
        sampling: Settings of their method.
        record: Whether steps are kept.
        likely: Number of tokens to record of the distributions of each verdict.

    Yields:
        The sequences that took part in the pass. With `record`, their step has been appended.

    Raises:
        NotFiniteError: If a distribution of the model is not a number.
    """
    number = 0
    answers: dict[int, Any] = dict.fromkeys(range(len(sequences)))
    accelerator: Host | None = None  # that of the device where the first verdict lies
    while answers:
        clock = StageTimer(accelerator or Host()) if record else None
        lap: Callable[..., None] = clock.lap if clock else lambda *_: None
        requests = _next_requests(sequences, answers)
        if not requests:
            return
        lap("prepare")
        decisions: dict[int, Decision] = {}
        results = session.forward(requests, sampling, lap)
        for i, answer in results.items():
            decision = sequences[i].decoder.send(answer.value)
            assert isinstance(decision, Decision)
            decisions[i] = decision
        number += 1
        undefined = torch.stack([_is_undefined(results[i].value) for i in decisions])
        parts = [*(decision.readback for decision in decisions.values()), undefined]
        if accelerator is None:
            accelerator = Cuda(parts[0].device) if parts[0].is_cuda else Host()
        values = iter(accelerator.fetch(torch.cat(parts).long()).tolist())
        answers = {i: tuple(islice(values, part.shape[0])) for i, part in zip(decisions, parts, strict=False)}
        for i, is_undefined in zip(decisions, values, strict=True):
            if is_undefined:
                _raise_not_finite(sequences[i], requests[i], number)
        lap("decide")
        if clock:
            spent = clock.milliseconds()
            for i, decision in decisions.items():
                request, answer = requests[i], results[i]
                call = Call(
                    role=request.role,
                    mode=request.mode,
                    rows=answer.rows,
                    query_tokens=answer.query_tokens,
                    batch=len(requests),
                    milliseconds=spent,
                )
                num_values = answer.value.numel() if isinstance(answer.value, Tensor) else 0
                sequences[i].recording.add(PendingStep(request, decision, call, likely, num_values))
        yield list(decisions)


def _is_undefined(answer: Any) -> Tensor:
    """Whether a distribution is not a number; then all of its probabilities are, so that one of each is looked at."""
    numbers = answer[..., 0] if isinstance(answer, Tensor) else answer.last.mean
    return numbers.isnan().any()


def _next_requests(sequences: Sequence[RunningSequence], answers: Mapping[int, Any]) -> dict[int, ForwardRequest]:
    """Resume the decoders and collect the forward passes they want; those that end leave their tokens."""
    requests: dict[int, ForwardRequest] = {}
    for i, answer in answers.items():
        try:
            request = sequences[i].decoder.send(answer)
        except StopIteration as stop:
            sequences[i].result.append(stop.value)
            continue
        assert not isinstance(request, Decision)
        requests[i] = request
    return requests


class Run:
    """One sequence, live: iterate to advance by one forward pass; `trace()` returns the trace so far."""

    def __init__(self, job: Job) -> None:
        """Open a session for the job; raises ValueError for a prompt or setting that the model refuses."""
        self.job = job
        self._sequence = run_of(job)
        self._session = open_session([job])

    def __iter__(self) -> Iterator[Step]:
        for _ in self.passes():
            yield self._sequence.steps[-1]

    def passes(self) -> Iterator[list[int]]:
        """Advance by one forward pass at a time, as iterating does, but leave the steps to be made later, at once."""
        return run_passes([self._sequence], self._session, self.job.config, likely=self.job.recorded)

    def finish(self, on_step: Callable[[Step], object] | None = None, *, progress: bool = False) -> None:
        """Take all steps that are left.

        Args:
            on_step: Called with each step, which then is made at once.
            progress: Whether to show a bar on standard error.
        """
        if on_step is None and not progress:
            for _ in self.passes():
                pass
            return
        with tqdm(total=self.job.task.length, unit="token", disable=not progress) as bar:
            for step in self:
                bar.set_postfix(passes=len(self._sequence.steps), refresh=False)
                bar.update(sum(fate.final for fate in step.fate))
                if on_step:
                    on_step(step)

    def trace(self) -> Trace:
        """The trace of the steps taken, marked incomplete before the decoder is done."""
        return make_trace(self.job, self._sequence)


def decode(jobs: Sequence[Job], session: Session | None = None, *, record: bool = False) -> list[RunningSequence]:
    """Decode jobs of one model and one config in lockstep, to their ends.

    Args:
        jobs: Jobs that share model and config.
        session: Session for all of them; by default a new one.
        record: Whether steps are kept, as traces need them.
    """
    first, sequences = jobs[0], [run_of(job) for job in jobs]
    for _ in run_passes(sequences, session or open_session(jobs), first.config, record=record, likely=first.recorded):
        pass
    return sequences


def run_batch(jobs: Sequence[Job]) -> list[Trace]:
    """Decode jobs of one model and one config in lockstep."""
    first = jobs[0]
    if any(job.model is not first.model or job.config != first.config for job in jobs):
        raise ValueError("jobs: a batch shares one model and one config; run the others on their own.")
    return [make_trace(job, sequence) for job, sequence in zip(jobs, decode(jobs, record=True), strict=True)]


def sample_tokens(jobs: Sequence[Job]) -> list[list[Any]]:
    """The tokens of jobs decoded in lockstep, nothing recorded."""
    return [sequence.result[0].tolist() for sequence in decode(jobs)]


def collect_token_ids(steps: Iterable[Step]) -> set[int]:
    """The ids that steps speak of: tokens, drafts, and what was likely."""
    steps = tuple(steps)
    spoken = {token for step in steps for best in step.top or () for token, _ in best}
    spoken |= {token for step in steps for likely in step.likely or () for token, _, _ in likely or ()}
    return spoken.union(
        token for step in steps for token in (*step.token, *(step.draft or ())) if isinstance(token, int)
    )


def make_trace(job: Job, sequence: RunningSequence) -> Trace:
    """Return the trace of the steps a job has taken.

    Args:
        job: The job.
        sequence: Its decoder and steps; the trace is complete once the decoder is done.
    """
    model, task, steps, drawing, drafter = job.model, job.task, sequence.steps, job.drawing, job.load_drafter()
    replay, canvases = CanvasReplay(task.length), {}
    for k, step in enumerate(steps, 1):
        replay.apply(step)
        canvases[k] = replay.state().tokens
    end = replay.state()
    tokens = [token if done else None for token, done in zip(end.tokens, end.final, strict=True)]
    legend = drawing.make_legend(canvases, collect_token_ids(steps))
    return Trace(
        method=job.method.name,
        variant=job.method.variant(job.config),
        model=model.card,
        draft_model=drafter.card if drafter else None,
        prompt=job.prompt,
        rendered=task.rendered_prompt if task.rendered_prompt != job.prompt else "",
        config=config_values(job.config),
        seed=job.seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment(model.device, model.dtype),
        canvas=task.canvas,
        legend=legend,
        rules=tuple(job.method.explanations(job.config)),
        steps=tuple(steps),
        output=drawing.render_output(tokens),
        summary=summarise(steps, task.length, bool(sequence.result) or all(end.final), legend.ends),
        note=job.method.deviation(job.config),
        extensions={"draftscope": dict(task.chat)} if task.chat else {},
    )
