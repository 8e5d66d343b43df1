"""`python -m draftscope`: the command `draftscope`."""

import sys

from draftscope.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
