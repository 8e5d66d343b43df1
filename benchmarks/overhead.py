"""Overhead of the engine over hand-written code: ratios of processor time, measured alternately in one process.

Compared are: the baseline with a loop over the same network with a cache; SCD outside the network with the plain form
of released samplers at vocabularies of real models; runs with and without recording; and batched decoding with single
runs. Only one thread of a CPU is measured: processor time hardly depends on other load, and on a GPU it is meaningless.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from benchmarks import _reference_loops as _by_hand
from benchmarks import _timing as _runs
from benchmarks._reference_loops import Case, FixedLogits, reference_verification, verified
from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, spread, upper_limit
from benchmarks._timing import decode, job, jobs, prompts
from benchmarks.text import ORDINARY, PAYS, POLICY
from benchmarks.text import job as text_job
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime import driver
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.problems import held_out, problems_of
from draftscope.traces.labels import COUPLINGS

MAX_ADDED_MILLISECONDS: Final = 1.0
"""In a pass: 100 passes then take a tenth of a second more, which is too short to notice."""
MAX_OF_RELEASED: Final = 1.0
WINDOWS: Final = (4, 8, 16, 32, 64, 128)
MAX_RECORDING_PERCENT: Final = 5.0
MIN_GAIN: Final = 1.1
"""Times as fast as one run after the other: from there on a grid is done sooner in lockstep."""
LOCKSTEP: Final = 16
RECORDED: Final = (8, 32, 64)
VOCABULARIES: Final = (16_384, 65_536)
CUTS: Final[tuple[dict[str, Any], ...]] = ({}, {"top_k": 2000}, {"top_p": 0.8})

Pair = tuple[float, float]
"""Seconds of two runs, the one that is measured first."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("lean", __doc__, images=4, repeats=5).read(arguments)
    count = chosen.images
    rows = [row for size in VOCABULARIES for window in (16, 32, 128) for row in verification(size, window)]
    claims = [*against_loops(count, chosen.repeats), *outside_network(count), *worst_cases(rows), *recording(count)]
    together = in_lockstep(chosen.repeats)
    minimum = min(together, key=lambda row: float(row["gain_median"]))
    name = "Lockstep of 16: times as fast as one run after the other, the least"
    reason = f"{minimum['decoder']}; {100 * minimum['bare_median']:.0f} % of the time are bare passes"
    claims.append(lower_limit(name, minimum["gain_median"], MIN_GAIN, reason=reason))
    finish(chosen, "What the engine costs", claims, [*rows, *together])


def time_alternating(one: Callable[[], object], other: Callable[[], object], repeats: int) -> list[Pair]:
    """Return the seconds of two functions, which alternate in running first."""

    def clocked(do: Callable[[], object]) -> float:
        begun = time.process_time()
        do()
        return time.process_time() - begun

    pairs = []
    for i in range(repeats):
        first, second = [clocked(do) for do in ((one, other) if i % 2 else (other, one))]
        pairs.append((first, second) if i % 2 else (second, first))
    return pairs


def ratios(pairs: Sequence[Pair]) -> list[float]:
    """Time of the one over that of the other."""
    return [ours / theirs for ours, theirs in pairs]


def against_loops(count: int, repeats: int) -> list[Claim]:
    """Ordinary decoding of pictures and texts over loops written by hand."""
    model: Any = load_model("studio-image")
    drawn = jobs("ar", model, prompts("studio-image", count))
    words: Any = load_model("text-target")
    answers = [text_job(ORDINARY, words, problem) for problem in held_out()[:count]]
    by_hand: dict[str, list[tuple[Job, Callable[[], object]]]] = {
        "pictures": [(one, partial(_by_hand.picture, model, one.prompt, one.sample)) for one in drawn],
        "text, block size 1": [(one, partial(_by_hand.text, words, one.prompt, one.config)) for one in answers],
    }
    claims = []
    for name, runs in by_hand.items():
        passes = statistics.fmean(decode([one]).forwards for one, _ in runs)
        pairs = [pair for one, loop in runs for pair in time_alternating(partial(driver.decode, [one]), loop, repeats)]
        name = f"Ordinary decoding, {name}: added to a pass of a loop written by hand"
        claims.append(added(name, pairs, passes, "the loop"))
    return claims


def outside_network(count: int) -> list[Claim]:
    """Return claims on the time a pass spends outside the network of a studio model, at every window."""
    model, claims = load_model("studio-image"), []
    for window in WINDOWS:
        runs = [decode([one]) for one in jobs("maximal", model, prompts("studio-image", count), window=window)]
        pairs = [(run.seconds, run.forward_seconds) for run in runs]
        name = f"Outside the network in a pass, MC-SJD on pictures, L = {window}"
        claims.append(added(name, pairs, statistics.fmean(run.forwards for run in runs), "the network"))
    return claims


def verification(vocabulary: int, window: int, passes: int = 4) -> list[Row]:
    """Time of SCD outside the network over the plain form, for every coupling and truncation."""
    rows: list[Row] = []
    for case in (Case(coupling, vocabulary, window, **cut) for coupling in COUPLINGS for cut in CUTS):
        session = FixedLogits(case)
        pairs = [(verified(case, session, passes), reference_verification(case, session, passes)) for _ in range(2)]
        ours, plain = (min(seconds) for seconds in zip(*pairs, strict=True))
        rows.append({
            "method": "scd",
            "vocabulary": vocabulary,
            "window": window,
            "coupling": case.coupling,
            "case": str(case),
            "milliseconds": 1e3 * ours,
            "milliseconds_released": 1e3 * plain,
            "ratio": ours / plain,
        })  # fmt: skip
    return rows


def worst_cases(rows: Sequence[Row]) -> list[Claim]:
    """For each coupling, the case with the highest ratio to the plain form."""
    claims = []
    for coupling in COUPLINGS:
        worst = max((row for row in rows if row["coupling"] == coupling), key=lambda row: row["ratio"])
        name = f"Verification, {coupling}: time over the plain form of released samplers, at worst"
        reason = (
            f"{worst['case']}: {worst['milliseconds']:.1f} against {worst['milliseconds_released']:.1f} ms a pass; "
            "a softmax, the truncation, a look at each draft and a draw of every row, in float32"
        )
        claims.append(upper_limit(name, worst["ratio"], MAX_OF_RELEASED, reason=reason))
    return claims


def recording(count: int) -> list[Claim]:
    """Return claims on the cost of recording, and of building steps: pictures, a text, continuous tokens."""
    image, words, patch = (load_model(name) for name in ("studio-image", "text-target", "patch-target"))
    prompt = prompts("studio-image", 1)[0]
    cases = {f"pictures, L = {n}": job("maximal", image, prompt, 0, window=n) for n in RECORDED} | {
        "text, confidence": text_job(POLICY, words, held_out()[0]),
        "CSpD, gamma = 2": RunRequest("cspd-block", patch, prompt, settings={"gamma": 2}).job(),
    }
    claims = []
    for name, one in cases.items():
        pairs = time_alternating(partial(driver.decode, [one], record=True), partial(driver.decode, [one]), 2 * count)
        passes = decode([one]).forwards
        making_seconds = statistics.median(making(one) for _ in range(2 * count))
        also = f"what is not recorded, and {1e3 * making_seconds / passes:.2f} to make the steps later"
        comparison = cost(pairs, passes, MAX_RECORDING_PERCENT / 100, also)
        percent = [100 * (ratio - 1) for ratio in ratios(pairs)]
        claims.append(claim(f"Time that recording adds, {name}", percent, MAX_RECORDING_PERCENT, "%", comparison))
    return claims


def making(one: Job) -> float:
    """Seconds that the steps of a recorded run take to be made."""
    (sequence,) = driver.decode([one], record=True)
    begun = time.process_time()
    assert sequence.steps
    return time.process_time() - begun


def in_lockstep(repeats: int) -> list[Row]:
    """Return the rows of `_timing.in_lockstep`, for a method of every kind."""
    image, clips, patch, words = map(load_model, ("studio-image", "studio-video", "patch-target", "tally-target"))
    captions, problems = prompts("studio-image", LOCKSTEP), problems_of("tally-target")[:LOCKSTEP]
    cases = {
        "Pictures": jobs("ar", image, captions),
        "MC-SJD, pictures": jobs("maximal", image, captions, window=32),
        "MC-SJD, clips": jobs("maximal", clips, [f"clip {i + 1}" for i in range(LOCKSTEP)]),
        "Patches": jobs("continuous", patch, captions),
        "CSpD, whole paths (ours)": jobs("cspd-block", patch, captions),
        "Text, speculative decoding": [RunRequest("speculative", words, one.question).job() for one in problems],
    }
    for label in (ORDINARY, POLICY, "S2D2, block 16", PAYS, "SimSD, shared passes (ours)"):
        cases[f"Text, {label}"] = [text_job(label, words, problem) for problem in problems]
    return [_runs.in_lockstep(batch, repeats, label) for label, batch in cases.items()]


def cost(pairs: Sequence[Pair], passes: float, share: float, baseline: str) -> str:
    """Return what something adds to a pass, and the pass time at which that is at most `share`.

    A share may be large only because the model is small. `pairs` are seconds of whole runs with and without it.
    """
    without = 1e3 * statistics.median(less for _, less in pairs) / passes
    added = 1e3 * statistics.median(total - less for total, less in pairs) / passes
    words = f"{added:.2f} ms a pass beside {without:.2f} of {baseline}"
    min_passes = added / share
    return words if min_passes <= without else f"{words}; within the target for passes of {min_passes:.1f} or more"


def added(name: str, pairs: Sequence[Pair], passes: float, baseline: str) -> Claim:
    """The claim that what is added to a pass is too short to be noticed."""
    milliseconds = [1e3 * (total - less) / passes for total, less in pairs]
    without = 1e3 * statistics.median(less for _, less in pairs) / passes
    percent = 100 * (statistics.median(ratios(pairs)) - 1)
    return claim(
        name, milliseconds, MAX_ADDED_MILLISECONDS, "ms", f"{percent:.1f} % of the {without:.2f} ms of {baseline}"
    )


def claim(
    name: str, values: Sequence[float], target: float, unit: str = "", cost: str = "", bound: Any = "at most"
) -> Claim:
    """A ratio or a percentage with a bound."""
    reason = f"{cost}{'; ' * bool(cost)}processor time of one thread; {spread(values)}"
    median = statistics.median(values)
    return Claim(name=name, measured=median, unit=unit, bound=bound, target=target, reason=reason)


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
