"""How every embedded model was made, one command each. Imported by nobody."""

import os

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))  # large batches are worth sharing out
