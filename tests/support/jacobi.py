"""Runs of speculative Jacobi decoding on a small toy raster; only their times and settings are made up."""

from dataclasses import dataclass, replace
from unittest.mock import patch

import torch

from engines.models import toy_raster
from engines.runtime.request import Request
from engines.testing.conformance import finish
from traces.schema import Milliseconds, Scalar, Trace
from traces.stats import summarise


@dataclass(frozen=True)
class Raster:
    """How large the square picture is, and how many codes there are."""

    side: int = 8
    codes: int = 32


def decode(
    *, coupling: str = "maximal", window: int = 16, alpha: float = 1.0, seed: int = 0, raster: Raster = Raster()
) -> Trace:
    """Decode a picture with a window of drafts."""
    return _run("scd", {"coupling": coupling, "window": window, "alpha": alpha}, "jacobi", seed, raster)


def ordinary(*, seed: int = 0, raster: Raster = Raster()) -> Trace:
    """Decode one token a step."""
    return _run("ar", {}, "ordinary", seed, raster)


def _run(method: str, config: dict[str, Scalar], name: str, seed: int, raster: Raster) -> Trace:
    with patch.multiple(toy_raster, SIDE=raster.side, LEVELS=raster.codes):
        model = toy_raster.ToyRaster(torch.device("cpu"))
        trace = finish(Request(method, model, "", seed=seed, settings=config).job())
    steps = []
    for k, step in enumerate(trace.steps):
        drafts = step.call.query_tokens
        spent = Milliseconds(
            prepare=0.4, forward=8 + 0.06 * drafts + k % 7 / 10, logits=0.3, decide=0.1 + 0.02 * drafts
        )
        steps.append(replace(step, call=replace(step.call, milliseconds=spent)))
    summary = summarise(steps, len(trace.output.tokens), complete=True)
    run = replace(trace, method=name, config=config, prompt="a smooth picture", created="2026-01-01T00:00:00Z")
    return replace(run, steps=tuple(steps), summary=summary)
