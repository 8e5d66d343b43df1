"""The work of one process of a sweep: decode problems together with one configuration and judge the answers.

A separate module, because processes import the function that they call by its module.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from transformers.utils import logging

from benchmarks._grid import Configuration, key, weights_of
from benchmarks._problems import exam
from benchmarks._runs import decode
from engines.diffusion_lm.sequence import TextTask
from engines.models.catalog import load_model
from engines.protocol import Model
from engines.runtime.driver import Job
from engines.runtime.environment import environment
from engines.runtime.request import Request
from traces.results import ResultRow, row_of
from traces.schema import Step

ANSWER_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Problems that one process decodes in lockstep."""

    model: str
    device: str
    configuration: Configuration
    seed: int
    problems: tuple[int, ...]
    """Places in the list of held-out problems."""


def solve(chunk: Chunk) -> list[ResultRow]:
    """The rows of a chunk."""
    torch.set_num_threads(1)
    model, one = ready(chunk.model, chunk.device), chunk.configuration
    problems = exam(chunk.model).problems
    jobs = [
        Request(one.method, model, problems[i].question, seed=chunk.seed, settings=one.config, sample=i).job()
        for i in chunk.problems
    ]
    run = decode(jobs, record=True)
    return [
        _row(chunk, place, job, tokens, steps)
        for place, (job, tokens, steps) in enumerate(zip(jobs, run.tokens, run.steps, strict=True))
    ]


@cache
def ready(model_id: str, device: str) -> Model:
    """A model that has decoded once, so that no row is charged with loading kernels and growing memory pools."""
    logging.disable_progress_bar()
    model = load_model(model_id, device)
    decode([Request("blockwise", model, exam(model_id).problems[0].question, settings={"length": 8}).job()])
    return model


def _row(chunk: Chunk, place: int, job: Job, tokens: Sequence[int], steps: Sequence[Step]) -> ResultRow:
    one, index, task = chunk.configuration, chunk.problems[place], job.task
    assert isinstance(task, TextTask)
    text, judge = job.model.output(tokens).text or "", exam(chunk.model)
    counted = next((i + 1 for i, token in enumerate(tokens) if token in task.ends), len(tokens))
    seconds = sum(step.call.milliseconds.total / step.call.batch for step in steps) / 1000
    return row_of(
        steps,
        key=key(chunk.model, one, index, chunk.seed),
        method=one.method,
        label=one.label,
        curve=one.curve,
        model=chunk.model,
        weights=weights_of(job),
        config=dict(one.config),
        seed=chunk.seed,
        problem=index,
        correct=judge.solved(text, judge.problems[index].answer),
        answer=judge.given(text)[:ANSWER_CHARACTERS],
        tokens=counted,
        seconds=round(seconds, 6),
        batch=len(chunk.problems),
        device=environment(job.model.device, torch.float32).device,
    )
