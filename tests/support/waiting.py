"""Waiting for a state, however long it takes on a busy machine."""

import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 120.0


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fails after SECONDS."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "a state was not reached in time"
        time.sleep(0.02)
