"""What goes wrong around the commands: each has to end with one clear line, and lose nothing.

    python -m benchmarks.faults [--json FILE] [--short] [--kills 100] [--seed 0]

Writers of rows are killed at any moment, with a second one at the door. Then commands are run on a full disk, into a
read-only folder, with little memory, without Chromium, without assets, with a port that is none or taken, and on
damaged files of every kind. Exit code 1 where anything gave.
"""

import argparse
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._faulty import Fault, damage, faults, tried
from benchmarks._kills import kills
from benchmarks._results import Claim, Row, command, finish, parser, positive, result
from traces.streams import piped


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, report, and say whether all held."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    with TemporaryDirectory() as folder:
        claims = killed(Path(folder), options.kills, options.seed)
        rows = ended(Path(folder), short=options.short)
    wrong = [row for row in rows if row["wrong"]]
    told = "; ".join(f"{row['command']}: {row['wrong']}" for row in wrong)
    kinds = ", ".join(f"{sum(row['fault'] == kind for row in rows)} {kind}" for kind in dict.fromkeys(_kinds(rows)))
    claims.append(
        Claim(
            name=f"Commands that do not end with one clear line, of {len(rows)}",
            measured=len(wrong),
            bound="at most",
            target=0.0,
            reason=told[:500] or kinds,
        )
    )
    finish(result("What goes wrong around the commands", command("faults", given), claims, rows), options.json)
    return 0 if all(claim.met is not False for claim in claims) else 1


def killed(folder: Path, count: int, seed: int) -> list[Claim]:
    """What writers lose that are killed."""
    found = list(kills(folder, count, seed))
    names = ("Rows lost or doubled where a writer is killed", "Second writers that were let in")
    figures = (sum(one.lost + one.doubled for one in found), sum(not one.refused for one in found))
    reasons = (f"kill -9 at any moment, {len(found)} times", f"{len(found)} tried while another wrote")
    return [
        Claim(name=name, measured=figure, bound="at most", target=0.0, reason=reason)
        for name, figure, reason in zip(names, figures, reasons, strict=True)
    ]


def ended(folder: Path, *, short: bool) -> list[Row]:
    """How the commands ended."""
    damage(folder / "in")
    rows: list[Row] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for fault in faults():
            if short and not fault.quick:
                continue
            rows.append(_row(fault, port, folder))
            print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), file=sys.stderr, flush=True)
    return rows


def _row(fault: Fault, port: str, folder: Path) -> Row:
    place = {name: value.replace("{port}", port) for name, value in fault.place.items()}
    end = tried(replace(fault, place=place), folder / "in", folder / "out")
    said = end.said.strip().replace(str(folder), "...").rpartition("\n")[2][:160]
    parts = [Path(part).name if part.startswith("/") else part for part in fault.command]
    return {"fault": fault.kind, "command": " ".join(parts), "code": end.code, "said": said, "wrong": end.wrong}


def _kinds(rows: Sequence[Row]) -> list[str]:
    return [str(row["fault"]) for row in rows]


def _options(given: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--short", action="store_true", help="a few of them, in seconds")
    options.add_argument("--kills", type=positive, metavar="N", help="default: 100")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args(given)
    chosen.kills = chosen.kills or (6 if chosen.short else 100)
    return chosen


if __name__ == "__main__":
    sys.exit(piped(main))
