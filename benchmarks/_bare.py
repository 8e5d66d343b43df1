"""What one would write by hand in place of the engine: the loops and passes that it is measured against."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from engines.models.studio.networks import GRID, condition_ids

QUESTION: Final = 64
"""Tokens of a question and what was answered so far, about."""


class Slot:
    """Keys and values of one layer in a buffer, written behind `end`."""

    def __init__(self, rows: int, layer: Any, count: int) -> None:
        both, dim = layer.scale.shape
        self.keys = torch.zeros(rows, both // 2, count, dim)
        self.values, self.end = torch.zeros_like(self.keys), 0

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write, and give all up to what was written."""
        last = self.end + keys.shape[2]
        self.keys[:, :, self.end : last], self.values[:, :, self.end : last] = keys, values
        return self.keys[:, :, :last], self.values[:, :, :last]


class Memory(Cache):  # type: ignore[misc]
    """A cache as `LeanQwen3` uses one."""

    def __init__(self, backbone: Any, count: int, rows: int = 1) -> None:
        super().__init__(layers=[Slot(rows, layer, count) for layer in backbone.layers])

    def go_to(self, end: int) -> None:
        """The next tokens stand at `end`."""
        for layer in self.layers:
            layer.end = end


@torch.inference_mode()
def picture(model: Any, prompt: str, config: Any, seed: int) -> Tensor:
    """A picture by ordinary decoding, one pass a token."""
    network, asked = model._transformer, model.pose(prompt, config).asked
    generator = torch.Generator().manual_seed(seed)
    ids = condition_ids(torch.tensor([[-1 if value is None else value for value in asked]]))
    start, memory, found = ids.shape[1], Memory(network.backbone, network.prefix + GRID**2), []
    place = torch.arange(start + GRID**2)
    for n in range(GRID**2):
        first = n and start + n - 1
        memory.go_to(first)
        probs = network(ids, place[None, first : start + n], memory)[:, -1].softmax(-1)
        ids = torch.multinomial(probs, 1, generator=generator)
        found.append(ids)
    return torch.cat(found, 1)


@torch.inference_mode()
def text(model: Any, prompt: str, config: Any) -> list[int]:
    """A text at block size 1: the last token and a mask beside it, which becomes the likeliest token."""
    task = model.pose(prompt, config)
    network, ids = model._network, torch.tensor([[*task.prompt, task.mask]])
    place, found = torch.arange(len(task.prompt) + task.length), list[int]()
    memory, first = Memory(network.model, len(place)), 0
    while len(found) < task.length:
        last = len(task.prompt) + len(found)
        memory.go_to(first)
        seen = place[: last + 1] <= place[first : last + 1, None]
        mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)[None, None]
        states = network.model(
            ids, position_ids=place[None, first : last + 1], attention_mask=mask, past_key_values=memory
        )
        logits = network.lm_head(states.last_hidden_state[:, -1])[0]
        logits[task.mask] = -torch.inf
        found.append(int(logits.argmax()))
        if found[-1] in task.ends:
            break
        first, ids = last, torch.tensor([[found[-1], task.mask]])
    return found


@torch.inference_mode()
def gain(model: Any, lanes: int, width: int, repeats: int = 12) -> float:
    """How many more tokens a second bare passes give with `lanes` rows than with one.

    Half-way through a picture, or behind as many tokens as a question has.
    """
    if hasattr(model, "_transformer"):
        network, backbone, half = model._transformer, model._transformer.backbone, GRID**2 // 2
    else:
        network, backbone, half = partial(_words, model._network), model._network.model, QUESTION
    place = torch.arange(half, half + width)[None]
    passes: dict[int, Callable[[], object]] = {}
    for rows in (1, lanes):
        memory = Memory(backbone, half + width, rows)
        hidden = torch.arange(half + width) > place[:, None, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min).expand(rows, -1, -1, -1)
        ids = torch.zeros(rows, width, dtype=torch.long)
        passes[rows] = partial(_bare_pass, network, (ids, place.expand(rows, -1), memory, mask))
    spent = {rows: [clocked(one) for _ in range(repeats)] for rows, one in passes.items()}
    one, many = (sorted(each)[repeats // 2] for each in spent.values())
    return lanes * one / many


def _words(network: Any, ids: Tensor, place: Tensor, memory: Memory, mask: Tensor) -> Tensor:
    states = network.model(ids, position_ids=place, attention_mask=mask, past_key_values=memory)
    logits: Tensor = network.lm_head(states.last_hidden_state)
    return logits


def _bare_pass(network: Any, given: tuple[Tensor, Tensor, Memory, Tensor]) -> Tensor:
    ids, place, memory, mask = given
    memory.go_to(int(place[0, 0]))
    probs: Tensor = network(ids, place, memory, mask).softmax(-1)
    return probs


@torch.inference_mode()
def passes(network: Any, count: int) -> None:
    """Passes of four tokens without a cache."""
    for _ in range(count):
        network(torch.zeros(1, 4, dtype=torch.long), torch.arange(4)[None])


def clocked(do: Callable[[], object]) -> float:
    """Processor seconds of doing it."""
    begun = time.process_time()
    do()
    return time.process_time() - begun
