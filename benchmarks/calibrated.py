"""Times of runs on this machine, computed after calibration and measured.

    python -m benchmarks.calibrated [--json FILE] [--repeats R]

`draftscope calibrate` is fitted to ordinary decoding and SCD of pictures and texts, SCD of a clip, and speculative
decoding with two drafts. The runs here are others: of four families, with prompts and settings or methods that it has
not seen. Runs take turns, and the fastest of each counts, as in calibrating. Best on one thread: times are the
processor's then.
"""

import statistics
import sys
from collections.abc import Sequence
from typing import Any, Final

from benchmarks._problems import held_out
from benchmarks._results import Claim, Options, Row, at_most, finish
from benchmarks._runs import decode
from draftscope.calibrating import calibrate, table
from draftscope.predicting import predict
from engines.runtime.driver import Job, run_batch
from engines.runtime.request import Request
from traces.streams import piped

MOST_OFF_PERCENT: Final = 10.0
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
    chosen = Options("calibrated", __doc__, repeats=5).read(arguments)
    device = calibrate()
    rows = measure(device, RUNS, chosen.repeats)
    finish(chosen, "Times computed for this machine", claims(rows, table(device)), rows)


def measure(device: Any, runs: Sequence[tuple[str, str, dict[str, Any]]], repeats: int) -> list[Row]:
    """The time of every run, the least of several, and the computed one."""
    jobs: list[Job] = [
        Request(method, model, PROMPTS.get(model) or held_out()[1].question, settings=settings, seed=1).job()
        for method, model, settings in runs
    ]
    computed = [predict(run_batch([job])[0], device) for job in jobs]
    turns = [[decode([job]).seconds for job in jobs] for _ in range(repeats)]
    return [
        {
            "method": method,
            "model": model,
            "setting": ", ".join(f"{name} {value}" for name, value in settings.items()),
            "passes": len(made.passes),
            "milliseconds": 1e3 * min(times),
            "milliseconds_computed": 1e3 * made.seconds,
            "off_percent": 100 * (made.seconds / min(times) - 1),
        }
        for (method, model, settings), made, *times in zip(runs, computed, *turns, strict=True)
    ]


def claims(rows: Sequence[Row], device: str) -> list[Claim]:
    """How far the computed times are off, at worst and on average."""
    off = [abs(each["off_percent"]) for each in rows]
    within = sum(one <= MOST_OFF_PERCENT for one in off)
    reason = f"{within} of {len(off)} runs are within it, {statistics.fmean(off):.1f} % off on average; {device}"
    name = "Times computed after draftscope calibrate: off the measured ones, at worst"
    return [at_most(name, max(off), MOST_OFF_PERCENT, "%", reason)]


if __name__ == "__main__":
    sys.exit(piped(main))
