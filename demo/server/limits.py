"""Resource limits of the server, each with its reason.

Limits that differ between a local and a public server are fields of `ServerLimits`, and environment variables override
them; all others are constants. docs/serving.md is for operators.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

from draftscope.engines.settings import ConfigError
from draftscope.traces import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits that differ between a local and a public server. None: unlimited."""

    run_seconds: float | None = None
    """Wall clock of one run, a pair counted as one, and of one experiment; what there is then is kept."""
    repeat_seconds: float | None = 600
    """Wall clock of a run that is repeated with many seeds, and of a grid of prompts: all their runs together."""
    waiting: int | None = 100
    """Queue length; further requests are rejected with an estimate of when to retry."""
    per_visitor: int | None = None
    """Running and queued requests of one browser session."""
    per_address: int | None = None
    """Running and queued requests of one network address: API clients have no session, and sessions are free."""
    kept_megabytes: int | None = None
    """Disk space of all users' files, in MB. While it is full, uploads are rejected; runs continue."""
    kept_megabytes_per_address: int | None = None
    """Disk space of the files uploaded from one network address, in MB, so that no client can fill the disk."""


LOCAL_LIMITS: Final = ServerLimits()
"""The user owns the machine. The queue is bounded so that a runaway script gets an error; 10 minutes are a wait that
a user chooses on purpose."""
PUBLIC: Final = ServerLimits(
    run_seconds=60,
    repeat_seconds=120,
    waiting=16,
    per_visitor=2,
    per_address=6,
    kept_megabytes=4000,
    kept_megabytes_per_address=400,
)
"""All users share one model slot. The longest run of the bundled models at their defaults takes about 10 s on two
cores, so 60 s are generous; 16 queued runs are a wait of a few minutes; two per session are one to watch and one
in the queue; six per address suffice for a class that shares a router; 4 GB are hundreds of the largest traces
and a tenth of the disk of a small Space; an address gets a tenth of that, a dozen of the largest files."""

ON_SPACE: Final = "SPACE_ID"
"""Set by a Hugging Face Space, which is public."""
_VARIABLES: Final = {field.name: f"DRAFTSCOPE_{field.name.upper()}" for field in fields(ServerLimits)}

PROMPT_CHARACTERS: Final = 1000
"""Ten times the longest problem that ships; a model's context ends before."""
UPLOAD_BYTES: Final = limits.FILE_BYTES
"""Maximum size of an uploaded trace, clip, result or timing file."""
BODY_BYTES: Final = 8 * 2**20
"""Maximum size of any other request body: parsed, it can take 20 times as much memory. A 6 MB trace fits a tool
call."""
ZIP_BYTES: Final = 48 * 2**20
"""Maximum size of an exported zip: figures and six of the largest traces of the bundled models."""
COMPUTE: Final[dict[str, Any]] = {"concurrency_id": "compute", "concurrency_limit": None}
"""Gradio event options of handlers that run a model.

Model runs share one slot, so that timings are comparable. `demo.server.run_queue` enforces it, not Gradio's queue,
which would also delay requests that need no model and does not report queue positions to the page.
"""
FILE_LIFETIME_SECONDS: Final = 2 * 60 * 60
"""How long the files of a visitor who left without saying so are kept: a long lunch."""
SESSIONS: Final = 64
"""Sessions whose page state is kept in memory, 1.2 MB each; the least recently used one is evicted."""
EXPERIMENT_RUNS: Final = 64
"""Runs in one experiment: 64 sequences of the largest shipped model fit into 2 GB."""
REJECT_FACTOR: Final = 2.0
"""A run is rejected if its estimate exceeds this multiple of `run_seconds`. Early passes say little about
acceptance, so runs below it are started and stopped at the limit."""
QUEUE_UPDATE_SECONDS: Final = 1.0
"""Interval of queue-position updates and of checks for disconnected clients."""
MAX_LIGHT_REQUESTS: Final = 40
"""Concurrent requests that need no model. This is Gradio's default."""


def read_limits(environment: Mapping[str, str]) -> ServerLimits:
    """Read the limits from environment variables; unset ones have the values of a Space or of a local server.

    Raises:
        ConfigError: If a value is neither a number above 0 nor "none".
    """
    defaults = PUBLIC if environment.get(ON_SPACE) else LOCAL_LIMITS
    read: dict[str, Any] = {name: _read(environment, name, getattr(defaults, name)) for name in _VARIABLES}
    return ServerLimits(**read)


@cache
def server_limits() -> ServerLimits:
    """The limits of this process. Raises ConfigError as `read_limits` does."""
    return read_limits(os.environ)


def _read(environment: Mapping[str, str], name: str, default: float | None) -> float | None:
    variable = _VARIABLES[name]
    text = environment.get(variable, "").strip().lower()
    if not text:
        return default
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
