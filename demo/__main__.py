"""`python -m demo`: an alias of the command `draftscope dev`, for one release."""

import sys

from draftscope.cli.aliases import run

if __name__ == "__main__":
    sys.exit(run("demo"))
