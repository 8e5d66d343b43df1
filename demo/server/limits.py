"""What one visitor may ask of a server: every limit of the app, with its reason.

What a server of one's own and a public one differ in is in `Limits`, and the environment can say otherwise; the rest
is the same everywhere. docs/serving.md is for those who run a server.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

from engines.settings import ConfigError
from traces import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server of one's own and a public one differ in; None is no limit."""

    run_seconds: float | None = None
    """Wall clock of one run, a pair counted as one, and of one experiment; what there is then is kept."""
    repeat_seconds: float | None = 600
    """Wall clock of a run that is repeated with many seeds, and of a grid of prompts: all their runs together."""
    waiting: int | None = 100
    """Who may wait for the model; the next one is refused and told when to come again."""
    per_visitor: int | None = None
    """What one visitor, which is one open page, may have under way or waiting."""
    per_address: int | None = None
    """And everybody behind one network address together: programs have no page, and pages cost nothing to open."""
    kept_megabytes: int | None = None
    """What all visitors' files may take on the disk; while it is full, uploads are refused and the rest goes on."""
    kept_megabytes_per_address: int | None = None
    """And what everybody behind one network address has uploaded, so that no visitor can fill the room of all."""


LAPTOP: Final = Limits()
"""Whoever asks owns the machine. The line has an end so that a script gone wild is told, and 10 minutes are what
somebody waits for on purpose."""
PUBLIC: Final = Limits(
    run_seconds=60,
    repeat_seconds=120,
    waiting=16,
    per_visitor=2,
    per_address=6,
    kept_megabytes=4000,
    kept_megabytes_per_address=400,
)
"""Strangers share one slot. The longest run of the shipped models at their defaults takes about 10 s on two cores, so
60 s are generous; 16 waiting runs are a few minutes, longer than anybody stays; two a visitor are one to look at and
one to wait for; six an address leave room for a class behind one router, and for the others; 4 GB are hundreds of the
largest traces, and a tenth of a small Space's disk; an address has a tenth of that, a dozen of the largest files."""

ON_SPACE: Final = "SPACE_ID"
"""Set by a Hugging Face Space, which is public."""
_VARIABLES: Final = {field.name: f"DRAFTSCOPE_{field.name.upper()}" for field in fields(Limits)}

PROMPT_CHARACTERS: Final = 1000
"""Ten times the longest problem that ships; a model's context ends before."""
UPLOAD_BYTES: Final = limits.FILE_BYTES
"""What a trace file may have; clips, results and timings are held to the same."""
BODY_BYTES: Final = 8 * 2**20
"""Of any other request: parsed, it may take twenty times as much memory. A trace of 6 MB fits into a tool's call."""
ZIP_BYTES: Final = 48 * 2**20
"""Of a zip with figures and traces: six traces of the largest kind that the models here make."""
COMPUTE: Final[dict[str, Any]] = {"concurrency_id": "compute", "concurrency_limit": None}
"""Gradio event options of handlers that run a model.

Model runs share one slot, so that timings are comparable. `demo.server.run_queue` enforces it, not Gradio's queue,
which would also delay requests that need no model and does not report queue positions to the page.
"""
KEPT_SECONDS: Final = 2 * 60 * 60
"""How long the files of a visitor who left without saying so are kept: a long lunch."""
SESSIONS: Final = 64
"""Visitors, programs too, whose page the server remembers at 1.2 MB each; whoever was there longest ago begins anew."""
EXPERIMENT_RUNS: Final = 64
"""Runs in one experiment: 64 sequences of the largest shipped model fit into 2 GB."""
TRIED_PASSES: Final = 24
TRIED_SECONDS: Final = 1.5
"""What a run is given, whichever is over first, before it is judged whether it can fit into `run_seconds`: most are
judged before anybody notices."""
CANNOT_FIT: Final = 2.0
"""Times `run_seconds`: what is expected to take longer is refused. Early passes say little about acceptance, so a run
that may or may not fit is begun and cut off."""
TELL_SECONDS: Final = 1.0
"""How often somebody who waits is told their place, and it is looked whether they are still there."""
LIGHT: Final = 40
"""What may be under way at once beside the line: gradio's own number."""


def read_limits(environment: Mapping[str, str]) -> Limits:
    """The limits that an environment asks for: a public server's on a Space, a laptop's elsewhere, and what it names.

    Raises ConfigError for a value that is no number above 0 and not "none".
    """
    usual = PUBLIC if environment.get(ON_SPACE) else LAPTOP
    read: dict[str, Any] = {name: _read(environment, name, getattr(usual, name)) for name in _VARIABLES}
    return Limits(**read)


@cache
def current() -> Limits:
    """The limits of this process. Raises ConfigError as `read_limits` does."""
    return read_limits(os.environ)


def _read(environment: Mapping[str, str], name: str, usual: float | None) -> float | None:
    variable = _VARIABLES[name]
    text = environment.get(variable, "").strip().lower()
    if not text:
        return usual
    if text == "none":
        return None
    seconds = name.endswith("seconds")
    try:
        value = float(text) if seconds else int(text)
    except ValueError:
        value = 0
    if not (math.isfinite(value) and value > 0):
        what = "seconds, above 0" if seconds else "a whole number from 1"
        raise ConfigError(f"{variable}: {text[:40]!r} is not allowed; use {what}, or none for no limit.")
    return value


class Deadline:
    """Whether to stop: somebody asked to, or so many seconds from now are over; None is for as long as it takes."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self.seconds, self._stopped = seconds, stopped
        self._at = time.monotonic() + (math.inf if seconds is None else seconds)

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._at

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.over or self._stopped()

    @property
    def reason(self) -> str:
        """Why it stopped, as a title."""
        return f"Stopped after {self.seconds:g} s, which is what this server gives." if self.over else "Stopped."
