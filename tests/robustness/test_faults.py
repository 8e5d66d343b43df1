"""Full disks, folders that cannot be written to, damaged files and kills: one clear line each, and no row is lost."""

import gzip
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random

import pytest
from robustness.strategies import FULL

from benchmarks._rows import Rows, RowsError
from traces.results import ResultRow, read_line

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "assets"
TRACE = str(ASSETS / "traces" / "ar-juice.json.gz")
RESULTS = ROOT / "benchmarks" / "results"
GRID = str(ROOT / "benchmarks" / "grids" / "text.json")
NOWHERE = "/sys"
"""A folder that not even the superuser may write to."""
KILLS = 100 if FULL else 4


@dataclass(frozen=True)
class Fault:
    """A command, and what is wrong around it; {out} is an empty folder, {in} the one with damaged files."""

    command: str
    variables: dict[str, str] = field(default_factory=dict)
    file_bytes: int | None = None
    """No file may grow beyond, as on a full disk."""
    memory_bytes: int | None = None
    output: str = os.devnull
    """What standard output goes to."""
    long: bool = False
    """Whether it says how far it is before anything else, and keeps what it has."""
    quick: bool = False
    """Whether it takes a second, and so is tried with the suite."""

    def limit(self) -> None:
        """Set the limits, in the process of the command."""
        if self.file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_bytes, self.file_bytes))
        if self.memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory_bytes, self.memory_bytes))


DAMAGES = {
    "weights-cut": "image-ar.safetensors",
    "weights-flipped": "image-ar.safetensors",
    "weights-gone": "image-ar.safetensors",
    "manifest-cut": "MANIFEST.json",
    "manifest-gone": "MANIFEST.json",
    "config-cut": "text-target/config.json",
    "tokenizer-cut": "text-tokenizer.json",
}
"""What is damaged in a copy of the assets, and how."""


def damage(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    file.unlink()  # it may be a second name of the sound one
    if how == "flipped":
        data[len(data) // 2] ^= 1
    if how != "gone":
        file.write_bytes(data[:-1000] if how == "cut" else data)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a damaged file of every kind, and copies of the assets of which one part is damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    for name, source in {
        "cut.json.gz": Path(TRACE),
        "rows.jsonl.gz": RESULTS / "text.jsonl.gz",
        "timings.json": RESULTS / "continuous.json",
        "grid.json": Path(GRID),
    }.items():
        data = source.read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
    (folder / "flipped.json").write_bytes(b'{"schema":"draftscope-trace","version":"1.2","method":\xff}')
    (folder / "empty.json").touch()
    (folder / "large.json.gz").write_bytes(gzip.compress(b'{"schema":"' + b"a" * 60_000_000 + b'"}', 1))
    linked = os.stat(folder).st_dev == os.stat(ASSETS).st_dev
    for name, file in DAMAGES.items():
        copy = folder / name
        shutil.copytree(ASSETS / "models", copy / "models", copy_function=os.link if linked else shutil.copy2)
        for other in ASSETS.iterdir():
            if other.name not in ("models", "traces"):
                (copy / other.name).symlink_to(other)
        damage(copy / "models" / file, name.partition("-")[2])
    return folder


def faults() -> Iterator[Fault]:
    """All of them."""
    sweep = f"benchmarks.sweep {GRID} --problems 1 --jobs 1 -o"
    film = f"visualizers {TRACE} --every 20 --width 320 -o"
    writing = {
        "json": "engines run ar --model toy-raster -o",
        "html": f"visualizers {TRACE} -o",
        "gif": film,
        "mp4": film,
        "svg": f"visualizers {TRACE} --figure race -o",
        "zip": f"visualizers {TRACE} --figure race -o",
        "jsonl": sweep,
    }
    for ending, command in writing.items():
        long = ending == "jsonl"
        yield Fault(f"{command} {NOWHERE}/a.{ending}", long=long)
        if ending not in ("svg", "zip"):  # Chromium itself does not start where no file may grow
            yield Fault(f"{command} {{out}}/a.{ending}", file_bytes=100 if long else 2000, long=long)
    for command in ("visualizers --list", f"visualizers {TRACE} -o -", "draftscope list"):
        yield Fault(command, output="/dev/full")
    yield Fault("traces schema", output="/dev/full", quick=True)
    yield Fault(f"draftscope view {TRACE} -o {{out}}/a.html", file_bytes=2000)
    yield Fault("benchmarks.compare --json " + NOWHERE + "/a.json", long=True)
    for name in ("cut.json.gz", "flipped.json", "empty.json", "gone.json"):
        yield Fault(f"traces validate {{in}}/{name}", quick=name == "cut.json.gz")
        yield Fault(f"visualizers {{in}}/{name} -o {{out}}/a.html")
    yield Fault("visualizers --sweep {in}/rows.jsonl.gz -o {out}/a.html --figure frontier")
    yield Fault("visualizers --timings {in}/timings.json -o {out}/a.html --figure speed-up")
    yield Fault("benchmarks.sweep {in}/grid.json -o {out}/a.jsonl")
    yield Fault(f"benchmarks.sweep {GRID} -o {{in}}/rows.jsonl.gz")
    for name in DAMAGES:
        method = "blockwise" if name.startswith(("config", "tokenizer")) else "ar"
        yield Fault(f"engines run {method} -o {{out}}/a.json", {"DRAFTSCOPE_ASSETS": f"{{in}}/{name}"})
    for method in ("scd", "blockwise", "cspd"):
        yield Fault(f"engines run {method} -o {{out}}/a.json", {"DRAFTSCOPE_ASSETS": "/nonexistent"})
    for ending in ("pdf", "zip"):
        nothing = {"PATH": "/nonexistent", "BROWSER_PATH": "/nonexistent"}
        yield Fault(f"visualizers {TRACE} --figure race -o {{out}}/a.{ending}", nothing)
    yield Fault("app", {"GRADIO_SERVER_PORT": "abc"})
    yield Fault("app", {"GRADIO_SERVER_PORT": "{port}"})
    for command in ("show", "validate"):
        yield Fault(f"traces {command} {{in}}/large.json.gz", memory_bytes=130 * 2**20, quick=command == "show")


def wrong(code: int, said: str, left: list[str], *, long: bool = False) -> str:
    """What is not as it should be about how a command ended: an exit code that says so, one line, nothing left."""
    lines = said.strip().splitlines()
    if code <= 0 or not lines:
        return f"ended with {code}, {len(lines)} lines"
    if "Traceback" in said:
        return f"a traceback: {lines[-1]}"
    if len(lines) != 1 and not long:
        return f"{len(lines)} lines: {said}"
    return "" if long or not left else f"left {', '.join(left)}"


@pytest.mark.parametrize("fault", [one for one in faults() if FULL or one.quick], ids=lambda one: one.command)
def test_a_command_ends_with_one_clear_line(fault: Fault, damaged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        places = {"out": str(out), "in": str(damaged), "port": str(taken.getsockname()[1])}
        variables = {key: value.format(**places) for key, value in fault.variables.items()}
        with open(fault.output, "wb") as output:
            done = subprocess.run(
                [sys.executable, "-m", *(part.format(**places) for part in fault.command.split())],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
                stdout=output,
                stderr=subprocess.PIPE,
                preexec_fn=fault.limit,
                timeout=240,
            )
    left = sorted(path.name for path in out.iterdir())
    assert wrong(done.returncode, done.stderr.decode(errors="replace"), left, long=fault.long) == ""


@pytest.mark.parametrize(
    ("code", "said", "left", "problem"),
    [
        (2, "a.json: is broken; mend it\n", [], ""),
        (0, "all went well\n", [], "ended with 0, 1 lines"),
        (1, "", [], "ended with 1, 0 lines"),
        (-9, "killed\n", [], "ended with -9, 1 lines"),
        (1, "Traceback (most recent call last):\n  ...\nOSError: no\n", [], "a traceback: OSError: no"),
        (1, "one\ntwo\n", [], "2 lines: one\ntwo\n"),
        (1, "one\n", ["a.html"], "left a.html"),
    ],
)
def test_what_is_wrong_with_an_end_is_found(code: int, said: str, left: list[str], problem: str) -> None:
    assert wrong(code, said, left) == problem


def test_a_killed_writer_loses_no_row_and_lets_nobody_in(tmp_path: Path) -> None:
    chance, before = Random(0), 0
    for number in range(KILLS):
        path = tmp_path / f"{number // 3}{'.jsonl.gz' if number // 3 % 2 else '.jsonl'}"
        before = killed(path, 0.03 * chance.random(), before if number % 3 else 0)


def killed(path: Path, seconds: float, before: int) -> int:
    """Have rows written and kill the writer, which goes on from `before` rows; how many there are then."""
    context = get_context("fork")  # a process that begins anew takes a second to import
    written: Synchronized[int] = context.Value("q", before, lock=False)
    writer = context.Process(target=write, args=(path, written), daemon=True)
    writer.start()
    while written.value <= before and writer.is_alive():
        time.sleep(0.0005)
    with pytest.raises(RowsError, match="another sweep"):
        Rows(path).begin({})
    time.sleep(seconds)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    keys = [int(key) for key in Rows(path).rows]
    assert keys == list(range(len(keys))) and len(keys) >= written.value, "a row is lost"
    plain = path.with_name(path.name + ".part") if path.suffix == ".gz" else path
    data = plain.read_bytes()
    rows = [read_line(line, "line") for line in data[: data.rfind(b"\n") + 1].splitlines()]
    lines = [row.key for row in rows if isinstance(row, ResultRow)]
    assert len(lines) == len(set(lines)), "a row stands there twice"
    return len(keys)


def write(path: Path, written: "Synchronized[int]") -> None:
    """Write rows until the end, or that of the process that waits for it."""
    rows, parent = Rows(path), os.getppid()
    rows.begin({"grid": "a"})
    number = len(rows.rows)
    while os.getppid() == parent:
        rows.append([row_of(number + i) for i in range(3)])
        number += 3
        written.value = number


def row_of(number: int) -> ResultRow:
    return ResultRow(
        method="blockwise",
        label="a",
        config={"block": "4"},
        problem=number,
        correct=True,
        forwards=1,
        forwards_by_mode={},
        row_forwards=1,
        query_tokens=1,
        tokens=1,
        seconds=0.5,
        key=str(number),
        weights={"a": "0"},
        answer="a" * (number % 400),
    )
