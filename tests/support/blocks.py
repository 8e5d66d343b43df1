"""Runs of text decoded in blocks by the bundled language models, warm enough that drafts are rejected."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.settings import make_config
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Trace

PROMPT = (
    "Ana has 3 boxes with 12 pencils each. She gives 9 to her brother and buys 2 boxes.\n"
    "How many pencils does Ana have?"
)
"""Prompt of whole blocks of eight tokens."""


@dataclass(frozen=True)
class Blocks:
    """Settings of a run."""

    block: int = 8
    length: int = 64
    seed: int = 0
    threshold: float = 0.75
    cost: float = 1.3
    """Verify when the drafts expected to pass exceed this many."""


def s2d2(run: Blocks = Blocks(), **fields: Any) -> Trace:
    """A model drafts a block, the router decides, and the same model verifies the first open span token by token.

    Only verifications keep their masks.
    """
    settings = {"router": "score", "verification_cost": run.cost, "layout": "full", "threshold": run.threshold}
    trace = _decoded("s2d2", run, mode="sample", verdict="ratio", **settings)
    steps = tuple(step if step.call.mode == "verify" else replace(step, mask=None) for step in trace.steps)
    return replace(trace, steps=steps, **fields)


def diffusion(run: Blocks = Blocks(), **fields: Any) -> Trace:
    """The model without verification: every pass unmasks what is confident enough."""
    return replace(_decoded("blockwise", run, mode="sample", rule="confidence", threshold=run.threshold), **fields)


def simsd(run: Blocks = Blocks(block=4), **fields: Any) -> Trace:
    """A small model reveals a block one token per pass, a large one verifies the drafts in that order at once."""
    return replace(_decoded("simsd", run, mode="sample", verdict="ratio", gamma=run.block), **fields)


@cache
def _decoded(method: str, run: Blocks, **values: object) -> Trace:
    shared = {"block": str(run.block), "length": run.length, "temperature": 1.5}
    config = make_config(METHODS[method].config, shared | values)
    model, small = load_model("text-target"), load_model("text-draft")
    return finish(Job(METHODS[method], model, PROMPT, config, run.seed, drafter=small))
