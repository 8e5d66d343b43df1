"""Recorder of transformers' `generate`, by hooks on the forward passes of target and drafter.

A pass of the target feeds the last final token and the drafts after it; how many of them were accepted follows from the
cache, from which generate removes the rejected ones. Before the first pass the prompt and its drafts are distinguished
by the number of logits that generate requests.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import torch
from torch import Tensor

from draftscope.builder import TraceBuilder
from draftscope.engines.models.checkpoints.causal_lm import CausalLM
from draftscope.engines.models.checkpoints.causal_network import check_network
from draftscope.engines.models.transformers_api import cache_of
from draftscope.engines.runtime.environment import environment
from draftscope.engines.runtime.stage_timer import Host
from draftscope.trace import Trace
from draftscope.traces import Fate
from draftscope.traces.schema import Call, Milliseconds

_TOP: Final = 5
_NOTE: Final = (
    "Recorded from generate. p and q are the networks' own probabilities, before the temperature and truncation that "
    "generate applied."
)
_LOST: Final = (
    " The last token was sampled after the last pass and is unknown: trace(output) takes what generate returned."
)

Best: TypeAlias = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class DraftPass:
    """A pass of the drafter."""

    fed: int
    logits: Tensor | None
    """Logits of the token after the fed ones [V]."""
    prepare: float
    """Milliseconds since the pass before."""
    forward: float
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class TargetPass:
    """A pass of the target, with those of the drafter before it."""

    batch: int
    fed: tuple[int, ...]
    """Ids that were fed; drafts last."""
    start: int
    """Tokens that the cache held before."""
    logits_to_keep: int | None
    """Number of requested logits: one more than there are drafts. None if the model always returns all."""
    drafts: tuple[DraftPass, ...]
    p: tuple[float, ...]
    """Probability of every fed token but the first, as far as logits were kept, by the logits before it."""
    q: tuple[float, ...]
    best: tuple[Best, ...]
    """Most likely tokens after each of the last fed tokens, one more than there are drafts."""
    draft_best: tuple[Best, ...]
    prepare: float
    forward: float

    @classmethod
    def of(
        cls,
        fed: Sequence[Sequence[int]],
        start: int,
        logits_to_keep: int | None,
        logits: Tensor,
        drafts: Sequence[DraftPass],
        spent: tuple[float, float],
    ) -> "TargetPass":
        """Return what is kept of a pass: a few numbers of its logits.

        Args:
            fed: Ids that were fed, one list a text.
            start: Tokens that the cache held before.
            logits_to_keep: Number of requested logits; None if the model returns all.
            logits: Logits of the pass, [B, N, V].
            drafts: Passes of the drafter before it.
            spent: Milliseconds of preparation and of the pass itself.
        """
        row = tuple(fed[0]) if fed else ()
        rows = logits[0].detach()
        # Without a number all positions have logits; those of the prompt are of no use.
        rows = rows[-(logits_to_keep or (len(drafts) + 1 if start == 0 else len(row))) :]
        probs = rows.float().softmax(-1)
        ids = torch.tensor(row[len(row) - len(rows) + 1 :], device=probs.device, dtype=torch.long)
        drawn = [each.logits.float().softmax(-1) for each in drafts if each.logits is not None]
        # An assistant with another vocabulary drafts tokens of its own, which are not those that are verified.
        paired = len(drawn) == len(ids) == len(drafts) and all(len(prob) == probs.shape[-1] for prob in drawn)
        q = [float(prob[token]) for prob, token in zip(drawn, ids.tolist(), strict=True)] if paired else []
        return cls(
            len(fed), row, start, logits_to_keep, tuple(replace(each, logits=None) for each in drafts),
            tuple(probs[:-1].gather(1, ids[:, None].to(probs.device)).squeeze(1).tolist()), tuple(q), _best(probs),
            _best(torch.stack(drawn)) if paired and drawn else (), *spent,
        )  # fmt: skip


def _best(probs: Tensor) -> tuple[Best, ...]:
    shares, ids = (part.tolist() for part in probs.topk(min(_TOP, probs.shape[-1])))
    return tuple(
        tuple((token, float(f"{share:.6g}")) for token, share in zip(*row, strict=True))
        for row in zip(ids, shares, strict=True)
    )


@dataclass(slots=True)
class Generation:
    """The passes of one generate, gathered while it runs."""

    passes: list[TargetPass] = field(default_factory=list)
    complete: bool = True
    exit: int | None = None
    """Number of layers after which the target exits to draft; None for another drafter."""
    cache: Any = None
    _length: int = 0

    def close(self, *, complete: bool) -> None:
        """End the generation; the cache now shows how many drafts of the last pass were accepted."""
        self._length = self.cache.get_seq_length() if self.cache is not None else 0
        self.cache, self.complete = None, complete

    def trace(self, target: CausalLM, draft: CausalLM | None, output: Sequence[int] | None) -> Trace:
        """The trace of these passes; raises ValueError for a batch, embeddings or no cache, as they look alike."""
        for one in self.passes:
            if one.batch != 1:
                problem = f"hold {one.batch} texts" if one.batch else "are missing, embeddings were fed"
                raise ValueError(f"input_ids: {problem}; only generate with one text of ids can be recorded.")
            if one.start < 0:
                raise ValueError("past_key_values: without a cache, accepted drafts are not known; set use_cache=True.")
        finals = [one.start + 1 for one in self.passes[1:]] + [self._length + 1]
        first = self._first(finals[0])
        lookup = any(len(one.best) > 1 for one in self.passes)
        prompt = self.passes[0].fed[: first - self.passes[0].start]
        early = self.exit is not None
        builder = TraceBuilder(
            "assisted generation" if draft else "early exit" if early else "prompt lookup" if lookup else "generate",
            target.card,
            config={"assistant_early_exit": self.exit} if early else {},
            prompt=target.text_of(prompt),
            draft_model=None if draft is None else draft.card,
            environment=environment(target.device, target.dtype),
        )
        tokens, last = self._tokens(first, finals, output)
        complete = (self.complete or output is not None) and last
        for one, before, end in zip(self.passes, [first, *finals[:-1]], finals, strict=True):
            room = len(tokens) - (before - first) if complete else len(one.fed)
            _add(builder, one, before - first, min(end - first, len(tokens)), tokens, room)
        ids = {token for one in self.passes for token in (*one.fed, *tokens)}
        ids |= {token for one in self.passes for best in (*one.best, *one.draft_best) for token, _ in best}
        legend = target.make_legend({}, ids)
        note = _NOTE + ("" if last else _LOST)
        built = builder.trace(
            text=target.render_output(tokens).text, complete=complete, legend=replace(legend, ends=())
        )
        return replace(built, note=note)

    def _first(self, end: int) -> int:
        """Tokens of the prompt."""
        one = self.passes[0]
        if one.logits_to_keep is not None:
            return one.start + len(one.fed) - one.logits_to_keep + 1
        if one.drafts:  # The drafter began with the prompt.
            return one.start + one.drafts[0].fed
        if end < one.start + len(one.fed) + 1:
            raise ValueError("target: does not leave out logits, so prompt and drafts of its first pass look alike.")
        return one.start + len(one.fed)

    def _tokens(self, first: int, finals: Sequence[int], output: Sequence[int] | None) -> tuple[list[int], bool]:
        """Return the ids of the final tokens after the prompt, and whether the very last one is known."""
        if output is not None:
            if len(output) < finals[-1]:
                raise ValueError(
                    f"output: has {len(output)} tokens where {finals[-1]} became final; give what generate returned."
                )
            return list(output[first : finals[-1]]), True
        tokens: list[int] = []
        greedy = True
        following = [one.fed[0] for one in self.passes[1:]]
        for index, (one, end) in enumerate(zip(self.passes, finals, strict=True)):
            passed = end - 1 - (first + len(tokens))
            at = first + len(tokens) - one.start
            tokens += one.fed[at : at + passed]
            likeliest = one.best[passed][0][0]
            if index < len(following):
                greedy = greedy and following[index] == likeliest
                tokens.append(following[index])
            elif greedy and self.complete:
                tokens.append(likeliest)
            else:
                return tokens, False
        return tokens, True


def _add(builder: TraceBuilder, one: TargetPass, before: int, end: int, tokens: Sequence[int], room: int) -> None:
    """Add a pass of the target and the drafts before it; `before` and `end` count final tokens.

    Drafts for positions after the first `room` ones are left out, because the text ended before them.
    """
    drafts = one.fed[len(one.fed) - len(one.best) + 1 :][:room]
    for index, draft_pass in enumerate(one.drafts):
        spent = Milliseconds(prepare=draft_pass.prepare, forward=draft_pass.forward)
        call = Call(role="draft", mode="draft", query_tokens=draft_pass.fed, milliseconds=spent)
        if one.draft_best and index < len(drafts):
            top = (one.draft_best[index],)
            builder.step([before + index], [Fate.DRAFTED], [drafts[index]], call=call, top=top)
        else:  # The drafter has another vocabulary, its drafts were not verified, or the text ended before.
            builder.step([], [], call=call)
    gained = end - before
    accepted = max(0, min(gained - 1, len(drafts)))
    next_token = [tokens[before + accepted]] if gained > accepted else []
    if next_token and accepted < len(drafts) and next_token[0] == drafts[accepted]:
        accepted, next_token = accepted + 1, []  # The draft ended the text, and nothing was sampled after it.
    fates = [Fate.ACCEPTED] * accepted
    after = Fate.RESAMPLED if accepted < len(drafts) else Fate.BONUS if drafts else Fate.SAMPLED
    fates += [after] * len(next_token)
    fates += [Fate.DISCARDED] * (len(drafts) - len(fates))
    tokens_of_pass = [*drafts[:accepted], *next_token, *drafts[accepted + len(next_token) :]]
    gap = [None] * (len(fates) - len(drafts))
    spent = Milliseconds(prepare=one.prepare, forward=one.forward)
    judged: dict[str, Any] = {}
    if drafts:
        p, q = one.p[: len(drafts)], one.q[: len(drafts)]
        judged = {"draft": [*drafts, *gap], "p": [*p, *gap]} | ({"q": [*q, *gap]} if q else {})
        judged["signals"] = {"accepted": float(accepted), "window": float(len(drafts))}
    builder.step(
        range(before, before + len(fates)),
        fates,
        tokens_of_pass,
        call=Call(role="target", mode="verify" if drafts else "causal", query_tokens=len(one.fed), milliseconds=spent),
        top=one.best[: len(fates)],
        **judged,
    )


class GenerateRecorder:
    """Context manager that records every `generate` of a model; `trace()` returns the record afterwards.

    The drafter is the assistant_model of generate, None for prompt lookup, early exit and the baseline. Nothing is
    replaced: outputs equal those without the recorder. In early exit the target drafts with fewer layers than usual, by
    which its passes are distinguished.
    """

    def __init__(self, target: Any, draft: Any = None, tokenizer: Any = None) -> None:
        """Prepare to record.

        Args:
            target: A causal language model of transformers.
            draft: Its assistant.
            tokenizer: Names the tokens in the trace.

        Raises:
            ValueError: For a model whose passes cannot be recorded.
        """
        check_network(target, "target")
        if draft is not None:
            check_network(draft, "draft")
            if draft is target:
                raise ValueError("draft: is the target itself, so their passes look alike; give another model.")
        self._target, self._draft, self._tokenizer = target, draft, tokenizer
        self._layers = _layers(target)
        self._exit: int | None = None
        self._handles: list[Any] = []
        self._runs: list[Generation] = []
        self._drafts: list[DraftPass] = []
        self._begun: dict[str, float] = {}
        self._last = 0.0
        self._broken = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin to record."""
        self._watch(self._target, "target")
        if self._draft is not None:
            self._watch(self._draft, "draft")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it. A generate that is still under way, or was interrupted, is marked incomplete."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._runs:
            same_thread = self._thread in (None, threading.current_thread())
            running = not same_thread and self._thread is not None and self._thread.is_alive()
            self._runs[-1].close(complete=not (kind or self._begun or self._broken or self._drafts or running))
        self._drafts.clear()

    def trace(self, output: Any = None, *, call: int | None = None) -> Trace:
        """Return the trace of a recorded generate.

        Args:
            output: Return value of generate. It has the very last token, which no pass is fed; without it that token is
                assumed to be the most likely one if all earlier ones were, and is left out otherwise.
            call: Index of the generate call, if there were several.

        Raises:
            ValueError: If there is none, there are several, or they cannot be distinguished by their passes.
        """
        if self._handles:
            raise ValueError("trace: the context is still open; call it after the with block.")
        if not self._runs:
            raise ValueError("trace: no pass of the target was recorded; call target.generate(...) inside the context.")
        if call is None and len(self._runs) > 1:
            raise ValueError(f"call: {len(self._runs)} generate calls were recorded; choose one from 0 on.")
        if not -len(self._runs) <= (call or 0) < len(self._runs):
            raise ValueError(
                f"call: {call} is out of range of the {len(self._runs)} generate calls that were recorded."
            )
        drafter = None if self._draft is None else CausalLM(self._draft, "draft", self._tokenizer)
        judge = CausalLM(self._target, "target", self._tokenizer)
        return self._runs[call or 0].trace(judge, drafter, _row(output))

    def _watch(self, network: Any, role: str) -> None:
        # A pass that another thread is in when the context ends still calls its hooks, then without keywords.
        def before(*_: Any) -> None:
            if not self._handles:
                return
            acting = self._role(role)
            if acting in self._begun:  # The pass before this one came to no end.
                self._drafts.clear()
                self._broken = True
            self._begun[acting] = time.perf_counter()

        def after(_: Any, args: tuple[Any, ...], *results: Any) -> None:
            if not self._handles:
                return
            kwargs, out = results
            acting = self._role(role)
            begun = self._begun.pop(acting, 0.0)
            logits = getattr(out, "logits", None)
            if not isinstance(logits, Tensor):
                return  # Not a pass that generate makes.
            self._thread = threading.current_thread()
            now = Host().mark(logits)
            prepare = max(0.0, 1000 * (begun - (self._last or begun)))
            ids = kwargs.get("input_ids", args[0] if args else None)
            self._passed(acting, ids, kwargs, out, (prepare, 1000 * (now - begun)))
            self._last = time.perf_counter()

        self._handles.append(network.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(network.register_forward_hook(after, with_kwargs=True))

    def _role(self, role: str) -> str:
        """Return the current role of the target: `generate` lowers its number of layers while it drafts."""
        if role == "target" and self._draft is None and (layers := _layers(self._target)) < self._layers:
            self._exit = layers
            return "draft"
        return role

    def _passed(self, role: str, ids: Any, kwargs: dict[str, Any], out: Any, spent: tuple[float, float]) -> None:
        """Process a finished pass."""
        fed = ids.tolist() if isinstance(ids, Tensor) else []
        if role == "draft":
            last = out.logits[0, -1].detach() if len(fed) == 1 else None
            self._drafts.append(DraftPass(len(fed[0]) if fed else 0, last, *spent))
            return
        cache = cache_of(kwargs)
        if cache is None:
            cache = cache_of(out)
        seen = cache.get_seq_length() if cache is not None else 0
        start = seen - (len(fed[0]) if fed else 0)
        if not self._runs or cache is not self._runs[-1].cache or start == 0:  # another generate
            for before in self._runs[-1:]:
                before.close(complete=not self._broken)
            self._runs.append(Generation())
            self._broken = False
        run = self._runs[-1]
        logits_to_keep = kwargs.get("logits_to_keep")
        logits_to_keep = logits_to_keep if isinstance(logits_to_keep, int) and logits_to_keep > 0 else None
        drafts, self._drafts = self._drafts, []
        if drafts:
            run.exit, self._exit = self._exit, None
        run.passes.append(TargetPass.of(fed, start, logits_to_keep, out.logits, drafts, spent))
        run.cache = cache


def _layers(network: Any) -> int:
    """Layers that the network's next pass goes through; 0 where its class does not count them so."""
    base = getattr(network, getattr(network, "base_model_prefix", ""), network)
    return int(getattr(getattr(base, "config", None), "num_hidden_layers", 0))


def record(target: Any, draft: Any = None, tokenizer: Any = None) -> GenerateRecorder:
    """Record what `target.generate(...)` of transformers does inside a `with`.

    Args:
        target: Model whose `generate` is called.
        draft: Its assistant, if one drafts.
        tokenizer: Gives the trace words.

    Returns:
        A context manager, whose `trace()` returns the trace after `generate`.

    Raises:
        ValueError: For a model whose passes cannot be recorded.

    Examples:
        >>> with ds.record(target, draft, tokenizer) as recording:  # doctest: +SKIP
        ...     output = target.generate(**inputs, assistant_model=draft)
        >>> trace = recording.trace(output)  # doctest: +SKIP
    """
    return GenerateRecorder(target, draft, tokenizer)


def _row(output: Any) -> Sequence[int] | None:
    """The ids that generate returned, as it returns them: a tensor [1, N], or an object with `sequences`."""
    sequences = getattr(output, "sequences", output)
    if sequences is None:
        return None
    rows = sequences.tolist() if isinstance(sequences, Tensor) else list(sequences)
    if rows and isinstance(rows[0], list):
        if len(rows) > 1:
            raise ValueError(f"output: holds {len(rows)} texts; only one at a time can be recorded.")
        rows = rows[0]
    return [int(token) for token in rows]
