"""Old name of `draftscope experiment run`."""

import sys

from draftscope.cli.aliases import run

if __name__ == "__main__":
    sys.exit(run("benchmarks.sweep"))
