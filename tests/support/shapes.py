"""Shapes and types are checked while the tests run, on the first calls of every function in every test.

Further calls repeat them, and cost two to ten times as much with a check as without. A nested function is not checked:
it would be decorated in every call of the outer one, which would take as long as all checks.
"""

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from functools import reduce, wraps
from importlib import import_module
from types import FunctionType
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook
from jaxtyping._import_hook import JaxtypingTransformer

CALLS = 8
"""Number of checked calls of one function, in one test."""

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_calls: Counter[tuple[str, str]] = Counter()
_relieved: list[FunctionType] = []


class LibrariesFirst:
    """Imports large libraries when `draftscope.engines` is imported.

    What an instrumented module imports is compiled from its source again, which takes long for these.
    """

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Find nothing, so that the next finder is asked."""
        if name == "draftscope.engines":
            sys.meta_path.remove(self)
            getattr(import_module("diffusers"), "AutoencoderKL")  # noqa: B009  # lazy modules, imported by this
            getattr(import_module("transformers"), "Qwen3Model")  # noqa: B009


def install() -> None:
    """Check the functions of `draftscope.engines`, which must not be imported yet, once it is imported."""
    assert "draftscope.engines" not in sys.modules
    decorate = JaxtypingTransformer.visit_FunctionDef

    def outermost(self: Any, node: ast.FunctionDef) -> Any:
        within = any(isinstance(parent, ast.FunctionDef) for parent in self._parents)
        return node if within else decorate(self, node)

    JaxtypingTransformer.visit_FunctionDef = outermost
    install_import_hook("draftscope.engines", "support.shapes.outermost")
    sys.meta_path.insert(0, LibrariesFirst())


def outermost(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose signature jaxtyping decorates."""
    name = (stub.__module__, stub.__qualname__)
    checked: Callable[..., Any] | None = None

    @wraps(stub)
    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        checked = checked or _check(stub)  # most functions are never called
        _calls[name] += 1
        if _calls[name] == CALLS:
            _relieve(*name)
        return checked(*args, **kwargs)

    return counted


def begin() -> None:
    """A test begins: everything is checked again."""
    _calls.clear()
    for function in _relieved:
        del function.__no_type_check__
    _relieved.clear()


def _relieve(module: str, qualname: str) -> None:
    """Check a function no more, where it can be found by its name."""
    try:
        found = reduce(inspect.getattr_static, qualname.split("."), sys.modules[module])
    except AttributeError:  # a test has replaced it
        return
    function = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", None) or found)
    if isinstance(function, FunctionType):
        function.__no_type_check__ = True
        _relieved.append(function)
