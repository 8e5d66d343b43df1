"""A stop condition with a time limit, and how much of a run is tried to estimate its duration."""

import math
import time
from collections.abc import Callable
from typing import Final

PROBE_PASSES: Final = 24
PROBE_SECONDS: Final = 1.5
"""A run is probed for this many passes or seconds, whichever comes first, to estimate its duration; most probes are too
short to be noticed."""


class Deadline:
    """Stop condition: a request to stop, or a time limit in seconds from now; None for no limit."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self.seconds, self._stopped = seconds, stopped
        self._at = time.monotonic() + (math.inf if seconds is None else seconds)

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() >= self._at

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.expired or self._stopped()

    @property
    def reason(self) -> str:
        """Why it stopped, as a title."""
        return f"Stopped after {self.seconds:g} s, the time limit." if self.expired else "Stopped."
