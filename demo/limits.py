"""What one visitor may ask of a shared server."""

from typing import Final

from traces import limits

PROMPT_CHARACTERS: Final = 1000
UPLOAD_BYTES: Final = limits.FILE_BYTES
REPEAT_SECONDS: Final = 600
"""Of a run that is repeated with many seeds, all together."""
ZIP_BYTES: Final = 48 * 2**20
"""Of a zip with figures and traces."""
WAITING: Final = 16
"""Requests that may wait for their turn; further ones are told that the queue is full."""
COMPUTE: Final = {"concurrency_id": "compute", "concurrency_limit": 1}
"""Everything that runs a model shares one slot, so that timings are not those of a crowd."""
KEPT_SECONDS: Final = 2 * 60 * 60
"""How long the files of a visitor who left without saying so are kept."""
SESSIONS: Final = 64
"""Visitors, programs too, whose page the server remembers at 1.2 MB each; whoever was there longest ago begins anew."""
EXPERIMENT_RUNS: Final = 64
"""Runs in one experiment."""
GPU_START_SECONDS: Final = 20
"""What a GPU that is lent is asked for beyond decoding: loading the model, and slow first passes."""
GPU_TOKEN_SECONDS: Final = 0.1
"""And for every token, however few passes it will take; an allowance, not a measurement."""
GPU_MOST_SECONDS: Final = 120
"""And at most: a longer run is cut off there."""
