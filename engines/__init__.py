"""Methods, the models they run on, and what drives them. Knows no user interface.

Importing this keeps torch to one thread, unless it is loaded already or OMP_NUM_THREADS is set: docs/design.md.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
