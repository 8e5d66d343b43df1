"""Measure this machine in about ten seconds, for draftscope hardware predict: runs of models that ship are timed."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import torch

from draftscope.analysis.hardware import (
    SHIPPED,
    Device,
    Engine,
    HardwareError,
    NetworkSize,
    PassWork,
    pass_cost,
    pass_works,
)
from draftscope.engines.models.fast_decoder import LARGE
from draftscope.engines.models.memory import free_bytes
from draftscope.engines.runtime.driver import Job, decode
from draftscope.engines.runtime.environment import environment
from draftscope.engines.runtime.run_request import RunRequest

_RUNS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("ar", "studio-image-draft", {}),
    ("scd", "studio-image-draft", {"window": 16}),
    ("ar", "studio-image", {}),
    ("scd", "studio-image", {"window": 64}),
    ("ar", "text-draft", {"length": 64}),
    ("ar", "text-target", {"length": 64}),
    *(("scd", "text-target", {"length": 64, "window": window}) for window in (4, 16, 48)),
    ("speculative", "text-target", {"length": 64, "gamma": 2}),
    ("scd", "studio-video", {"window": 32}),
)
"""Passes of 1 to 96 tokens; those of the clip, the last, attend to up to a thousand."""
_TURNS: Final = 3
"""How often all runs are timed. The fastest time of each counts, as other programs slow down the others."""
_UNIT: Final = Device(name="", memory=1, bandwidth=1, peak=1, source="", cache=LARGE)
_ALONE: Final = Engine(name="", overhead=0, verification=0, source="", bandwidth_share=1, compute_share=1, several=1)

Terms = tuple[float, ...]
"""Sums over passes: their number, layers, verifying passes, bytes, flops, attention flops, and layers of passes over
several tokens. Or the seconds per unit of each."""
_BYTES, _FLOPS = 3, 4


def calibrate(device: str | None = None) -> Device:
    """Measure this machine in about ten seconds: what `ds.predict` takes as its device.

    Runs of models that ship are timed, in float32 and with as many threads as torch has.

    Args:
        device: As for a run; by default a GPU if there is one, else the CPU.

    Returns:
        The device with bandwidth in bytes a second, peak in flops a second, and overheads in seconds, as they were
        fitted.

    Raises:
        ConfigError, ModelError: for a device or a model that there is not.
        HardwareError: where the times do not tell the terms apart.
    """
    begun = time.perf_counter()
    jobs = [RunRequest(method, model, settings=settings, device=device).job() for method, model, settings in _RUNS]
    did = [_work(job) for job in jobs]
    runs = list(zip(did, fastest(jobs), strict=True))
    base, overhead, verification, byte, flop, attention, several = fit_terms(runs)
    run_device = jobs[0].model.device
    about, names = environment(run_device, torch.float32), ", ".join(dict.fromkeys(model for _, model, _ in _RUNS))
    threads = f"{about.threads} thread{'s' * (about.threads != 1)}"
    took = f"{time.perf_counter() - begun:.0f} s"
    source = f"measured in {took} with {threads}: {sum(count for (count, *_), _ in runs):.0f} passes of {names}"
    engine = Engine(
        name="as measured", overhead=overhead, verification=verification, source=source, base=base, overlaps=False,
        bandwidth_share=1.0, compute_share=1.0, attention=attention / flop, several=several,
    )  # fmt: skip
    return Device(
        name=f"{about.device}, measured", memory=free_bytes(str(run_device)) or 1e12, bandwidth=1 / byte, peak=1 / flop,
        source=source, engine=engine, cache=LARGE,
    )  # fmt: skip


def _work(job: Job) -> Terms:
    """Return the work of a run's passes; decodes it once, which also warms up."""
    drafter = job.load_drafter()
    target, draft = SHIPPED[job.model.card.id], SHIPPED[drafter.card.id] if drafter else None
    (sequence,) = decode([job], record=True)
    did = [
        _terms(draft if draft and step.call.role == "draft" else target, work)
        for step, work in zip(sequence.steps, pass_works(sequence.steps), strict=True)
    ]
    return tuple(map(sum, zip(*did, strict=True)))


def fastest(jobs: Sequence[Job]) -> list[float]:
    """Seconds that each run takes, not recorded."""
    alone = jobs[0].model.device.type == "cpu" and torch.get_num_threads() == 1
    now = time.process_time if alone else time.perf_counter  # what else the machine does takes none of the former
    seconds = [float("inf") for _ in jobs]
    for number, job in [*enumerate(jobs)] * _TURNS:
        since = now()
        decode([job])
        seconds[number] = min(seconds[number], now() - since)
    return seconds


def _terms(size: NetworkSize, work: PassWork) -> Terms:
    """Return the terms of one pass."""
    cost, total = (pass_cost(_UNIT, size, replace(_ALONE, attention=factor), work) for factor in (0, 1))
    attention = total.compute - cost.compute
    return 1.0, float(size.layers), float(work.judges), cost.memory, cost.compute, attention, cost.overhead


def fit_terms(runs: Sequence[tuple[Terms, float]]) -> Terms:
    """Seconds of the terms, none negative, by least squares of relative errors; raises HardwareError if that fails."""
    shares = np.array([[term / seconds for term in terms] for terms, seconds in runs])
    needed, count = (_BYTES, _FLOPS), shares.shape[1]
    spare = [column for column in range(count) if column not in needed]
    scale, best, lowest = shares.max(axis=0), np.zeros(count), np.inf
    for positive in (
        columns for num_left_out in range(len(spare) + 1) for columns in combinations(spare, num_left_out)
    ):
        columns = [*needed, *positive]
        solution = (
            np.linalg.lstsq(shares[:, columns] / scale[columns], np.ones(len(runs)), rcond=None)[0] / scale[columns]
        )
        error = float(np.square(shares[:, columns] @ solution - 1).sum())
        if solution.min() >= 0 and solution[:2].min() > 0 and error < lowest:
            best, lowest = np.zeros(count), error
            best[columns] = solution
    if lowest == np.inf:
        raise HardwareError("calibrate: the times do not fit the model of a pass; stop other programs.")
    return tuple(best.tolist())


def table(device: Device) -> str:
    """The row of a device, a line a term."""
    engine = device.engine
    assert engine is not None
    return (
        f"{device.name}; {device.source}\n"
        f"memory              {device.memory / 1e9:.1f} GB free\n"
        f"bandwidth           {device.bandwidth / 1e9:.1f} GB/s, without weights under {device.cache / 1e6:.0f} MB\n"
        f"peak                {device.peak / 1e9:.1f} GFLOP/s\n"
        f"a flop of attention {engine.attention:.2f} times another one\n"
        f"a pass adds         {1e3 * engine.base:.3f} ms, and {1e3 * engine.overhead:.3f} ms for every layer, or "
        f"{1e3 * (engine.overhead + engine.several):.3f} ms over several tokens\n"
        f"a verification adds {1e3 * engine.verification:.3f} ms"
    )
