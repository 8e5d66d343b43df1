"""Times of runs on this machine, computed after calibration and measured.

    python -m benchmarks.calibration_error [--json FILE] [--rounds R]

`draftscope hardware calibrate` is fitted to the baseline and SCD on pictures and texts, SCD on a clip, and speculative
decoding with two drafts. The runs here are others: of four families, with unseen prompts and settings or methods. A
machine's speed drifts, so each round calibrates again and then times the runs in the same way. Best on one thread:
times are then processor time.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import torch

from benchmarks._report_format import Claim, Options, Row, finish, upper_limit
from draftscope.calibration import calibrate, fastest
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.devices import resolve
from draftscope.engines.runtime.driver import run_batch
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.problems import held_out
from draftscope.prediction import predict

MAX_OFF_PERCENT: Final = 10.0
RUNS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("speculative", "text-target", {"drafter": "small", "gamma": 4, "length": 64}),
    ("speculative", "text-target", {"drafter": "lookup", "gamma": 8, "length": 64}),
    ("scd", "studio-image", {"window": 12}),
    ("scd", "studio-image", {"window": 48, "coupling": "gumbel"}),
    ("scd", "studio-video", {"window": 16}),
    ("scd", "studio-video", {"window": 64}),
    ("blockwise", "text-target", {"block": "8", "length": 64}),
    ("s2d2", "text-target", {"block": "32", "length": 64}),
)
PROMPTS: Final = {"studio-image": "a cat at night", "studio-video": "clip 9"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("calibrated", __doc__, rounds=5).read(arguments)
    rows = compare((calibrate() for _ in range(chosen.rounds)), RUNS)
    finish(chosen, "Times computed for this machine", claims(rows), rows, torch.device(resolve()))


def compare(devices: Iterable[Any], runs: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Row]:
    """The times of every run, computed for each device and measured right after it is made: medians."""
    jobs = [
        RunRequest(method, model, PROMPTS.get(model) or held_out()[1].question, settings=settings, seed=1).job()
        for method, model, settings in runs
    ]
    traces = [run_batch([job])[0] for job in jobs]
    times = np.array([([predict(trace, device).seconds for trace in traces], fastest(jobs)) for device in devices])
    off = 100 * (times[:, 0] / times[:, 1] - 1)  # [rounds, runs]
    return [
        {
            "method": method,
            "model": model,
            "setting": ", ".join(f"{name} {value}" for name, value in settings.items()),
            "passes": len(trace.steps),
            "milliseconds": 1e3 * measured,
            "milliseconds_computed": 1e3 * computed,
            "off_percent": 100 * (computed / measured - 1),
            "off_percent_by_round": rounds,
        }
        for (method, model, settings), trace, (computed, measured), rounds in zip(
            runs, traces, np.median(times, axis=0).T.tolist(), off.T.tolist(), strict=True
        )
    ]


def claims(rows: Sequence[Row]) -> list[Claim]:
    """How far the computed times are off, at worst and on average."""
    off, rounds = (np.abs([row[name] for row in rows]) for name in ("off_percent", "off_percent_by_round"))
    each = ", ".join(f"{one:.1f}" for one in rounds.mean(axis=0))
    reason = f"{sum(off <= MAX_OFF_PERCENT)} of {len(off)} runs are within it, {off.max():.1f} % off at worst; "
    name = "Times computed after draftscope hardware calibrate: off the measured ones, on average"
    return [upper_limit(name, float(off.mean()), MAX_OFF_PERCENT, "%", f"{reason}round by round {each} %")]


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
