"""Hand-written counterparts of the engine: decoding loops, and the verification of released samplers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled.image_networks import GRID, condition_ids
from draftscope.engines.models.bundled.prompts import parse_prompt
from draftscope.engines.models.sessions.causal import SlotCache
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.transformers_api import cache_argument
from draftscope.engines.protocol import Decision, Task
from draftscope.engines.sampling.random_source import SeededRandom
from draftscope.engines.settings import make_config
from draftscope.traces.schema import Canvas

_BEFORE: Final = 2
"""Passes that fill the window, which are not timed."""
_NEAR: Final = 0.4
"""How far the logits of a position move from one pass to the next, of a spread of 3; most drafts are kept then."""


@torch.inference_mode()
def picture(model: Any, prompt: str, seed: int) -> Tensor:
    """A picture by ordinary decoding, one pass a token."""
    network = model.network
    generator = torch.Generator().manual_seed(seed)
    ids = condition_ids(torch.tensor([parse_prompt(prompt)]))
    start, cache, tokens = ids.shape[1], SlotCache(len(network.backbone.layers), network.prefix + GRID**2), []
    positions = torch.arange(start + GRID**2)
    for n in range(GRID**2):
        first = n and start + n - 1
        cache.advance(ids.shape[1])
        probs = network(ids, positions[None, first : start + n], cache)[:, -1].softmax(-1)
        ids = torch.multinomial(probs, 1, generator=generator)
        tokens.append(ids)
    return torch.cat(tokens, 1)


@torch.inference_mode()
def text(model: Any, prompt: str, config: Any) -> list[int]:
    """A text at block size 1: a pass over the last token and a mask, which becomes the likeliest token."""
    task = model.make_task(prompt, config)
    network, ids = model.network, torch.tensor([[*task.prompt_ids, task.mask]])
    positions, tokens = torch.arange(len(task.prompt_ids) + task.length), list[int]()
    cache, first = SlotCache(len(network.model.layers), len(positions)), 0
    while len(tokens) < task.length:
        last = len(task.prompt_ids) + len(tokens)
        cache.advance(ids.shape[1])
        seen = positions[: last + 1] <= positions[first : last + 1, None]
        mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)[None, None]
        options = {"attention_mask": mask, cache_argument(network.model): cache}
        states = network.model(ids, position_ids=positions[None, first : last + 1], **options)
        logits = network.lm_head(states.last_hidden_state[:, -1])[0]
        logits[task.mask] = -torch.inf
        tokens.append(int(logits.argmax()))
        if tokens[-1] in task.eos_token_ids:
            break
        cache.crop(-1)  # the mask
        first, ids = last, torch.tensor([[tokens[-1], task.mask]])
    return tokens


@dataclass(frozen=True, slots=True)
class Case:
    """Case of verification: drafts, and the truncation of distributions."""

    coupling: str
    vocabulary: int
    window: int
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        """The case in words."""
        cut = f", top-k {self.top_k}" if self.top_k else f", top-p {self.top_p:g}" if self.top_p < 1 else ""
        return f"{self.coupling}, V = {self.vocabulary:,}, L = {self.window}{cut}"


class FixedLogits(DiscreteSession):
    """A model with fixed logits, so that only the handling of distributions takes time."""

    def __init__(self, case: Case) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = (case.window, case.vocabulary)
        self.table = 3 * torch.randn(shape, generator=generator)
        self.moved = self.table + _NEAR * torch.randn(shape, generator=generator)
        self.calls = 0

    def logits(self, requests: Mapping[int, Any]) -> Tensor:
        """Return one of two similar sets of logits, alternately."""
        (request,) = requests.values()
        self.calls += 1
        table = self.moved if self.calls % 2 else self.table
        return table[: request.num_requested][None, None]


def verified(case: Case, session: FixedLogits, passes: int) -> float:
    """Seconds of processor time per pass of everything that SCD does outside the network."""
    settings = {"coupling": case.coupling, "window": case.window, "top_k": case.top_k, "top_p": case.top_p}
    config: Any = make_config(METHODS["scd"].config, settings)
    length = case.window * (_BEFORE + passes + 1)
    task = Task(Canvas(kind="text", shape=(length,)), case.vocabulary, torch.device("cpu"))
    decoder, seconds = METHODS["scd"].decode(task, config, SeededRandom(0)), 0.0
    answer: Any = None
    for i in range(_BEFORE + passes):
        begun = time.process_time()
        request: Any = decoder.send(answer)
        probs = session.forward({0: request}, config, lambda *_: None)[0].value
        decision = decoder.send(probs)
        assert isinstance(decision, Decision)
        answer = tuple(decision.readback.tolist())
        seconds += time.process_time() - begun if i >= _BEFORE else 0.0
    return seconds / passes


@torch.inference_mode()
def reference_verification(case: Case, session: FixedLogits, passes: int) -> float:
    """Return the time of the plain form.

    One softmax, one check per draft, one sample for every position, in float32.
    """
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
        accepted = torch.rand(len(x)) < p.gather(1, x[:, None])[:, 0] / q.gather(1, x[:, None])[:, 0]
        fresh = torch.multinomial(p, 1)[:, 0]
        q, x = p, torch.where(accepted, x, fresh)
    return (time.process_time() - begun) / passes
