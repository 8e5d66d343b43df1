"""Runs of speculative Jacobi decoding on a small smooth raster; only their times and settings are made up."""

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from engines.config import make_config
from engines.methods import METHODS
from engines.models.sessions.discrete import DiscreteSession
from engines.models.toy_raster import ToyRaster
from engines.protocol import Task
from engines.runtime.driver import Job, Run
from traces.schema import Canvas, Legend, Milliseconds, ModelCard, Output, Scalar, Tiles, Trace
from traces.stats import summarise

TILE = 4


@dataclass(frozen=True)
class Raster:
    """How large the picture is, and how many codes there are."""

    rows: int = 8
    columns: int = 8
    codes: int = 32


class Model(ToyRaster):
    """The toy raster of any size."""

    def __init__(self, raster: Raster) -> None:
        super().__init__(torch.device("cpu"))
        self.raster, self.card = raster, ModelCard(id="toy/raster", title="Toy raster")
        self.levels = torch.linspace(-1, 1, raster.codes, dtype=torch.float64)

    def make_task(self, prompt: str, config: Any) -> Task:
        canvas = Canvas(kind="image", shape=(self.raster.rows, self.raster.columns))
        return Task(canvas, self.raster.codes, self.device, self.levels[:, None])

    def start(self, tasks: Sequence[Task], guided: bool) -> Any:
        return Session(self)

    def legend(self, canvases: Any, mentioned: Any = ()) -> Legend:
        shades = np.linspace(20, 235, self.raster.codes)
        atlas = np.stack([shades, 0.8 * shades + 20, 255 - 0.6 * shades], -1).astype(np.uint8)
        data = io.BytesIO()
        Image.fromarray(np.repeat(np.repeat(atlas[None], TILE, 0), TILE, 1)).save(data, "PNG")
        url = "data:image/png;base64," + b64encode(data.getvalue()).decode()
        return Legend(tiles=Tiles(png=url, size=TILE, columns=self.raster.codes))

    def output(self, tokens: Sequence[int | None]) -> Output:
        return Output(tokens=tuple(tokens))


class Session(DiscreteSession):
    def __init__(self, model: Model) -> None:
        self._levels, self._raster = model.levels, model.raster

    def logits(self, requests: Mapping[int, Any]) -> Tensor:
        lanes = [
            torch.stack([self._law(r.tokens, at) for at in range(r.done, len(r.tokens) + 1)]) for r in requests.values()
        ]
        return torch.nn.utils.rnn.pad_sequence(lanes, batch_first=True)[:, None]

    def _law(self, tokens: Tensor, position: int) -> Tensor:
        row, column = divmod(position, self._raster.columns)

        def value(row: int, column: int) -> float:
            inside = row >= 0 and column >= 0
            return float(self._levels[tokens[row * self._raster.columns + column]]) if inside else 0.0

        mean = 0.55 * value(row, column - 1) + 0.55 * value(row - 1, column) - 0.2 * value(row - 1, column - 1)
        return -((self._levels - mean) ** 2) / (2 * 0.25**2)


def decode(
    *, coupling: str = "maximal", window: int = 16, alpha: float = 1.0, seed: int = 0, raster: Raster | None = None
) -> Trace:
    """Decode a picture with a window of drafts."""
    return _run("scd", {"coupling": coupling, "window": window, "alpha": alpha}, "jacobi", seed, raster)


def ordinary(*, seed: int = 0, raster: Raster | None = None) -> Trace:
    """Decode one token a step."""
    return _run("ar", {}, "ordinary", seed, raster)


def _run(method: str, config: dict[str, Scalar], name: str, seed: int, raster: Raster | None) -> Trace:
    chosen = METHODS[method]
    run = Run(Job(chosen, Model(raster or Raster()), "", make_config(chosen.config, config), seed))
    for _ in run:
        pass
    trace = run.trace()
    steps = []
    for k, step in enumerate(trace.steps):
        drafts = step.call.query_tokens
        spent = Milliseconds(
            prepare=0.4, forward=8 + 0.06 * drafts + k % 7 / 10, logits=0.3, decide=0.1 + 0.02 * drafts
        )
        steps.append(replace(step, call=replace(step.call, milliseconds=spent)))
    made = summarise(steps, len(trace.output.tokens), complete=True)
    head: dict[str, Any] = {
        "method": name,
        "config": config,
        "prompt": "a smooth picture",
        "created": "2026-01-01T00:00:00Z",
    }
    return replace(trace, steps=tuple(steps), summary=made, **head)
