"""The command `draftscope`: one name for what the packages do.

    draftscope run METHOD -o FILE        decode and write the trace; also list, check and calibrate
    draftscope view TRACE -o FILE        a page with the player, or a figure
    draftscope validate TRACE ...        what is wrong with traces
    draftscope predict TRACE ...         what the run would take on other hardware (computed)
    draftscope sweep GRID -o FILE        many runs, in a checkout of the repository
    draftscope app                       serve the app, in a checkout of the repository

Each takes the options of the command behind it; --help lists them.
"""

import runpy
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from draftscope import __version__
from traces.streams import GONE, piped

_ROOT: Final = Path(__file__).parents[1]
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
    actions: dict[str, Callable[[list[str]], int]] = {
        **{each: _engines(each) for each in ("run", "list", "check", "calibrate")},
        "view": lambda rest: _call("visualizers.__main__", rest),
        "validate": lambda rest: _call("traces.__main__", ["validate", *rest]),
        "predict": lambda rest: _call("draftscope.predicting", rest),
        "sweep": _sweep,
        "app": _app,
    }
    if name not in actions:
        said = f"there is no command {name!r}" if name else "a command is missing"
        print(f"draftscope: {said}; use one of {', '.join(actions)}", file=sys.stderr)
        return USAGE
    code = piped(lambda: actions[name](rest))
    return 0 if code == GONE else code  # Whoever read the output has seen enough.


def _engines(name: str) -> Callable[[list[str]], int]:
    def act(rest: list[str]) -> int:
        try:
            return _call("engines.__main__", [name, *rest])
        except ModuleNotFoundError as error:
            remedy = "pip install 'draftscope[engines]'"
            print(f"draftscope {name}: needs {error.name}, which is not installed; {remedy}", file=sys.stderr)
            return USAGE

    return act


def _sweep(rest: list[str]) -> int:
    if not (_ROOT / "benchmarks" / "sweep.py").is_file():
        return _absent("sweep")
    sys.path.insert(0, str(_ROOT))
    return _call("benchmarks.sweep", rest)


def _app(rest: list[str]) -> int:
    if not (_ROOT / "app.py").is_file():
        return _absent("app")
    if rest in (["-h"], ["--help"]):
        print("usage: draftscope app\n\nServe the app. GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where.")
        return 0
    if rest:
        print(f"draftscope app: takes no {rest[0]!r}; GRADIO_SERVER_PORT says where to serve", file=sys.stderr)
        return USAGE
    sys.path.insert(0, str(_ROOT))
    runpy.run_path(str(_ROOT / "app.py"), run_name="__main__")
    return 0


def _absent(name: str) -> int:
    print(f"draftscope {name}: is no part of the package; run it in a checkout of the repository", file=sys.stderr)
    return USAGE


def _call(module: str, rest: list[str]) -> int:
    return int(import_module(module).main(rest))


if __name__ == "__main__":
    sys.exit(main())
