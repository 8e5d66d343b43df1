"""Contract of methods with the rest of the program, checked by running them: see `CHECKS`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm import masks
from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.methods.method import DRAFT_ORDER, POLICY, Reference
from draftscope.engines.protocol import ForwardRequest, ForwardResult, Session, StageCallback
from draftscope.engines.runtime.driver import Job, Run, open_session, run_batch
from draftscope.engines.testing.case import ConformanceCase, decoded, same
from draftscope.engines.testing.exactness import ExactnessResult, proof
from draftscope.traces import dumps, loads
from draftscope.traces.replay import canvas_states, replay_steps
from draftscope.traces.schema import Milliseconds, Step, Token, Trace

BATCH: Final = 3
SEEDS: Final = 2
CLAIM: Final = "output distribution equals ordinary decoding's"
REFERENCES: Final[Mapping[str, str]] = {
    DRAFT_ORDER: "the target's, one token at a time in the order of the drafts",
    POLICY: "that of its policy without drafts",
}
COVERED: Final = {
    "tested": "drafts that were tested",
    "power": "smallest bias that would have been found",
    "never": "never exercised",
}
"""Coverage of a proof: titles by field of its result."""
_CLOSE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check."""

    check: str
    holds: bool
    message: str

    def __str__(self) -> str:
        separator = ":" if self.message.startswith("\n") else ": "
        return f"{self.check}{separator}{self.message}"


class DoesNotHoldError(Exception):
    """Error for a violated contract; the message explains the violation."""


def check(
    subject: ConformanceCase, claimed: bool, *, sampled: bool = True, seed: int = 0, counts: bool = False
) -> Iterator[CheckResult]:
    """Run all checks.

    Args:
        subject: Method and models.
        claimed: Whether the method claims to be lossless; then this is proved, as in `proof`.
        sampled: Whether sampled texts are tested as well.
        seed: Number of the models that the proof uses.
        counts: Whether the counts of every table, prompt and setting are returned as well.
    """
    reference = "" if claimed else subject.method.reference(subject.config)
    is_tested = claimed or bool(reference)
    prove = partial(proof, subject, sampled=sampled and is_tested, counted=is_tested, seed=seed)
    yield from _claim(prove, claimed, reference, counts)
    yield from run_contract_checks(subject)


def run_contract_checks(subject: ConformanceCase) -> Iterator[CheckResult]:
    """Run the checks that do not concern the output distribution."""
    for name, run in CHECKS.items():
        yield _finding(name, partial(run, subject))


def _finding(name: str, run: Callable[[], str | None]) -> CheckResult:
    try:
        return CheckResult(name, True, run() or "yes")
    except DoesNotHoldError as broken:
        return CheckResult(name, False, f"no, {broken}")
    except Exception as error:  # a method of someone's own may raise anything; that is what is found out
        return CheckResult(name, False, f"no, it raises {type(error).__name__}: {error}")


def _claim(
    prove: Callable[[], ExactnessResult], claimed: bool, reference: Reference, counts: bool
) -> Iterator[CheckResult]:
    """The comparison with the method's reference, and what it covered."""
    try:
        proved = prove()
    except Exception as error:  # a custom method may raise anything; that is what is found out
        yield CheckResult(CLAIM, False, f"no, it raises {type(error).__name__}: {error}")
        return
    if not (claimed or reference):
        small = ", though not where it is this small" if proved.holds else ""
        yield CheckResult(CLAIM, True, f"lossy, as declared{small}: {proved.message}")
        return
    lossy = f"lossy, as declared, and equal to {REFERENCES[reference]}: " if reference else ""
    if not proved.holds:
        yield CheckResult(CLAIM, False, f"no, although the method claims so: {proved.message}")
        return
    if proved.untested:
        yield CheckResult(CLAIM, False, proved.untested)
    else:
        yield CheckResult(CLAIM, True, lossy + proved.message)
    if counts:
        yield from (CheckResult(f"drafts of {name}", True, text or "none") for name, text in proved.counts)
    for name in COVERED:
        if text := getattr(proved, name):
            yield CheckResult(COVERED[name], True, text)


def expect(holds: object, message: str) -> None:
    """Raise DoesNotHoldError unless something holds.

    Args:
        holds: Any object; a true one passes.
        message: Text of the error.
    """
    if not holds:
        raise DoesNotHoldError(message)


def finish(job: Job) -> Trace:
    """A run to its end."""
    run = Run(job)
    run.finish()
    return run.trace()


def timeless(trace: Trace) -> Trace:
    """A trace without what differs from run to run: when it was made and how long it took."""
    summary = replace(trace.summary, seconds=0.0, forward_seconds=0.0)
    return replace(trace, created="", steps=tuple(map(_timeless, trace.steps)), summary=summary)


def _timeless(step: Step) -> Step:
    return replace(step, call=replace(step.call, milliseconds=Milliseconds(), batch=1))


def deterministic(subject: ConformanceCase) -> None:
    """Check that the same seed gives equal traces twice."""
    for seed in range(SEEDS):
        first, second = (timeless(finish(subject.job(seed))) for _ in "12")
        steps = enumerate(zip(first.steps, second.steps, strict=False), 1)
        where = next((f" from step {k} on" for k, (a, b) in steps if a != b), "")
        expect(first == second, f"two runs of seed {seed} differ{where}")


def recorded(subject: ConformanceCase) -> None:
    """Recording changes no token, though every step is looked at as soon as it is made."""
    for seed in range(SEEDS):
        run = Run(subject.job(seed))
        run.finish(on_step=str)
        (without,) = decoded([run.job])
        expect(torch.equal(run._sequence.result[0], without), f"with seed {seed} a recorded run has other tokens")


def batched(subject: ConformanceCase) -> None:
    """Sequences of different lengths and prompts in lockstep equal each alone."""
    jobs = [subject.job(seed) for seed in range(BATCH)]
    for seed, (together, alone) in enumerate(zip(decoded(jobs), (decoded([job])[0] for job in jobs), strict=True)):
        expect(same(together, alone), f"seed {seed} has other tokens in a batch of {BATCH} than alone")
    for trace, job in zip(run_batch(jobs), jobs, strict=True):
        alone_trace = finish(job)
        steps, wanted = ([(step.position, step.fate) for step in each.steps] for each in (trace, alone_trace))
        expect(steps == wanted, f"seed {job.seed} takes other steps in a batch of {BATCH} than alone")


def replays(subject: ConformanceCase) -> None:
    """The replay of a trace ends with what the decoder returned, and pictures show what the replay holds."""
    for seed in range(SEEDS):
        job, canvases = subject.job(seed), dict[int, Sequence[Token | None]]()
        noting: Any = _Noting(job.model, canvases)
        trace, result = finish(replace(job, model=noting)), decoded([job])[0]
        expect(_reads_back(trace), "the trace does not read back as it was written")
        ends_as_returned(trace, result)
        expect(sorted(canvases) == list(range(1, len(trace.steps) + 1)), "not every step has its picture")
        for state in islice(canvas_states(trace), 1, None):
            cells = canvases[state.step]
            wrong = [i for i, (cell, token) in enumerate(zip(cells, state.tokens, strict=True)) if cell != token]
            expect(not wrong, f"the picture of step {state.step} shows what is not there, at positions {wrong}")


def ends_as_returned(trace: Trace, result: Tensor) -> None:
    """Check that the steps lead to what the decoder returned, wherever they made something final.

    Args:
        trace: Record of the run.
        result: Tokens or vectors that the decoder returned.
    """
    end = replay_steps(trace.steps, len(result))
    for position, (token, final) in enumerate(zip(end.tokens, end.final, strict=True)):
        if final:
            left = torch.tensor(token, dtype=torch.float64)
            close = torch.allclose(left, result[position].double(), rtol=1e-4, atol=1e-4)
            expect(close, f"the steps leave {token} at {position}, and the decoder returns {result[position].tolist()}")
    expect(trace.output.tokens == tuple(t if f else None for t, f in zip(end.tokens, end.final, strict=True)),
           "the output differs from the result of the steps")  # fmt: skip


def counted(subject: ConformanceCase) -> None:
    """Every forward pass is a step, and the summary counts what the session counted."""
    for seed in range(SEEDS):
        job = subject.job(seed)
        session = _Counting(open_session([job]))
        run = Run(job)
        run._session = session
        run.finish()
        trace = run.trace()
        summary, roles = trace.summary, Counter(step.call.role for step in trace.steps)
        passes = sum(session.roles.values())
        expect(len(trace.steps) == summary.forwards == passes, f"{passes} forward passes make {len(trace.steps)} steps")
        expect(roles == session.roles, f"passes by role are {dict(session.roles)}, and steps {dict(roles)}")
        counts, wanted = (summary.row_forwards, summary.query_tokens), (session.rows, session.fed)
        expect(counts == wanted, f"rows and tokens fed are {wanted}, and the summary has {counts}")
        final = sum(replay_steps(trace.steps, job.task.length).final)
        expect(summary.tokens <= final, f"{final} tokens are final, and the summary counts {summary.tokens}")


def resumed(subject: ConformanceCase) -> None:
    """Check that a run that is paused has a valid trace and continues unchanged."""
    for seed in range(SEEDS):
        complete = finish(subject.job(seed))
        for k in sorted({1, max(1, len(complete.steps) // 2)}):
            run = Run(subject.job(seed))
            steps = iter(run)
            next(islice(steps, k - 1, None))
            part = run.trace()
            expect(_reads_back(part), f"stopped after {k} passes, its trace does not read back as it was written")
            full = None not in part.output.tokens
            expect(part.summary.complete == full, f"stopped after {k} passes, its trace does not report it")
            expect(tuple(map(_timeless, part.steps)) == tuple(map(_timeless, complete.steps[:k])), "its steps differ")
            for _ in steps:
                pass
            expect(timeless(run.trace()) == timeless(complete), f"stopped after {k} passes, it ends elsewhere")


def _reads_back(trace: Trace) -> bool:
    written = dumps(trace)
    return dumps(loads(written)) == written


def cache_equivalence(subject: ConformanceCase) -> None:
    """Check that a session that is opened again for every pass gives the same tokens and distributions."""
    for seed in range(SEEDS):
        job = subject.job(seed)
        anew = _Anew(job, open_session([job]))
        (slow,), (fast,) = decoded([job], anew), decoded([job])
        expect(anew.worst < _CLOSE, f"what is cached changes an answer by {anew.worst:.1g}")
        expect(same(slow, fast), "tokens differ")


class _Anew:
    """Answers every request from a fresh session, and compares with a session that goes on."""

    def __init__(self, job: Job, cached: Session) -> None:
        self._job, self._cached, self._past = job, cached, dict[str, _Past]()
        self.worst = 0.0

    def forward(self, requests: Mapping[int, Any], sampling: Any, lap: StageCallback) -> Mapping[int, ForwardResult]:
        """Run one forward pass for one sequence."""
        ((i, request),) = requests.items()
        fast = self._cached.forward(requests, sampling, lap)[i]
        slow = open_session([self._job]).forward({i: self._uncached(request)}, sampling, lap)[i]
        for a, b in zip(_numbers(fast.value), _numbers(slow.value), strict=True):
            self.worst = max(self.worst, float((a - b).abs().max()) if a.shape == b.shape and a.numel() else 0.0)
        return {i: replace(slow, rows=fast.rows, query_tokens=fast.query_tokens)}

    def _uncached(self, request: Any) -> Any:
        """The request with everything that a cache would know."""
        if not isinstance(request, BlockRequest):
            return replace(request, num_cached=0)
        past = self._past.get(request.role, _Past()).cut(request.finished)
        n = len(past.tokens)
        rows = len(request.tokens)
        self._past[request.role] = past.grown(request)
        return replace(
            request,
            tokens=torch.cat([past.tokens.expand(rows, -1), request.tokens], 1),
            position=torch.cat([past.position, request.position]),
            output_index=request.output_index + n,
            finished=0,
            attention_mask=masks.prefix_mask(past.seen, request.attention_mask),
            num_to_cache=0,
        )


_NOTHING: Final = torch.empty(0, dtype=torch.long)


@dataclass(frozen=True, slots=True)
class _Past:
    """Final tokens, and the attention mask among them."""

    tokens: Tensor = _NOTHING
    position: Tensor = _NOTHING
    seen: Tensor = torch.empty(0, 0, dtype=torch.bool)  # noqa: RUF009

    def cut(self, count: int) -> "_Past":
        """The first of it."""
        return _Past(self.tokens[:count], self.position[:count], self.seen[:count, :count])

    def grown(self, request: BlockRequest) -> "_Past":
        """With what a request finishes."""
        keep = request.num_to_cache
        return _Past(
            torch.cat([self.tokens, request.tokens[0, :keep]]),
            torch.cat([self.position, request.position[:keep]]),
            masks.prefix_mask(self.seen, request.attention_mask[:keep, :keep]),
        )


def _numbers(answer: Any) -> list[Tensor]:
    """The tensors of an answer: distributions, or the states and last distributions of denoising paths."""
    return [answer] if isinstance(answer, Tensor) else [answer.states, answer.last.mean, answer.last.std]


class _Counting:
    """A session that counts what it is asked."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.roles: Counter[str] = Counter()
        self.rows = self.fed = 0

    def forward(
        self, requests: Mapping[int, ForwardRequest], sampling: Any, lap: StageCallback
    ) -> Mapping[int, ForwardResult]:
        """Run one forward pass for the requesting sequences."""
        answers = self._session.forward(requests, sampling, lap)
        for i, answer in answers.items():
            self.roles[requests[i].role] += 1
            self.rows, self.fed = self.rows + answer.rows, self.fed + answer.query_tokens
        return answers


class _Noting:
    """A model that notes what its pictures are made of."""

    def __init__(self, model: Any, canvases: dict[int, Sequence[Token | None]]) -> None:
        self._model, self._canvases = model, canvases

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def make_legend(self, canvases: Mapping[int, Sequence[Token | None]], mentioned: Any = ()) -> Any:
        """Return what is needed to draw a trace."""
        self._canvases.update(canvases)
        return self._model.make_legend(canvases, mentioned)


CHECKS: Final[Mapping[str, Callable[[ConformanceCase], None]]] = {
    "draws the same tokens twice": deterministic,
    "recording changes nothing": recorded,
    "a batch equals single runs": batched,
    "cached equals uncached": cache_equivalence,
    "the trace replays to the output": replays,
    "every forward pass is counted": counted,
    "stops and goes on": resumed,
}
