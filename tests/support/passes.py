"""Runs pass by pass, and the results that a cached pass must give."""

from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm import masks
from draftscope.engines.protocol import Decoder
from draftscope.engines.runtime.driver import Job, open_session

Passes = Generator[tuple[Any, Any, Any], None, Any]


def run_passes(decoder: Decoder, answer: Callable[[Any], Any]) -> Passes:
    """Every pass of a decoder: its request, the answer to it, and the decision; at the end the tokens."""
    readback: Any = None
    while True:
        try:
            request = decoder.send(readback)
        except StopIteration as stop:
            return stop.value
        value = answer(request)
        decision: Any = decoder.send(value)
        yield request, value, decision
        readback = tuple(int(number) for number in decision.readback)


def ended(run: Passes) -> tuple[list[tuple[Any, Any, Any]], Tensor]:
    """All passes, and the tokens."""
    done = []
    while True:
        try:
            done.append(next(run))
        except StopIteration as stop:
            return done, stop.value


def passes(job: Job) -> Passes:
    """The passes of a run, answered by a session of its own."""
    session = open_session([job])
    return run_passes(
        job.decoder(), lambda request: session.forward({0: request}, job.config, lambda *_: None)[0].value
    )


class WholeTexts:
    """Distributions of block requests without a cache: every row with all that was finished before it."""

    def __init__(self, logits: Callable[[Tensor, Tensor, Tensor], Tensor], mask: int, size: int) -> None:
        """Args: logits: Logits [n, V] by ids, positions and attention mask. mask: Mask id. size: Size of finished
        blocks."""
        self._logits, self._mask, self._size = logits, mask, size
        self._finished = torch.empty(0, dtype=torch.long)

    def __call__(self, request: Any, temperature: float = 1.0) -> Tensor:
        past = self._finished[: request.finished]
        position = torch.cat([torch.arange(len(past)), request.position])
        seen = masks.prefix_mask(masks.block_causal(len(past), self._size), request.attention_mask)
        rows = [
            self._logits(torch.cat([past, row]), position, seen)[len(past) + request.output_index]
            for row in request.tokens
        ]
        self._finished = torch.cat([past, request.tokens[0, : request.num_to_cache]])
        logits = torch.stack(rows).double() / temperature
        logits[..., self._mask] = -torch.inf
        return request.trim(logits.softmax(-1))
