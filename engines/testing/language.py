"""`Depth` as a model that the driver can run: it takes prompts, decodes several texts together, and keeps a cache."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import TextTask
from engines.models.sessions.discrete import DiscreteSession
from engines.protocol import Family
from engines.testing.depth import Depth
from traces.schema import Legend, ModelCard, Output

LETTERS: Final = ".abcdefg"
"""The vocabulary; the stop ends a text. The id behind the last is the mask."""
END: Final = 0


class DepthModel:
    """A block-causal model of eight letters."""

    tokens = LETTERS
    families: tuple[Family, ...] = ("diffusion-lm",)
    parameters = 0

    def __init__(self, seed: int = 0) -> None:
        self.depth = Depth(len(LETTERS), seed=seed, sharpness=6)
        self.card = ModelCard(id="depth")
        self.device, self.dtype = torch.device("cpu"), torch.float64

    def make_task(self, prompt: str, config: Any) -> TextTask:
        """See `engines.protocol.Model.make_task`."""
        if not prompt or not set(prompt) < set(LETTERS):
            raise ValueError(f"prompt: {prompt!r} must be made of the letters {LETTERS[1:]}.")
        size = int(getattr(config, "size", 1))
        return replace(self.depth.task(config.length, tuple(map(LETTERS.index, prompt)), END, size), card=self.card)

    def start(self, tasks: Sequence[TextTask], guided: bool) -> "DepthSession":
        """See `engines.protocol.Model.start`."""
        return DepthSession([replace(self.depth, finished=[]) for _ in tasks])

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """See `engines.protocol.Model.legend`."""
        return Legend(vocabulary=dict(enumerate(LETTERS)), ends=(END,))

    def output(self, tokens: Sequence[int | None]) -> Output:
        """See `engines.protocol.Model.output`."""
        text = "".join("-" if token is None else LETTERS[token] for token in tokens)
        return Output(tokens=tuple(tokens), text=text.partition(LETTERS[END])[0])


class DepthSession(DiscreteSession):
    """A model and its cache for every sequence."""

    def __init__(self, models: Sequence[Depth]) -> None:
        self._models = models

    def logits(self, requests: Mapping[int, BlockForward]) -> Tensor:
        """See `DiscreteSession.logits`."""
        logs = [self._models[i].all_probs(request).log() for i, request in requests.items()]  # [K, m, V] each
        most, longest = (max(log.shape[axis] for log in logs) for axis in (0, 1))
        padded = [pad(log, (0, 0, 0, longest - log.shape[1], 0, most - log.shape[0])) for log in logs]
        return torch.stack(padded)[:, :, None]
