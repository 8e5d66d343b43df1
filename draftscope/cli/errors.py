"""Exit codes of all commands, and the error that carries one."""

from typing import Final

from typer import TyperException

DONE: Final = 0
INVALID: Final = 1
"""A trace or results file is invalid, or a check of a method fails."""
USAGE: Final = 2
NO_MODEL: Final = 3
"""A model, or the browser that prints figures, is missing."""
UNDECIDED: Final = 4
"""An engine can neither be certified nor shown to be biased."""
OUT_OF_MEMORY: Final = 71
"""Memory ran out; EX_OSERR in sysexits.h."""
NOT_WRITTEN: Final = 74
"""Output could not be written, as in sysexits.h."""
INTERRUPTED: Final = 130
READER_GONE: Final = 141
"""The reader of a pipe closed it, as for other commands that SIGPIPE ends."""


class CommandError(TyperException):
    """An error that ends a command with a given exit code.

    Attributes:
        exit_code: One of the constants of this module.
    """

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
