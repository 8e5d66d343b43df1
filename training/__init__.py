"""How every embedded model was made, one command each. No other package imports it."""

import os

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))  # large batches are worth sharing out
