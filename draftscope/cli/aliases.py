"""Commands and options of earlier versions, accepted for one release: each prints its current form and runs it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from draftscope.cli.errors import CommandError
from draftscope.traces.files import STANDARD

_Command = tuple[str, ...]
_COMMANDS: Final[Mapping[str, Mapping[str, _Command]]] = {
    "engines": {
        "list": ("list",),
        "run": ("run",),
        "check": ("check",),
        "fetch": ("model", "download"),
        "expect": ("model", "memory"),
        "convert": ("model", "convert"),
        "calibrate": ("model", "calibrate-graph"),
    },
    "traces": {name: ("trace", name) for name in ("validate", "show", "schema", "perfetto")},
    "demo": {"record": ("dev", "record"), "cards": ("dev", "clip-cards")},
    "draftscope": {
        "fetch": ("model", "download"),
        "validate": ("trace", "validate"),
        "perfetto": ("trace", "perfetto"),
        "predict": ("hardware", "predict"),
        "calibrate": ("hardware", "calibrate"),
        "sweep": ("experiment", "run"),
    },
}
"""Program -> its first argument -> the current command."""
_OPTIONS: Final[Mapping[_Command, Mapping[str, str]]] = {
    ("run",): {"--likely": "--record-top-k", "--draft-model": "--drafter"},
    ("model", "download"): {"--from": "--source"},
    ("model", "memory"): {"--sequences": "--batch"},
    ("hardware", "predict"): {"--draft": "--drafter"},
    ("bench",): {"--draft": "--drafter", "--gamma": "--draft-length"},
    ("figure",): {"--sweep": "--results", "--timings": "--results"},
    ("animate",): {
        "--draft": "--drafter",
        "--slow": "--slowdown",
        "--hold": "--last-frame-seconds",
        "--every": "--passes-per-frame",
        "--name": "--title",
    },
}
"""Current command -> an earlier option -> the current one."""
_TEXTS: Final = ("--prompt", "--system", "--title", "--name", "--set")
"""Options whose value may look like an option."""
_FLAGS: Final = ("--no-traces", "--clip", "--list", "--help", "-h")
"""Options of the earlier `visualizers` that take no value."""
_VIEW_OPTIONS: Final = ("--figure", "--sweep", "--timings", "--list", "--format")
"""Options of the earlier `draftscope view` that belong to other commands now."""


def run(program: str) -> int:
    """Run a command line of `python -m PROGRAM` as the command `draftscope`, after a line that shows the new form."""
    from draftscope.cli.main import main, notice

    try:
        words = translate(program, sys.argv[1:])
    except CommandError as error:
        print(f"python -m {program}: {error}", file=sys.stderr)
        return error.exit_code
    notice(words)
    return main(words)


def translate(program: str, words: Sequence[str]) -> list[str]:
    """Return the words after `draftscope` that do what the words after an earlier program did.

        translate("engines", ["fetch", "smollm2", "--from", "hub"])
        ["model", "download", "smollm2", "--source", "hub"]

    Args:
        program: The module after `python -m`, or "draftscope".
        words: Arguments of the program. Those that have their current form are returned unchanged.

    Raises:
        CommandError: Options of the earlier `visualizers` contradict each other.
    """
    if program == "benchmarks.sweep":
        return ["experiment", "run", *words]
    if program == "visualizers" or (program == "draftscope" and words[:1] == ["view"] and _is_old_view(words[1:])):
        words = _split_visualizers(words[1:] if program == "draftscope" else words)
    elif words:
        words = [*_COMMANDS[program].get(words[0], words[:1]), *words[1:]]
    return _rename_options(list(words))


def _rename_options(words: list[str]) -> list[str]:
    """Return the words with the current names of the options."""
    for command, options in _OPTIONS.items():
        if tuple(words[: len(command)]) == command:
            remaining = words[len(command) :]
            return [*command, *_rename(_repeat_gamma(remaining) if command == ("bench",) else remaining, options)]
    return words


def _rename(words: Sequence[str], options: Mapping[str, str]) -> Iterator[str]:
    for previous, word in pairwise(["", *words]):
        name, equals, value = word.partition("=")
        renamed = previous not in _TEXTS and name in options
        yield f"{options[name]}{equals}{value}" if renamed else word


def _repeat_gamma(words: Sequence[str]) -> list[str]:
    """Return `--gamma 2 --gamma 4` for `--gamma 2 4`."""
    result: list[str] = []
    for word in words:
        if word.isdecimal() and result[-2:-1] == ["--gamma"]:
            result.append("--gamma")
        result.append(word)
    return result


def _split(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the traces, and the options with their values, of arguments of the earlier `visualizers`."""
    traces: list[str] = []
    options: list[tuple[str, str]] = []
    remaining = iter(words)
    for word in remaining:
        if word == STANDARD or not word.startswith("-"):
            traces.append(word)
            continue
        name, equals, value = word.partition("=")
        if not equals and name not in _FLAGS:
            name, value = ("-o", word[2:]) if word[:2] == "-o" and len(word) > 2 else (name, next(remaining, ""))
        options.append(("-o" if name == "--output" else name, value))
    return traces, options


def _is_old_view(words: Sequence[str]) -> bool:
    """Whether the words after `draftscope view` use options that belong to other commands now."""
    _, options = _split(words)
    values = dict(options)
    suffix = PurePath(values.get("-o", "")).suffix.lower()
    return suffix in (".gif", ".mp4", ".webp", ".zip") or any(name in values for name in _VIEW_OPTIONS)


def _split_visualizers(words: Sequence[str]) -> list[str]:
    """Return the current command for arguments of the earlier `visualizers`, which wrote all kinds of files."""
    traces, options = _split(words)
    values = dict(options)
    if "--list" in values:
        return ["figure", "--list"]
    if "--sweep" in values and "--timings" in values:
        raise CommandError(f"--timings {values['--timings']}: cannot be combined with --sweep; omit one of them.")
    figures = [value for name, value in options if name == "--figure"]
    kind = values.get("--format") or PurePath(values.get("-o", "")).suffix.removeprefix(".").lower()
    if kind in ("gif", "mp4", "webp"):
        command = ["animate"]
    elif kind == "zip":
        command = ["export"]
    elif len(figures) > 1:
        raise CommandError(f"--figure {figures[1]}: a .{kind} file holds one figure; choose .zip for several.")
    elif figures or "--sweep" in values or "--timings" in values:
        command = ["figure", *figures]
        options = [(name, value) for name, value in options if name != "--figure"]
    else:
        command = ["view"]
        unused = ("--theme",) if kind == "html" or values.get("-o") == STANDARD else ()
        options = [(name, value) for name, value in options if name not in (*unused, "--format")]
    return [*command, *traces, *(word for option in options for word in option if word)]
