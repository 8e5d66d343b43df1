"""All benchmarks, one command and one table each.

Without `--full` each benchmark measures just enough for a ratio, in under twenty minutes on two cores, into
build/bench. `--full` measures what docs/measured.md and README show, for hours. Several run in parallel, one thread
each, because they measure processor time; those that measure wall-clock time or start processes run one by one. Every
result is a file in FOLDER, with the log of its command, and FOLDER/measured.md has all tables.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import torch

from benchmarks._report_format import positive
from benchmarks.report import SHOWN, tables
from draftscope.cli.streams import exit_code_for_pipe

BRIEF: Final[Mapping[str, str]] = SHOWN["brief"]
"""Benchmark -> options of its brief form, the longest first."""
ALONE: Final = ("app", "calibration_error", "gpu")
"""These measure seconds, or need all cores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when a benchmark failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", nargs="*", help=f"of {', '.join(BRIEF)}; all of them when left out, gpu only with one")
    options.add_argument("-o", "--output", type=Path, default=Path("build/bench"), metavar="FOLDER")
    options.add_argument("--full", action="store_true", help="at the size that ships")
    options.add_argument(
        "--jobs", type=positive, default=os.cpu_count() or 1, metavar="N", help="side by side; default: one a core"
    )
    chosen = options.parse_args(arguments)
    if unknown := [name for name in chosen.name if name not in BRIEF]:
        options.error(f"name: {unknown[0]!r} is not a benchmark; use {', '.join(BRIEF)}.")
    names = chosen.name or [name for name in BRIEF if name != "gpu" or torch.cuda.is_available()]
    chosen.output.mkdir(parents=True, exist_ok=True)
    since, failed = time.monotonic(), []
    for group, jobs in (([n for n in names if n not in ALONE], chosen.jobs), ([n for n in names if n in ALONE], 1)):
        with ThreadPoolExecutor(jobs) as pool:
            running = {pool.submit(_measure, name, chosen.output, chosen.full): name for name in group}
            for done in as_completed(running):
                name, (code, seconds) = running[done], done.result()
                failed += [name] * (code != 0)
                outcome = "done" if code == 0 else f"ended with {code}, see {chosen.output / name}.log"
                print(f"{name}: {outcome} after {seconds:.0f} s", flush=True)
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in chosen.output.glob("*.json")}
    (chosen.output / "measured.md").write_text(f"{tables(results)}\n", encoding="utf-8")
    print(f"{len(names)} benchmarks in {(time.monotonic() - since) / 60:.1f} minutes: {chosen.output / 'measured.md'}")
    return 1 if failed else 0


def _measure(name: str, folder: Path, full: bool) -> tuple[int, float]:
    """Run one benchmark and return its exit code and its seconds."""
    brief = [] if full else BRIEF[name].split()
    command = [sys.executable, "-m", f"benchmarks.{name}", *brief, "--json", str(folder / f"{name}.json")]
    since = time.monotonic()
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
    return code, time.monotonic() - since


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
