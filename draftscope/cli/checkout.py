"""Commands that need the checkout of the repository, because the wheel does not contain the modules they import."""

import sys
from importlib import import_module
from typing import Any

from draftscope.cli.errors import CommandError
from traces.files import ROOT


def import_from_checkout(name: str) -> Any:
    """Import a module of the checkout, such as `demo.serve`.

    Raises:
        CommandError: The packages were installed without the checkout.
    """
    if not (ROOT / f"{name.replace('.', '/')}.py").is_file():
        raise CommandError("is not part of the installed package; run it in a checkout of the repository.")
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module(name)
