"""Commands that need the checkout of the repository, because they write files that belong to it."""

from importlib import import_module
from typing import Any

from draftscope.cli.errors import CommandError
from draftscope.traces.files import ROOT


def import_from_checkout(name: str) -> Any:
    """Import a module of the checkout, such as `draftscope.demo.jobs.recordings`.

    Raises:
        CommandError: The packages were installed without the checkout.
    """
    if not (ROOT / f"{name.replace('.', '/')}.py").is_file():
        raise CommandError("is not part of the installed package; run it in a checkout of the repository.")
    return import_module(name)
