"""What the engine costs beside what one would write by hand: ratios of processor time, taken in turns in one process.

    python -m benchmarks.lean [--json FILE] [--images N] [--repeats R] [--vocabularies V ...]

Compared are ordinary decoding with a loop over the same network with a cache, what SCD does beside the network with the
plain form of released samplers at vocabularies of real models, and recorded runs with runs that are not. Only one
thread of a CPU is measured: processor time is the same however busy the machine is, on a GPU it says nothing.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks import _bare
from benchmarks._bare import clocked
from benchmarks._problems import held_out
from benchmarks._released import Case, Preset, ours, released
from benchmarks._results import Claim, Row, command, finish, parser, positive, result, spread
from benchmarks._runs import decode, job, prompts
from benchmarks.text import ORDINARY
from benchmarks.text import job as text_job
from engines.config import make_config
from engines.methods import METHODS
from engines.models.bundled.networks import Transformer
from engines.models.catalog import load_model
from engines.runtime.driver import Job
from traces.measures import COUPLINGS
from traces.streams import piped

MOST_OF_A_LOOP: Final = 1.1
MOST_OF_RELEASED: Final = 1.0
MOST_OUTSIDE_PERCENT: Final = 10.0
MOST_RECORDING_PERCENT: Final = 5.0
WINDOWS: Final = (4, 8, 16, 32, 64, 128)
RECORDED: Final = (8, 32, 64)
CUTS: Final[tuple[dict[str, Any], ...]] = ({}, {"top_k": 2000}, {"top_p": 0.8})
FALLEN: Final = 1.25
USUAL: Final = {
    "Ordinary decoding over a loop": 1.15,
    "The lean form over transformers' own": 0.55,
    "Verification, none, over the plain form": 0.36,
    "Verification, maximal, over the plain form": 0.43,
    "Verification, gumbel, over the plain form": 0.44,
}
"""What was measured when these were written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; 1 where a ratio has fallen, if only that is asked."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser(__doc__)
    options.add_argument("--images", type=positive, default=4)
    options.add_argument("--repeats", type=positive, default=5)
    options.add_argument("--vocabularies", type=positive, nargs="+", default=[16_384, 65_536])
    options.add_argument("--short", action="store_true", help="only whether a ratio has fallen by a quarter")
    chosen = options.parse_args(given)
    if chosen.short:
        found = short()
        finish(result("What the engine costs", command("lean", given), found, []), chosen.json)
        return int(not all(claim.met for claim in found))
    count, repeats = chosen.images, chosen.repeats
    rows = [row for size in chosen.vocabularies for window in (16, 32, 128) for row in verification(size, window)]
    claims = [
        *loops(count, repeats),
        *outside(count),
        *at_worst(rows),
        *recording(count),
    ]
    finish(result("What the engine costs", command("lean", given), claims, rows), chosen.json)
    return 0


def turns(one: Callable[[], object], other: Callable[[], object], repeats: int) -> list[tuple[float, float]]:
    """Seconds of the one and of the other, which take turns at going first."""
    found = []
    for i in range(repeats):
        first, second = [clocked(do) for do in ((one, other) if i % 2 else (other, one))]
        found.append((first, second) if i % 2 else (second, first))
    return found


def ratio(one: Callable[[], object], other: Callable[[], object], repeats: int) -> list[float]:
    """Time of the one over that of the other."""
    return [own / theirs for own, theirs in turns(one, other, repeats)]


def short() -> list[Claim]:
    """Some ratios beside a quarter more than what they usually are, in seconds."""
    model: Any = load_model("studio-image")
    ordinary = job("ar", model, prompts("studio-image", 1)[0], 0)
    by_hand = partial(_bare.picture, model, ordinary.prompt, ordinary.config, 0)
    decode([ordinary])
    found = {"Ordinary decoding over a loop": ratio(partial(decode, [ordinary]), by_hand, 5)}
    native = Transformer().eval()
    networks = [partial(_bare.passes, network, 10) for network in (model._transformer, native)]
    for once in networks:
        once()
    found["The lean form over transformers' own"] = ratio(networks[0], networks[1], 7)
    for coupling in COUPLINGS:
        case = Case(coupling, 16_384, 32)
        session = Preset(case)
        found[f"Verification, {coupling}, over the plain form"] = [
            ours(case, session, 3) / released(case, session, 3) for _ in range(3)
        ]
    return [_claim(name, values, FALLEN * USUAL[name]) for name, values in found.items()]


def loops(count: int, repeats: int) -> list[Claim]:
    """Ordinary decoding of pictures and texts over loops written by hand."""
    model: Any = load_model("studio-image")
    asked = [job("ar", model, prompt, sample) for sample, prompt in enumerate(prompts("studio-image", count))]
    words: Any = load_model("text-target")
    answers = [text_job(ORDINARY, words, problem) for problem in held_out()[:count]]
    bare: dict[str, list[tuple[Job, Callable[[], object]]]] = {
        "pictures": [(one, partial(_bare.picture, model, one.prompt, one.config, one.sample)) for one in asked],
        "text, block size 1": [(one, partial(_bare.text, words, one.prompt, one.config)) for one in answers],
    }
    claims = []
    for name, pairs in bare.items():
        passes = statistics.fmean(decode([one]).forwards for one, _ in pairs)
        each = [pair for one, loop in pairs for pair in turns(partial(decode, [one]), loop, repeats)]
        cost = Cost.of(each, passes, "the loop")
        ratios = [own / theirs for own, theirs in each]
        name = f"Ordinary decoding, {name}: time over a loop written by hand"
        claims.append(_claim(name, ratios, MOST_OF_A_LOOP, cost=cost))
    return claims


def outside(count: int) -> list[Claim]:
    """What a pass spends outside the network on a studio model, at every window."""
    model, claims = load_model("studio-image"), []
    for window in WINDOWS:
        jobs = [
            job("maximal", model, prompt, sample, window=window)
            for sample, prompt in enumerate(prompts("studio-image", count))
        ]
        runs = [decode([one]) for one in jobs]
        found = [100 * (1 - run.forward_seconds / run.seconds) for run in runs]
        passes = statistics.fmean(run.forwards for run in runs)
        cost = Cost.of([(run.seconds, run.forward_seconds) for run in runs], passes, "the network")
        name = f"Share of a pass outside the network, MC-SJD on pictures, L = {window}"
        claims.append(_claim(name, found, MOST_OUTSIDE_PERCENT, "%", cost, of_the_whole=True))
    return claims


def verification(vocabulary: int, window: int, passes: int = 4) -> list[Row]:
    """What SCD does beside the network over the plain form, for every coupling and truncation."""
    rows: list[Row] = []
    for coupling in COUPLINGS:
        for cut in CUTS:
            case = Case(coupling, vocabulary, window, **cut)
            session = Preset(case)
            own, theirs = [], []
            for _ in range(2):
                own.append(ours(case, session, passes))
                theirs.append(released(case, session, passes))
            numbers = {"milliseconds": 1e3 * min(own), "milliseconds_released": 1e3 * min(theirs)}
            whole = {
                "method": "scd",
                "vocabulary": vocabulary,
                "window": window,
                "coupling": coupling,
                "case": str(case),
            }
            rows.append({**whole, **numbers, "ratio": min(own) / min(theirs)})
    return rows


def at_worst(rows: Sequence[Row]) -> list[Claim]:
    """By coupling, the case that costs the most beside the plain form."""
    claims = []
    for coupling in COUPLINGS:
        worst = max((row for row in rows if row["coupling"] == coupling), key=lambda row: row["ratio"])
        claims.append(
            Claim(
                name=f"Verification, {coupling}: time over the plain form of released samplers, at worst",
                measured=worst["ratio"],
                bound="at most",
                target=MOST_OF_RELEASED,
                reason=f"{worst['case']}: {worst['milliseconds']:.1f} against {worst['milliseconds_released']:.1f} ms "
                "a pass; a softmax, the truncation, a look at each draft and a draw of every row, in float32",
            )
        )
    return claims


def recording(count: int) -> list[Claim]:
    """What recording adds: pictures at several windows, a text, continuous tokens."""
    image, words, patch = (load_model(name) for name in ("studio-image", "text-target", "patch-target"))
    prompt = prompts("studio-image", 1)[0]
    cspd = METHODS["cspd-block"]
    cases = {f"pictures, L = {n}": job("maximal", image, prompt, 0, window=n) for n in RECORDED} | {
        "text, confidence": text_job("confidence", words, held_out()[0]),
        "CSpD, gamma = 2": Job(cspd, patch, prompt, make_config(cspd.config, {"gamma": 2})),
    }
    claims = []
    for name, one in cases.items():
        found = turns(partial(decode, [one], record=True), partial(decode, [one]), 2 * count)
        percent = [100 * (recorded / plain - 1) for recorded, plain in found]
        cost = Cost.of(found, decode([one]).forwards, "what is not recorded")
        claims.append(_claim(f"Time that recording adds, {name}", percent, MOST_RECORDING_PERCENT, "%", cost))
    return claims


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds a pass that something adds to something else: whether a share is large since the model is small."""

    added: float
    beside: float
    what: str

    @classmethod
    def of(cls, seconds: Sequence[tuple[float, float]], passes: float, what: str) -> "Cost":
        """From seconds of whole runs with and without it."""
        beside = statistics.median(without for _, without in seconds)
        added = statistics.median(whole - without for whole, without in seconds)
        return cls(1e3 * added / passes, 1e3 * beside / passes, what)

    def words(self, share: float) -> str:
        """What it costs, and beside how long a pass it would be at most this share of it."""
        told = f"{self.added:.2f} ms a pass beside {self.beside:.2f} of {self.what}"
        least = self.added / share
        return told if least <= self.beside else f"{told}; within the target beside {least:.1f} or more"


def _claim(
    name: str,
    values: Sequence[float],
    most: float,
    unit: str = "",
    cost: Cost | None = None,
    *,
    of_the_whole: bool = False,
) -> Claim:
    """A ratio or a percentage with a bound; `of_the_whole` where the cost is part of what it is a percentage of."""
    share = most / 100 if unit else most - 1
    told = f"{cost.words(share / (1 - share) if of_the_whole else share)}; " if cost else ""
    return Claim(
        name=name,
        measured=statistics.median(values),
        unit=unit,
        bound="at most",
        target=most,
        reason=f"{told}processor time of one thread, in turns; {spread(values)}",
    )


if __name__ == "__main__":
    sys.exit(piped(main))
