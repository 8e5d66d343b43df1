"""`python -m traces`: an alias of the command `draftscope`, for one release."""

import sys
from importlib import import_module  # lower packages do not import draftscope

if __name__ == "__main__":
    sys.exit(import_module("draftscope.cli.aliases").run("traces"))
