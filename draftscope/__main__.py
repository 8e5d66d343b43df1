"""The command `draftscope`: one name for what the packages do.

    draftscope run METHOD -o FILE        decode and write the trace; also list, fetch and check
    draftscope view TRACE -o FILE        a page with the player, or a figure
    draftscope validate TRACE ...        what is wrong with traces
    draftscope perfetto TRACE            the passes and verdicts as JSON that ui.perfetto.dev opens
    draftscope bench --target MODEL --prompts FILE
                                         one's own models by the clock, with drafts and without
    draftscope predict TRACE ...         what the run would take on other hardware (computed)
    draftscope calibrate -o FILE.json    this machine, measured in ten seconds, as a device for predict
    draftscope sweep GRID -o FILE        many runs, in a checkout of the repository
    draftscope app                       serve the app, in a checkout of the repository

Each takes the options of the command behind it; --help lists them.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from cli.streams import GONE, exit_code_for_pipe
from draftscope import __version__
from traces.files import ROOT

_COMMANDS: Final[dict[str, tuple[str, list[str]]]] = {
    **{name: ("engines.__main__", [name]) for name in ("run", "list", "fetch", "check")},
    "view": ("visualizers.__main__", []),
    **{name: ("traces.__main__", [name]) for name in ("validate", "perfetto")},
    "bench": ("draftscope.experiments.bench_command", []),
    "predict": ("draftscope.prediction", []),
    "calibrate": ("draftscope.calibration", []),
    "sweep": ("benchmarks.sweep", []),
    "app": ("app", []),
}
"""Command -> the module behind it, and the first of its arguments."""
USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = (given[0], given[1:]) if given else ("", [])
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name == "--version":
        print(f"draftscope {__version__}")
        return 0
    if name not in _COMMANDS:
        problem = f"there is no command {name!r}" if name else "a command is missing"
        print(f"draftscope: {problem}; use one of {', '.join(_COMMANDS)}", file=sys.stderr)
        return USAGE
    code = exit_code_for_pipe(lambda: _run(name, rest))
    return 0 if code == GONE else code  # Whoever read the output has seen enough.


def _run(name: str, rest: list[str]) -> int:
    module, first = _COMMANDS[name]
    if name in ("sweep", "app"):
        if not (ROOT / f"{module.replace('.', '/')}.py").is_file():
            problem = "is no part of the package; run it in a checkout of the repository"
            print(f"draftscope {name}: {problem}", file=sys.stderr)
            return USAGE
        sys.path.insert(0, str(ROOT))
    if name == "app" and rest in (["-h"], ["--help"]):
        print("usage: draftscope app\n\nServe the app. GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where.")
        return 0
    if name == "app" and rest:
        print(f"draftscope app: takes no {rest[0]!r}; GRADIO_SERVER_PORT says where to serve", file=sys.stderr)
        return USAGE
    if name == "app":
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
        return 0
    try:
        return int(import_module(module).main([*first, *rest]))
    except ModuleNotFoundError as error:
        remedy = "pip install 'draftscope[engines]'"
        print(f"draftscope {name}: needs {error.name}, which is not installed; {remedy}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
