"""Verifying drafts at a vocabulary of any size: here beside the plain form that released samplers have."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from engines.config import make_config
from engines.methods import METHODS
from engines.models.sessions.discrete import DiscreteSession
from engines.protocol import Decision, Task
from engines.sampling.chance import SeededChance
from traces.schema import Canvas

_PASSES: Final = 6
_BEFORE: Final = 2
"""Passes that fill the window, which are not timed."""
_NEAR: Final = 0.4
"""How far the logits of a position move from one pass to the next, of a spread of 3; most drafts are kept then."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is verified, and how distributions are cut."""

    coupling: str
    vocabulary: int
    window: int
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        """The case in words."""
        cut = f", top-k {self.top_k}" if self.top_k else f", top-p {self.top_p:g}" if self.top_p < 1 else ""
        return f"{self.coupling}, V = {self.vocabulary:,}, L = {self.window}{cut}"


class Preset(DiscreteSession):
    """A model whose logits are at hand, so that nothing but the handling of distributions takes time."""

    def __init__(self, case: Case) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = (case.window, case.vocabulary)
        self.table = 3 * torch.randn(shape, generator=generator)
        self.moved = self.table + _NEAR * torch.randn(shape, generator=generator)
        self.asked = 0

    def logits(self, requests: Mapping[int, Any]) -> Tensor:
        """See `DiscreteSession.logits`; two sets of logits that are alike take turns."""
        (request,) = requests.values()
        self.asked += 1
        table = self.moved if self.asked % 2 else self.table
        return table[: request.wanted][None, None]


def ours(case: Case, session: Preset, passes: int = _PASSES) -> float:
    """Seconds of processor time a pass, of all that SCD does beside the network."""
    settings = {"coupling": case.coupling, "window": case.window, "top_k": case.top_k, "top_p": case.top_p}
    config: Any = make_config(METHODS["scd"].config, settings)
    length = case.window * (_BEFORE + passes + 1)
    task = Task(Canvas(kind="text", shape=(length,)), case.vocabulary, torch.device("cpu"))
    decoder, taken = METHODS["scd"].decode(task, config, SeededChance(0)), 0.0
    answer: Any = None
    for i in range(_BEFORE + passes):
        begun = time.process_time()
        request: Any = decoder.send(answer)
        probs = session.answer({0: request}, config, lambda *_: None)[0].value
        decision = decoder.send(probs)
        assert isinstance(decision, Decision)
        answer = tuple(decision.readback.tolist())
        taken += time.process_time() - begun if i >= _BEFORE else 0.0
    return taken / passes


@torch.inference_mode()
def released(case: Case, session: Preset, passes: int = _PASSES) -> float:
    """The same of the plain form: one softmax, one look at each draft, one redraw of every position, in float32."""
    q = session.table[: case.window].softmax(-1)
    x = q.argmax(-1)
    begun = time.process_time()
    for i in range(passes):
        logits = (session.moved if i % 2 else session.table)[: case.window].clone()
        if case.top_k:
            logits[logits < logits.topk(case.top_k).values[:, -1:]] = -torch.inf
        if case.top_p < 1:
            ordered, index = logits.sort(descending=True)
            before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
            logits[(before >= case.top_p).scatter(1, index, before >= case.top_p)] = -torch.inf
        p = logits.softmax(-1)
        kept = torch.rand(len(x)) < p.gather(1, x[:, None])[:, 0] / q.gather(1, x[:, None])[:, 0]
        fresh = torch.multinomial(p, 1)[:, 0]
        q, x = p, torch.where(kept, x, fresh)
    return (time.process_time() - begun) / passes
