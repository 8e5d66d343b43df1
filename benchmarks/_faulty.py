"""What goes wrong around a program: full disks, folders that nobody may write to, files that are gone or damaged.

Each fault is a command under conditions of its own. It holds where the command ends with an exit code that says so and
one line on standard error, with no traceback, and leaves nothing half written behind.
"""

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ASSETS: Final = ROOT / "assets"
TRACE: Final = ASSETS / "traces" / "ar-juice.json.gz"
RESULTS: Final = ROOT / "benchmarks" / "results"
GRID: Final = ROOT / "benchmarks" / "grids" / "text.json"
NOWHERE: Final = "/sys"
"""A folder that not even the superuser may write to."""
_SECONDS: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A command, and what is wrong around it."""

    kind: str
    command: tuple[str, ...]
    """Behind `python -m`; {out} is an empty folder and {in} the one with damaged files."""
    place: Mapping[str, str] = field(default_factory=dict)
    """Environment."""
    file_bytes: int | None = None
    """No file may grow beyond: as a disk that is full."""
    memory_bytes: int | None = None
    """Of address space."""
    output: str = ""
    """What standard output goes to."""
    quick: bool = False
    """Whether it takes less than a few seconds."""
    long: bool = False
    """Whether it says how far it is before anything else, and keeps what it has."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    said: str
    left: tuple[str, ...] = ()
    """Files left in the output folder."""
    long: bool = False
    """Whether lines before the last one say how far it was."""

    @property
    def wrong(self) -> str:
        """What did not hold; empty where all did."""
        lines = self.said.strip().splitlines()
        if self.code in (0, 1) and not lines:
            return f"ended with {self.code} and said nothing"
        if self.code == 0 or self.code < 0:
            return f"ended with {self.code}"
        if "Traceback" in self.said:
            return f"a traceback: {lines[-1][:200]}"
        if len(lines) != 1 and not self.long:
            return f"{len(lines)} lines: {' / '.join(lines)[:200]}"
        return f"left {', '.join(self.left)}" if self.left else ""


def tried(fault: Fault, inside: Path, out: Path) -> Ended:
    """Run the command."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [part.format(**{"out": out, "in": inside}) for part in fault.command]
    place = {**os.environ, "OMP_NUM_THREADS": "1"}
    place |= {name: value.format(**{"in": inside}) for name, value in fault.place.items()}
    output = fault.output or os.devnull
    with open(output, "wb") as standard:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=place,
            stdout=standard,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: _limit(fault),
            timeout=_SECONDS,
        )
    left = () if fault.long else tuple(sorted(path.name for path in out.iterdir()))
    return Ended(done.returncode, done.stderr.decode(errors="replace"), left, fault.long)


def _limit(fault: Fault) -> None:
    if fault.file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_bytes, fault.file_bytes))
    if fault.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (fault.memory_bytes, fault.memory_bytes))


def damage(folder: Path) -> None:
    """Put a damaged file of every kind into a folder, and assets of which one part or another is damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in {
        "cut.json.gz": TRACE,
        "rows.jsonl.gz": RESULTS / "text.jsonl.gz",
        "timings.json": RESULTS / "continuous.json",
        "grid.json": GRID,
    }.items():
        data = source.read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
    (folder / "flipped.json").write_bytes(b'{"schema":"draftscope-trace","version":"1.2","method":\xff}')
    (folder / "empty.json").touch()
    (folder / "large.json.gz").write_bytes(gzip.compress(b'{"schema":"' + b"a" * 60_000_000 + b'"}', 1))
    linked = os.stat(folder).st_dev == os.stat(ASSETS).st_dev
    for name, change in DAMAGES.items():
        copy = folder / name
        shutil.copytree(ASSETS / "models", copy / "models", copy_function=os.link if linked else shutil.copy2)
        for other in ASSETS.iterdir():
            if other.name not in ("models", "traces"):
                (copy / other.name).symlink_to(other)
        change(copy / "models")


def _replaced(path: Path, data: bytes) -> None:
    path.unlink()  # it may be a second name of the sound one
    path.write_bytes(data)


def _shorter(name: str) -> Callable[[Path], None]:
    return lambda models: _replaced(models / name, (models / name).read_bytes()[:-1000])


def _flipped(name: str) -> Callable[[Path], None]:
    def change(models: Path) -> None:
        data = bytearray((models / name).read_bytes())
        data[len(data) // 2] ^= 1
        _replaced(models / name, bytes(data))

    return change


def _settings_changed(models: Path) -> None:
    path = models / "text-target" / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    _replaced(path, json.dumps(settings)[:-5].encode())


DAMAGES: Final[Mapping[str, Callable[[Path], None]]] = {
    "weights-cut": _shorter("image-ar.safetensors"),
    "weights-flipped": _flipped("image-ar.safetensors"),
    "weights-gone": lambda models: (models / "image-ar.safetensors").unlink(),
    "manifest-cut": _shorter("MANIFEST.json"),
    "manifest-gone": lambda models: (models / "MANIFEST.json").unlink(),
    "config-cut": _settings_changed,
    "tokenizer-cut": _shorter("text-tokenizer.json"),
}


def faults() -> Iterator[Fault]:
    """All of them."""
    yield from _places()
    yield from _damaged()
    yield from _missing()
    for command in (("traces", "show"), ("traces", "validate")):
        large = (*command, "{in}/large.json.gz")
        yield Fault(kind="low memory", command=large, memory_bytes=130 * 2**20, quick=True)


def _places() -> Iterator[Fault]:
    """Where nothing can be written."""
    run = ("engines", "run", "ar", "--model", "toy-raster", "-o")
    sweep = ("benchmarks.sweep", str(GRID), "--problems", "1", "--jobs", "1", "-o")
    trace = str(TRACE)
    writing: dict[str, tuple[str, ...]] = {
        "json": run,
        "html": ("visualizers", trace, "-o"),
        "gif": ("visualizers", trace, "--every", "20", "--width", "320", "-o"),
        "mp4": ("visualizers", trace, "--every", "20", "--width", "320", "-o"),
        "svg": ("visualizers", trace, "--figure", "race", "-o"),
        "zip": ("visualizers", trace, "--figure", "race", "-o"),
        "jsonl": sweep,
    }
    for ending, command in writing.items():
        quick, long = ending == "html", ending == "jsonl"
        there = (*command, f"{NOWHERE}/a.{ending}")
        yield Fault(kind="read-only folder", command=there, quick=quick, long=long)
        most = 100 if ending in ("jsonl", "svg") else 2000
        if ending not in ("svg", "zip"):  # Chromium itself does not start where no file may grow
            here = (*command, f"{{out}}/a.{ending}")
            yield Fault(kind="full disk", command=here, file_bytes=most, quick=quick, long=long)
    for command in (("traces", "schema"), ("visualizers", "--list"), ("visualizers", trace, "-o", "-")):
        yield Fault(kind="full disk", command=command, output="/dev/full", quick=command[0] == "traces")
    yield Fault(kind="full disk", command=("draftscope", "list"), output="/dev/full")
    view = ("draftscope", "view", trace, "-o", "{out}/a.html")
    yield Fault(kind="full disk", command=view, file_bytes=2000)
    result = ("benchmarks.fuzz", "--short", "--traces", "1", "--others", "1", "--drawn", "1", "--json")
    yield Fault(kind="read-only folder", command=(*result, f"{NOWHERE}/a.json"), long=True)


def _damaged() -> Iterator[Fault]:
    """Files that are not what they should be."""
    for name in ("cut.json.gz", "flipped.json", "empty.json", "gone.json"):
        quick = name == "cut.json.gz"
        yield Fault(kind="damaged trace", command=("traces", "validate", f"{{in}}/{name}"), quick=quick)
        yield Fault(kind="damaged trace", command=("visualizers", f"{{in}}/{name}", "-o", "{out}/a.html"))
    figure = ("-o", "{out}/a.html", "--figure")
    yield Fault(kind="damaged results", command=("visualizers", "--sweep", "{in}/rows.jsonl.gz", *figure, "frontier"))
    yield Fault(kind="damaged timings", command=("visualizers", "--timings", "{in}/timings.json", *figure, "speed-up"))
    yield Fault(kind="damaged grid", command=("benchmarks.sweep", "{in}/grid.json", "-o", "{out}/a.jsonl"))
    yield Fault(kind="damaged rows", command=("benchmarks.sweep", str(GRID), "-o", "{in}/rows.jsonl.gz"))
    for name in DAMAGES:
        text = name.startswith(("config", "tokenizer"))
        method = ("blockwise",) if text else ("ar",)
        command = ("engines", "run", *method, "-o", "{out}/a.json")
        yield Fault(kind="damaged model", command=command, place={"DRAFTSCOPE_ASSETS": f"{{in}}/{name}"})


def _missing() -> Iterator[Fault]:
    """Without assets, without Chromium."""
    none = {"DRAFTSCOPE_ASSETS": "/nonexistent"}
    for method in ("scd", "blockwise", "cspd"):
        command = ("engines", "run", method, "-o", "{out}/a.json")
        yield Fault(kind="no assets", command=command, place=none)
    for ending in ("pdf", "zip"):
        figure = ("visualizers", str(TRACE), "--figure", "race", "-o", f"{{out}}/a.{ending}")
        yield Fault(kind="no Chromium", command=figure, place={"PATH": "/nonexistent", "BROWSER_PATH": "/nonexistent"})
    app = ("app",)
    yield Fault(kind="no port", command=app, place={"GRADIO_SERVER_PORT": "abc"}, quick=True)
    yield Fault(kind="no port", command=app, place={"GRADIO_SERVER_PORT": "{port}"})
