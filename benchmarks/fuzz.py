"""Strange documents at every way into the project: none may crash it, stall it, fill its memory, or run as script.

    python -m benchmarks.fuzz [--json FILE] [--short] [--traces 10000] [--others 1000] [--drawn 200] [--opened 12]
                              [--requests 500] [--seed 0] [--only AREA[:NUMBER]]

Areas: trace files; what is made of those that are accepted (replay, statistics, every figure, the standalone page, SVG
and notebook output); settings of every method; addresses of the page; calls of the API; rows of sweeps; timings; the
files of tiny checkpoints, of texts and of pictures; and HTTP requests to an app that is started for it. Documents
follow from seed, area and number: --only AREA:NUMBER tries one of them again and shows it. Nothing leaves the machine.
Exit code 1 where anything gave.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks import _answered, _strange_traces
from benchmarks._attempts import Tried, attempt, attempts, chance_of, here
from benchmarks._mutation import as_json, shortened
from benchmarks._results import Claim, Row, command, finish, parser, positive, result
from benchmarks._surfaces import AREAS
from traces import Trace, TraceError, loads
from traces.streams import piped

SECONDS: Final = 1.0
MEGABYTES: Final = 500.0
FAILED: Final = ("crashed", "hung", "killed")
DRAWN: Final = "drawn"
"""The area whose documents are drawn in every way, which takes longer than to read them."""
SHORT: Final = {"traces": 60, "others": 12, "drawn": 2, "opened": 0, "requests": 0}
USUAL: Final = {"traces": 10_000, "others": 1000, "drawn": 200, "opened": 12, "requests": 500}
_SHOWN: Final = 5
"""Failures of an area that are told."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, report, and say whether all held."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    if options.only:
        return again(options.only, options.seed)
    rows: list[Row] = []
    for name in AREAS:
        count = {"traces": options.traces, DRAWN: options.drawn}.get(name, options.others)
        tried = here if options.short else attempts
        rows.append(row_of(name, options.seed, tried(AREAS[name], options.seed, range(count))))
        print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    if options.requests:
        with _answered.started() as app:
            found = _answered.answered(app, options.seed, range(options.requests))
            rows.append(row_of(_answered.AREA, options.seed, found))
        print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    scripts = Scripts(0, 0, 0, "left out") if not options.opened else opened(options.seed, options.opened)
    content = result("Strange documents", command("fuzz", given), claims(rows, scripts), rows)
    finish(content, options.json)
    return 0 if all(claim["met"] is not False for claim in content["claims"]) else 1


def row_of(name: str, seed: int, found: Iterator[Tried]) -> Row:
    """What came of the documents of an area; failures are told on standard error."""
    tried = list(found)
    failed = [one for one in tried if one.verdict in FAILED]
    for one in failed[:_SHOWN]:
        print(f"{name}:{one.number} --seed {seed}: {one.verdict}: {one.said}\n    {one.document}", file=sys.stderr)
    return {
        "area": name,
        "tried": len(tried),
        "accepted": sum(one.verdict == "accepted" for one in tried),
        "refused": sum(one.verdict == "refused" for one in tried),
        "failed": len(failed),
        "scripts": sum("ScriptFound" in one.said for one in failed),
        "slow": sum(one.seconds > SECONDS for one in tried) if name != DRAWN else 0,
        "large": sum(one.megabytes > MEGABYTES for one in tried),
        "most_seconds": round(max((one.seconds for one in tried), default=0.0), 3),
        "most_megabytes": round(max((one.megabytes for one in tried), default=0.0), 1),
    }


class Scripts:
    """What a browser made of pages and pictures of strange traces."""

    def __init__(self, pages: int, pictures: int, ran: int, reason: str = "") -> None:
        self.pages, self.pictures, self.ran, self.reason = pages, pictures, ran, reason


def opened(seed: int, count: int) -> Scripts:
    """Open the pages and SVG files of some accepted traces in Chromium."""
    from benchmarks._shown import ScriptFound, check_svg, everything, opened, pictures
    from benchmarks.app import chromium_path

    if not chromium_path():
        return Scripts(0, 0, 0, "there is no Chromium here")
    traces = list(_accepted(seed, count))
    ran = 0
    with TemporaryDirectory() as folder:
        files = []
        for number, trace in enumerate(traces):
            files.append(Path(folder) / f"{number}.html")
            files[-1].write_text(everything(trace), encoding="utf-8")
        for number, (name, data) in enumerate(pictures(traces, Random(seed))):
            files.append(Path(folder) / f"{number}-{name}.svg")
            files[-1].write_bytes(data)
            try:
                check_svg(data)
            except ScriptFound as error:
                print(f"{files[-1].name}: {error}", file=sys.stderr)
                ran += 1
        for name in opened(files):
            print(f"{name}: text of the trace ran in the browser", file=sys.stderr)
            ran += 1
        return Scripts(len(traces), len(files) - len(traces), ran)


def _accepted(seed: int, count: int) -> Iterator[Trace]:
    number = 0
    while count:
        chance = chance_of(seed, DRAWN, number)
        number += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield loads(as_json(_strange_traces.twisted(chance.choice(_strange_traces.sound()), chance)))
        except TraceError:
            continue
        count -= 1


def claims(rows: Sequence[Row], scripts: Scripts) -> list[Claim]:
    """What the rows and the browser come to."""
    tried = sum(row["tried"] for row in rows)
    areas = ", ".join(f"{row['tried']:,} {row['area']}" for row in rows)
    slowest = max(rows, key=lambda row: row["most_seconds"] if row["area"] != DRAWN else 0.0)
    largest = max(rows, key=lambda row: row["most_megabytes"])
    drawn = next(row["accepted"] for row in rows if row["area"] == DRAWN)
    seen = f"{drawn} pages with every figure and as many notebook outputs read as a browser reads them"
    seen += f"; {scripts.pages} pages and {scripts.pictures} SVG files opened in Chromium"
    return [
        none(
            name=f"Strange documents that crash, hang or end the process, of {tried:,}",
            measured=sum(row["failed"] for row in rows),
            reason=f"{areas}; {sum(row['accepted'] for row in rows):,} were accepted",
        ),
        none(
            name=f"Strange documents that take over {SECONDS:g} s",
            measured=sum(row["slow"] for row in rows),
            reason=f"of the processor, the drawn ones left out; {slowest['most_seconds']:.2f} s at most, "
            f"of {slowest['area']}",
        ),
        none(
            name=f"Strange documents that hold over {MEGABYTES:g} MB",
            measured=sum(row["large"] for row in rows),
            reason=f"{largest['most_megabytes']:.0f} MB at most, of {largest['area']}",
        ),
        none(
            name="Pages, pictures and notebook outputs that would run a stranger's text",
            measured=sum(row["scripts"] for row in rows) + scripts.ran,
            reason=seen if not scripts.reason else f"{seen}: {scripts.reason}",
        ),
    ]


def none(*, name: str, measured: float, reason: str) -> Claim:
    """A claim that there is not one of something."""
    return Claim(name=name, measured=measured, bound="at most", target=0.0, reason=reason)


def again(named: str, seed: int) -> int:
    """Try one document here, and show it whole."""
    name, _, number = named.partition(":")
    if name == _answered.AREA:
        tried = _answered.alone(int(number or 0), seed)
        print(f"{tried.verdict}: {tried.said}")
        return 1 if tried.verdict in FAILED else 0
    case = AREAS[name].prepare()(chance_of(seed, name, int(number or 0)))
    print(shortened(case.document, 20_000))
    tried = attempt(AREAS[name], int(number or 0), case)
    print(f"{tried.verdict} in {tried.seconds:.2f} s, {tried.megabytes:.0f} MB: {tried.said}")
    return 1 if tried.verdict in FAILED else 0


def _options(given: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--short", action="store_true", help="a few of each, in seconds")
    options.add_argument("--traces", type=positive, metavar="N", help="trace files; default: 10,000")
    options.add_argument("--others", type=positive, metavar="N", help="of each other area; default: 1,000")
    options.add_argument("--drawn", type=positive, metavar="N", help="traces drawn in every way; default: 200")
    options.add_argument("--opened", type=int, metavar="N", help="of those, opened in Chromium; default: 12")
    options.add_argument("--requests", type=int, metavar="N", help="to an app on the loopback; default: 500")
    options.add_argument("--seed", type=int, default=0)
    areas = (*AREAS, _answered.AREA)
    options.add_argument("--only", metavar="AREA[:NUMBER]", help=f"one document of {', '.join(areas)}")
    chosen = options.parse_args(given)
    if chosen.only and chosen.only.partition(":")[0] not in areas:
        options.error(f"argument --only: there is no {chosen.only!r}; there are {', '.join(areas)}")
    for name, count in (SHORT if chosen.short else USUAL).items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, count)
    return chosen


if __name__ == "__main__":
    sys.exit(piped(main))
