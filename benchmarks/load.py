"""Many visitors at once: no run may be lost or mixed up, looking stays quick, and memory does not grow.

    python -m benchmarks.load [--json FILE] [--short] [--visitors 50] [--runs 200] [--rounds 3]

Starts app.py in a process of its own on the loopback. Each round, as many visitors come, ask for as many runs of a
small model between them, and go; one who only looks is timed meanwhile. At the end somebody asks for a long run and is
killed.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks._results import Claim, Row, command, finish, parser, positive, result, spread
from benchmarks._visitors import Answer, Light, crowd, disagreeing, freed_after, watching
from benchmarks.app import resident_megabytes, served
from traces.streams import piped

TRACE: Final = Path(__file__).parents[1] / "assets" / "traces" / "ar-juice.json.gz"
LIGHT_SECONDS: Final = 1.0
FREED_SECONDS: Final = 2.0
FLAT: Final = 1.1
"""Memory after the last round, over that after the first, at most."""
_LEFT_SECONDS: Final = 5.0
"""After a round, until what visitors had is gone."""
_LONG_SECONDS: Final = 12.0
"""Until the one with a long run is killed: it has to start a process first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; 1 where a run was lost or mixed up."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    with served() as (address, _, process):
        content = measured(address, lambda: resident_megabytes(process), options, command("load", given))
    finish(content, options.json)
    return 0 if content["claims"][0]["met"] else 1


def measured(address: str, held: Any, options: argparse.Namespace, asked: str) -> dict[str, Any]:
    """The result for an app at an address; `held` says how many megabytes it holds."""
    rows: list[Row] = []
    every: list[Answer] = []
    lights: list[Light] = []
    for number in range(options.rounds):
        start = time.monotonic()
        with watching(address, TRACE) as light:
            answers = crowd(address, options.visitors, options.runs)
        took = time.monotonic() - start
        time.sleep(0.0 if options.short else _LEFT_SECONDS)
        every += answers
        lights.append(light)
        rows.append(row_of(number + 1, took, answers, light) | {"megabytes": held()})
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), file=sys.stderr, flush=True)
    freed = None if options.short else freed_after(address, _LONG_SECONDS)
    return result("Many visitors at once", asked, claims(rows, every, lights, freed), rows)


def row_of(number: int, seconds: float, answers: Sequence[Answer], light: Light) -> dict[str, Any]:
    """What came of one round."""
    waited = sorted(one.seconds for one in answers)
    return {
        "round": number,
        "runs": len(answers),
        "seconds": round(seconds, 1),
        "lost": sum(not one.told for one in answers),
        "mixed": sum(one.mixed for one in answers) + disagreeing(answers),
        "asked_again": sum(one.refused for one in answers),
        "answer_seconds_median": round(waited[len(waited) // 2], 2),
        "light": sum(map(len, light.seconds.values())),
        "light_refused": len(light.failed),
    }


def claims(
    rows: Sequence[Mapping[str, Any]], answers: Sequence[Answer], lights: Sequence[Light], freed: Any
) -> list[Claim]:
    """What all rounds come to."""
    lost = [one for one in answers if not one.told]
    again = sum(row["asked_again"] for row in rows)
    problems = "; ".join(sorted({one.problem for one in lost})[:3])
    found = [
        Claim(
            name=f"Runs lost or mixed up, of {len(answers)}",
            measured=len(lost) + sum(row["mixed"] for row in rows),
            bound="at most",
            target=0.0,
            reason=problems or f"{again} requests were asked again, since the queue was full",
        )
    ]
    for name in lights[0].seconds:
        seconds = [one for light in lights for one in light.seconds.get(name, ())]
        failed = [one for light in lights for one in light.failed if one.startswith(name)]
        late = sorted(seconds)[min(int(0.95 * len(seconds)), len(seconds) - 1)]
        found.append(
            Claim(
                name=f"Seconds until {name} answers meanwhile, median",
                measured=spread(seconds).median,
                unit="s",
                bound="at most",
                target=LIGHT_SECONDS,
                reason=f"{len(seconds)} requests, 95 % within {late:.2f} s, {len(failed)} refused",
            )
        )
    return [*found, *_kept(rows, freed)]


def _kept(rows: Sequence[Mapping[str, Any]], freed: tuple[float, float] | None) -> list[Claim]:
    """Memory, and the worker of somebody who went."""
    held = [row["megabytes"] for row in rows if row["megabytes"] is not None]
    told = ", ".join(f"{one:.0f}" for one in held)
    waited, alone = freed or (None, 0.0)
    return [
        Claim(
            name="Memory after the last round, over that after the first",
            measured=held[-1] / held[0] if held else None,
            bound="at most",
            target=FLAT,
            reason=f"{told} MB" if held else "this system has no /proc",
        ),
        Claim(
            name="Seconds until a visitor who was killed frees the worker",
            measured=None if waited is None else max(0.0, waited - alone),
            unit="s",
            bound="at most",
            target=FREED_SECONDS,
            reason="left out" if waited is None else f"a short run took {waited:.1f} s then, {alone:.1f} s alone",
        ),
    ]


def _options(given: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--short", action="store_true", help="a few visitors, and nobody is killed")
    options.add_argument("--visitors", type=positive, metavar="N", help="at once; default: 50")
    options.add_argument("--runs", type=positive, metavar="M", help="of each round; default: 200")
    options.add_argument("--rounds", type=positive, metavar="K", help="default: 3")
    chosen = options.parse_args(given)
    usual = (3, 6, 1) if chosen.short else (50, 200, 3)
    for name, count in zip(("visitors", "runs", "rounds"), usual, strict=True):
        if getattr(chosen, name) is None:
            setattr(chosen, name, count)
    return chosen


if __name__ == "__main__":
    sys.exit(piped(main))
