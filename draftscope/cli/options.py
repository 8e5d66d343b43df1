"""Options that several commands share, and completion of their values."""

from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option
from typer.core import TyperCommand

from draftscope.cli.errors import CommandError
from draftscope.engines.settings import ConfigError, read_variables

_DEVICES = "auto, cpu, cuda, cuda:N or mps; default: DRAFTSCOPE_DEVICE, or auto"
_RARE = "rare"
rare_option = partial(Option, rich_help_panel=_RARE)
"""An option that a `LongCommand` lists only in its `--help-all`."""


class LongCommand(TyperCommand):
    """A command whose `--help` only names its rare options; `--help-all` describes them, too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options that this help lists."""
        params = self.params
        rare = [] if ctx.meta.get(_RARE) else [one for one in params if getattr(one, "rich_help_panel", None) == _RARE]
        self.params = [one for one in params if one not in rare]
        super().format_options(ctx, formatter)
        self.params = params
        if rare:
            names = [one.opts[0] for one in rare if one.name != "help_all"]
            formatter.write_paragraph()
            formatter.write_text(f"--help-all also describes {', '.join(names)}.")


def _print_all_help(ctx: Context, value: bool) -> None:
    if value:
        ctx.meta[_RARE] = True
        print(ctx.get_help())
        raise Exit


def parse_assignments(texts: Sequence[str]) -> dict[str, str]:
    """Return the settings of `--set NAME=VALUE` by name."""
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"--set: {text!r} must read NAME=VALUE.")
    return dict(text.split("=", 1) for text in texts)


def parse_variables(texts: Sequence[str] | None, option: str = "--template") -> dict[str, Any] | None:
    """Return the variables of an option NAME=VALUE by name; None where there is none."""
    return None if texts is None else read_variables(texts, option)


def check_choice(option: str, value: str | None, choices: Iterable[str]) -> None:
    """Raise ConfigError for a value that is not among the choices; None is allowed.

    For choices that are defined in modules too large to import for the help.
    """
    names = [*choices]
    if value is not None and value not in names:
        raise ConfigError(f"{option}: {value!r} is not valid; use one of {', '.join(names)}.")


def reject_unused(context: Context, names: Iterable[str], why: str) -> None:
    """Raise CommandError for an option that was given on the command line and would have no effect.

    Args:
        context: The command's.
        names: Parameters of its function.
        why: What follows the option's name in the message: what it needs, and what to do.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            raise CommandError(f"{parameter.opts[-1]}: {why}.")


def _index() -> dict[str, Any]:
    index: dict[str, Any] = import_module("draftscope.engines.runtime.method_index").method_index()
    return index


def _complete_methods() -> list[tuple[str, str]]:
    return [(name, about["title"]) for name, about in _index()["methods"].items()]


def _complete_models() -> list[tuple[str, str]]:
    return [(name, about["title"]) for name, about in _index()["models"].items()]


def _complete_downloads() -> list[tuple[str, str]]:
    return [(name, about["title"]) for name, about in _index()["models"].items() if about["fetched"]]


def _complete_settings() -> list[str]:
    methods = _index()["methods"].values()
    return [*dict.fromkeys(f"{name}=" for about in methods for name in about["settings"])]


def _complete_dtypes() -> list[str]:
    return ["bfloat16", "float16", "float32"]


def _complete_figures() -> list[tuple[str, str]]:
    visualizers = import_module("draftscope.visualizers")
    figures = {**visualizers.FIGURES, **visualizers.SWEEP_FIGURES, **visualizers.TIMING_FIGURES}
    return [(name, figure.title) for name, figure in figures.items()]


TraceFiles = Annotated[list[str], Argument(metavar="TRACE", help="A trace, .json or .json.gz; - is standard input.")]
Method = Annotated[
    str,
    Argument(
        metavar="METHOD",
        help="A name of draftscope list, or module:NAME of a custom method.",
        autocompletion=_complete_methods,
    ),
]
Model = Annotated[
    str | None,
    Option(
        metavar="ID",
        help="An id of draftscope list, a folder or OWNER/NAME; default: the method's bundled model.",
        autocompletion=_complete_models,
    ),
]
RequiredModel = Annotated[str, Option(metavar="ID", help="As for draftscope run.", autocompletion=_complete_models)]
DownloadedModel = Annotated[
    str, Argument(metavar="MODEL", help="A name of draftscope list.", autocompletion=_complete_downloads)
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A setting of draftscope list.", autocompletion=_complete_settings),
]
HelpAll = Annotated[bool, rare_option("--help-all", is_eager=True, callback=_print_all_help, help="Show this help.")]
Chat = Annotated[
    bool | None,
    rare_option(help="Use the chat template; default: if the model has one.", show_default=False),
]
System = Annotated[str | None, rare_option(metavar="TEXT", help="System turn of the chat template.")]
Template = Annotated[
    list[str] | None,
    rare_option(
        "--template", metavar="NAME=VALUE", help="A variable of the chat template, such as enable_thinking=false."
    ),
]
Cluster = Annotated[
    str,
    rare_option(
        metavar="ADDRESS",
        envvar="DRAFTSCOPE_CLUSTER",
        help="Dask scheduler whose workers run it, such as tcp://HOST:8786.",
    ),
]
Device = Annotated[str, Option(metavar="DEVICE", help=f"{_DEVICES}.", show_default=False)]
Devices = Annotated[
    str | None, Option(metavar="DEVICE", help=f"{_DEVICES}; several for a large language model: cuda:0,cuda:1.")
]
Dtype = Annotated[
    str | None,
    rare_option(
        metavar="DTYPE",
        help="Type of published weights; default: float32 on a CPU, else bfloat16.",
        autocompletion=_complete_dtypes,
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Figures = Annotated[
    list[str] | None,
    Option("--figure", metavar="NAME", help="Only these figures.", autocompletion=_complete_figures),
]
FigureName = Annotated[
    str | None, Argument(metavar="NAME", help="A name of --list.", autocompletion=_complete_figures, show_default=False)
]
