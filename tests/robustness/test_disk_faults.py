"""Full disks, folders that cannot be written to, damaged files and kills: one clear line each, and no row is lost."""

import gzip
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from robustness.strategies import FULL

from draftscope.traces.files import ROOT

ASSETS = ROOT / "assets"
TRACE = str(ASSETS / "traces" / "ar-juice.json.gz")
RESULTS = ROOT / "benchmarks" / "results"
GRID = str(ROOT / "benchmarks" / "grids" / "text.json")
NOWHERE = "/sys"
"""A folder that not even the superuser may write to."""
DAMAGES = {
    "weights-flipped": "image-ar.safetensors",
    "weights-gone": "image-ar.safetensors",
    "manifest-gone": "MANIFEST.json",
    "config-cut": "tally-target/config.json",
    "tokenizer-cut": "tally-tokenizer.json",
}
"""Damages of a copy of the assets."""


@dataclass(frozen=True)
class Fault:
    """A command, and what is wrong around it; {out} is an empty folder, {in} the one with damaged files."""

    command: str
    variables: dict[str, str] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)
    """Limits of its process, such as the maximum file size, as on a full disk."""
    output: str = os.devnull
    """Target of standard output."""
    long: bool = False
    """Whether it reports progress first, and keeps partial results."""
    quick: bool = False
    """Whether it takes a second, and so is tried with the suite."""

    def limit(self) -> None:
        """Set the limits, in the process of the command."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing beyond the limit then fails
        for name, limit in self.limits.items():
            resource.setrlimit(name, (limit, limit))


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
    (folder / "empty.json").touch()
    (folder / "large.json.gz").write_bytes(gzip.compress(b'{"schema":"' + b"a" * 60_000_000 + b'"}', 1))
    for name, file in DAMAGES.items():
        models = folder / name / "models"
        shutil.copytree(ASSETS / "models", models, copy_function=lambda source, copy: os.symlink(source, copy))
        for other in ASSETS.iterdir():
            if other.name not in ("models", "traces"):
                (folder / name / other.name).symlink_to(other)
        content = bytearray((models / file).read_bytes())
        (models / file).unlink()
        if name.endswith("flipped"):
            content[len(content) // 2] ^= 1
        if not name.endswith("gone"):
            (models / file).write_bytes(content[:-1000] if name.endswith("cut") else content)
    return folder


def faults() -> Iterator[Fault]:
    """All of them."""
    writing = {
        "json": "draftscope run ar --model toy-raster -o",
        "html": f"draftscope view {TRACE} -o",
        "mp4": f"draftscope animate {TRACE} --passes-per-frame 20 --width 320 -o",
        "zip": f"draftscope export {TRACE} --figure race -o",
        "jsonl": f"draftscope experiment run {GRID} --problems 1 --jobs 1 -o",
    }
    for ending, command in writing.items():
        long = ending == "jsonl"
        yield Fault(f"{command} {NOWHERE}/a.{ending}", long=long)
        if ending != "zip":  # Chromium itself does not start where no file may grow
            full = {resource.RLIMIT_FSIZE: 100 if long else 2000}
            yield Fault(f"{command} {{out}}/a.{ending}", limits=full, long=long)
    for command in (f"draftscope view {TRACE} -o -", "draftscope list", "draftscope trace schema"):
        yield Fault(command, output="/dev/full", quick=command == "draftscope trace schema")
    for name in ("cut.json.gz", "empty.json", "gone.json"):
        yield Fault(f"draftscope trace validate {{in}}/{name}", quick=name == "cut.json.gz")
    yield Fault("draftscope figure frontier --results {in}/rows.jsonl.gz -o {out}/a.html")
    yield Fault("draftscope figure speed-up --results {in}/timings.json -o {out}/a.html")
    yield Fault("draftscope experiment run {in}/grid.json -o {out}/a.jsonl")
    for name in DAMAGES:
        method = "blockwise" if name.startswith(("config", "tokenizer")) else "ar"
        yield Fault(f"draftscope run {method} -o {{out}}/a.json", {"DRAFTSCOPE_ASSETS": f"{{in}}/{name}"})
    yield Fault("draftscope run scd -o {out}/a.json", {"DRAFTSCOPE_ASSETS": "/nonexistent"})
    nothing = {"PATH": "/nonexistent", "BROWSER_PATH": "/nonexistent"}
    yield Fault(f"visualizers {TRACE} --figure race -o {{out}}/a.zip", nothing)
    yield Fault("app", {"GRADIO_SERVER_PORT": "{port}"})
    for command in ("show", "validate"):
        little = {resource.RLIMIT_AS: 130 * 2**20}
        yield Fault(f"draftscope trace {command} {{in}}/large.json.gz", limits=little, quick=command == "show")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [one for one in faults() if FULL or one.quick], ids=lambda one: one.command)
def test_a_command_ends_with_one_clear_line(fault: Fault, damaged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        words = {"out": str(out), "in": str(damaged), "port": str(occupied.getsockname()[1])}
        variables = {key: value.format(**words) for key, value in fault.variables.items()}
        with open(fault.output, "wb") as output:
            done = subprocess.run(
                [sys.executable, "-m", *(part.format(**words) for part in fault.command.split())],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
                stdout=output,
                stderr=subprocess.PIPE,
                preexec_fn=fault.limit,
                timeout=240,
            )
    message = done.stderr.decode(errors="replace").strip()
    assert done.returncode > 0 and message and "Traceback" not in message, message
    assert fault.long or (message.count("\n") == 0 and not list(out.iterdir())), message
