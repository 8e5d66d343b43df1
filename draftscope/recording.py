"""Records what transformers' `generate` does, from outside: hooks on the forward passes of target and drafter.

A pass of the target feeds the last final token and the drafts behind it; how many of them passed shows in the cache,
from which generate cuts the rejected ones. Before the first pass the prompt and its drafts are told apart by the number
of logits that generate asks for.
"""

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from draftscope.generation import Drafted, Generation, Verified
from draftscope.trace import Trace
from engines.models.checkpoints.causal_lm import CausalLM, check_network


class Recording:
    """A context in which every `generate` of a model is recorded; `trace()` gives the record behind it.

    The drafter is the assistant_model of generate, None for prompt lookup, early exit and ordinary decoding. Nothing is
    replaced: outputs are those that generate gives without it. In early exit the target drafts itself, with fewer
    layers than it has otherwise; by that its passes are told apart.
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
        self._drafts: list[Drafted] = []
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
            run = self._runs[-1]
            elsewhere = self._thread is not None and self._thread is not threading.current_thread()
            running = elsewhere and self._thread is not None and self._thread.is_alive()
            run.close(complete=not (kind or self._begun or self._broken or self._drafts or running))
        self._drafts.clear()

    def trace(self, output: Any = None, *, call: int | None = None) -> Trace:
        """The trace of a generate that was recorded.

        Args:
            output: What generate returned. It has the very last token, which no pass is fed; without it that token is
                taken to be the likeliest one where all earlier ones were, and is left out otherwise.
            call: Which generate, from 0, where there were several.

        Raises:
            ValueError: Where there is none, there are several, or they cannot be told from their passes.
        """
        if self._handles:
            raise ValueError("trace: the context is still open; ask behind it.")
        if not self._runs:
            raise ValueError("trace: no pass of the target was recorded; call target.generate(...) inside the context.")
        if call is None and len(self._runs) > 1:
            raise ValueError(f"call: {len(self._runs)} generate calls were recorded; choose one from 0 on.")
        if not -len(self._runs) <= (call or 0) < len(self._runs):
            raise ValueError(f"call: {call} is none of {len(self._runs)} generate calls that were recorded.")
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

        def after(_: Any, args: tuple[Any, ...], *rest: Any) -> None:
            if not self._handles:
                return
            kwargs, out = rest
            acting = self._role(role)
            begun = self._begun.pop(acting, 0.0)
            logits = getattr(out, "logits", None)
            if not isinstance(logits, Tensor):
                return  # Not a pass that generate makes.
            self._thread = threading.current_thread()
            if logits.is_cuda:
                torch.cuda.synchronize(logits.device)
            now = time.perf_counter()
            prepare = max(0.0, 1000 * (begun - (self._last or begun)))
            ids = kwargs.get("input_ids", args[0] if args else None)
            self._passed(acting, ids, kwargs, out, (prepare, 1000 * (now - begun)))
            self._last = time.perf_counter()

        self._handles.append(network.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(network.register_forward_hook(after, with_kwargs=True))

    def _role(self, role: str) -> str:
        """What the target does now: `generate` lowers its number of layers for as long as it drafts."""
        if role == "target" and self._draft is None and (layers := _layers(self._target)) < self._layers:
            self._exit = layers
            return "draft"
        return role

    def _passed(self, role: str, ids: Any, kwargs: dict[str, Any], out: Any, spent: tuple[float, float]) -> None:
        """Take a pass that is over."""
        fed = ids.tolist() if isinstance(ids, Tensor) else []
        if role == "draft":
            last = out.logits[0, -1].detach() if len(fed) == 1 else None
            self._drafts.append(Drafted(len(fed[0]) if fed else 0, last, *spent))
            return
        cache = kwargs.get("past_key_values")
        if cache is None:
            cache = getattr(out, "past_key_values", None)
        seen = cache.get_seq_length() if cache is not None else 0
        start = seen - (len(fed[0]) if fed else 0)
        run = self._runs[-1] if self._runs else None
        if run is None or run.begins_anew(cache, start):
            if run is not None:
                run.close(complete=not self._broken)
            run = Generation()
            self._runs.append(run)
            self._broken = False
        asked = kwargs.get("logits_to_keep")
        kept = asked if isinstance(asked, int) and asked > 0 else None
        drafts, self._drafts = self._drafts, []
        if drafts:
            run.exit, self._exit = self._exit, None
        run.take(Verified.of(fed, start, kept, out.logits, drafts, spent), cache)


def _layers(network: Any) -> int:
    """Layers that the network's next pass goes through; 0 where its class does not count them so."""
    base = getattr(network, getattr(network, "base_model_prefix", ""), network)
    return int(getattr(getattr(base, "config", None), "num_hidden_layers", 0))


def record(target: Any, draft: Any = None, tokenizer: Any = None) -> Recording:
    """Record what `target.generate(...)` does inside a `with`; see `Recording`."""
    return Recording(target, draft, tokenizer)


def _row(output: Any) -> Sequence[int] | None:
    """The ids that generate returned, as it returns them: a tensor [1, N], or an object with `sequences`."""
    found = getattr(output, "sequences", output)
    if found is None:
        return None
    rows = found.tolist() if isinstance(found, Tensor) else list(found)
    if rows and isinstance(rows[0], list):
        if len(rows) > 1:
            raise ValueError(f"output: holds {len(rows)} texts; only one at a time can be recorded.")
        rows = rows[0]
    return [int(token) for token in rows]
