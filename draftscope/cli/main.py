"""The command `draftscope`: all commands, and how errors become one line and an exit code."""

import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from draftscope import __version__
from draftscope.cli import aliases, certify, dev, diff, experiment, figure, hardware, model, run, site, trace
from draftscope.cli.errors import DONE, INTERRUPTED, INVALID, NO_MODEL, READER_GONE, USAGE, CommandError
from draftscope.cli.options import LongCommand
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.errors import ModelError
from draftscope.traces.errors import TraceError

NAME: Final = "draftscope"
_COMPLETION: Final = "_DRAFTSCOPE_COMPLETE"
"""Environment variable through which a shell asks for completions."""


class CommandGroup(TyperGroup):
    """The top-level commands; translates old forms, and reports errors as one line on standard error."""

    def main(self, args: Sequence[str] | None = None, *other: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line; return the exit code, or exit with it in standalone mode."""
        if _COMPLETION in os.environ:
            return super().main(args, NAME, _COMPLETION, standalone_mode, **extra)
        words = list(sys.argv[1:] if args is None else args)
        code = exit_code_for_pipe(partial(self._exit_code, words))
        code = DONE if code == READER_GONE else code  # the reader has all it wanted
        if standalone_mode:
            sys.exit(code)
        return code

    def _exit_code(self, words: list[str]) -> int:
        try:
            current = aliases.translate(NAME, words)
            if current != words:
                notice(current)
            words = current
            with warnings.catch_warnings(), self.make_context(NAME, words) as context:
                warnings.showwarning = _show_warning
                return int(self.invoke(context) or DONE)
        except typer.Exit as exit_:
            return exit_.exit_code
        except (typer.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except ModuleNotFoundError as error:
            message = f"needs {error.name}, which is not installed; pip install 'draftscope[engines]'"
            code = USAGE
        except (ValueError, ModelError, typer.TyperException) as error:
            message, code = _message(error), _code(error)
        print(f"{' '.join([NAME, *self._path(words)])}: {message}", file=sys.stderr)
        return code

    def _path(self, words: Sequence[str]) -> list[str]:
        """Return the names of the command that the words call."""
        path, group = [], self
        for word in words:
            command = group.commands.get(word)
            if command is None:
                break
            path.append(word)
            if not isinstance(command, TyperGroup):
                break
            group = command  # type: ignore[assignment]
        return path


def notice(words: Sequence[str]) -> None:
    """Print the current form of a command that was given in an old form."""
    print(
        f"{NAME}: this form ends with the next release; use: {shlex.join([NAME, *words])}",
        file=sys.stderr,
    )


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line on standard error."""
    print(f"{NAME}: {' '.join(str(message).split())}", file=sys.stderr)


def _message(error: Exception) -> str:
    """Return the message of an error; that of a usage error with a remedy."""
    if isinstance(error, CommandError) or not isinstance(error, typer.TyperException):
        return str(error)
    message = error.format_message().rstrip(".").replace("\n\t", " ").replace("\n", " ")
    context = getattr(error, "ctx", None)
    command = context.command if context else None
    if isinstance(command, TyperGroup):
        return f"{message}; use one of {', '.join(command.commands)}."
    return f"{message}; {context.command_path if context else NAME} --help lists arguments and options."


def _code(error: Exception) -> int:
    if isinstance(error, TraceError):
        return INVALID
    if isinstance(error, ModelError):
        return NO_MODEL
    return error.exit_code if isinstance(error, typer.TyperException) else USAGE


def _print_version(value: bool) -> None:
    if value:
        print(f"{NAME} {__version__}")
        raise typer.Exit


def _describe(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Run speculative decoding step by step, record every step in a trace, and draw it."""


app: Final = typer.Typer(
    name=NAME,
    cls=CommandGroup,
    callback=_describe,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("list")(run.list_names)
app.command("run", cls=LongCommand)(run.run)
app.command("check")(run.check)
app.command("view")(figure.view)
app.command("figure")(figure.figure)
app.command("export")(figure.export)
app.command("animate", cls=LongCommand)(figure.animate)
app.command("site")(site.site)
app.add_typer(trace.app, name="trace")
app.add_typer(model.app, name="model")
app.add_typer(hardware.app, name="hardware")
app.command("bench", cls=LongCommand)(experiment.bench)
app.command("certify")(certify.certify)
app.command("diff")(diff.diff)
app.add_typer(experiment.app, name="experiment")
app.command("app")(dev.serve_app)
app.add_typer(dev.app, name="dev")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    code: int = app(arguments, standalone_mode=False)
    return code
