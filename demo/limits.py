"""What one visitor may ask of a shared server."""

from typing import Final

from traces import limits

PROMPT_CHARACTERS: Final = 1000
LARGEST_SEED: Final = 2**31 - 1
UPLOAD_BYTES: Final = limits.FILE_BYTES
WAITING: Final = 16
"""Requests that may wait for their turn; further ones are told that the queue is full."""
COMPUTE: Final = {"concurrency_id": "compute", "concurrency_limit": 1}
"""Everything that runs a model shares one slot, so that timings are not those of a crowd."""
KEPT_SECONDS: Final = 2 * 60 * 60
"""How long the files of a visitor who left without saying so are kept."""
EXPERIMENT_RUNS: Final = 64
"""Runs in one experiment."""
