"""Methods, the models they run on, and what drives them. Knows no user interface.

Importing this keeps torch to one thread and gives it large memory pages for weights, unless it is loaded already or
these variables are set: docs/design.md.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
