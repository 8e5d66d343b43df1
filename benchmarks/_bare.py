"""What one would write by hand in place of the engine: the loops and passes that it is measured against."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from engines.models.bundled.networks import GRID, condition_ids


class Slot:
    """The KV cache of one layer in a buffer, written behind `end`."""

    def __init__(self, layer: Any, count: int) -> None:
        both, dim = layer.scale.shape
        self.keys = torch.zeros(1, both // 2, count, dim)
        self.values, self.end = torch.zeros_like(self.keys), 0

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write, and give all up to what was written."""
        last = self.end + keys.shape[2]
        self.keys[:, :, self.end : last], self.values[:, :, self.end : last] = keys, values
        return self.keys[:, :, :last], self.values[:, :, :last]


class Memory(Cache):  # type: ignore[misc]
    """A cache as `LeanQwen3` uses one."""

    def __init__(self, backbone: Any, count: int) -> None:
        super().__init__(layers=[Slot(layer, count) for layer in backbone.layers])

    def go_to(self, end: int) -> None:
        """The next tokens stand at `end`."""
        for layer in self.layers:
            layer.end = end


@torch.inference_mode()
def picture(model: Any, prompt: str, config: Any, seed: int) -> Tensor:
    """A picture by ordinary decoding, one pass a token."""
    network, asked = model._transformer, model.make_task(prompt, config).asked
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
    task = model.make_task(prompt, config)
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
def passes(network: Any, count: int) -> None:
    """Passes of four tokens without a cache."""
    for _ in range(count):
        network(torch.zeros(1, 4, dtype=torch.long), torch.arange(4)[None])


def clocked(do: Callable[[], object]) -> float:
    """Processor seconds of doing it."""
    begun = time.process_time()
    do()
    return time.process_time() - begun
