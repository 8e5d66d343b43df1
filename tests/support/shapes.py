"""Shapes and types are checked while the tests run, on the first calls of every function in every test.

Further calls repeat them, and cost two to ten times as much with a check as without. So a function has the code of a
stub that checks, and after these calls its own code again, which costs nothing. Nested functions are not checked: they
would be prepared in every call of the outer one, which would take as long as all checks.
"""

import inspect
import sys
from collections.abc import Callable
from functools import cached_property
from importlib.machinery import SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any

CALLS = 2
"""Number of checked calls of one function, in one test."""

_called: "list[Checked]" = []


class Checked:
    """A function whose first calls are checked."""

    def __init__(self, function: FunctionType) -> None:
        self.function, self.calls, code = function, 0, function.__code__
        self.original = FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        for name in ("__module__", "__qualname__", "__kwdefaults__"):
            setattr(self.original, name, getattr(function, name))
        # A quoted name is a class defined later, perhaps a protocol, which takes no isinstance.
        hints = function.__annotations__
        self.original.__annotations__ = {k: Any if isinstance(hint, str) else hint for k, hint in hints.items()}
        self.stub = _stub.__code__.replace(
            co_consts=tuple(self if const == "checked" else const for const in _stub.__code__.co_consts),
            co_freevars=code.co_freevars,  # the closure has one cell for each
            **{name: getattr(code, name) for name in ("co_filename", "co_firstlineno", "co_name", "co_qualname")},
        )
        function.__wrapped__ = self.original  # inspect.signature follows it
        self.begin()

    def begin(self) -> None:
        """Check the next calls."""
        self.calls, self.function.__code__ = 0, self.stub

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check a call."""
        if not self.calls:
            _called.append(self)
        self.calls += 1
        if self.calls == CALLS:
            self.function.__code__ = self.original.__code__
        return self._check(*args, **kwargs)

    @cached_property
    def _check(self) -> Callable[..., Any]:
        """Made when it is needed: most functions are never called."""
        from beartype import BeartypeConf, beartype
        from jaxtyping import jaxtyped

        return jaxtyped(self.original, typechecker=beartype(conf=BeartypeConf(is_pep484_tower=True)))


def _stub(*args: Any, **kwargs: Any) -> Any:
    checked = "checked"  # its Checked, in the stub of a function
    return checked(*args, **kwargs)


def install() -> None:
    """Check the functions of `draftscope.engines` that are imported from now on."""
    assert "draftscope.engines" not in sys.modules
    execute = SourceFileLoader.exec_module

    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        execute(self, module)
        if f"{module.__name__}.".startswith("draftscope.engines."):
            for function in functions(module):
                Checked(function)

    SourceFileLoader.exec_module = exec_module


def functions(module: ModuleType) -> list[FunctionType]:
    """The annotated functions that a module and its classes define."""
    found, todo = dict[int, Any](), [*vars(module).values()]
    while todo:
        value = todo.pop()
        function = getattr(value, "fget", None) or getattr(value, "__func__", None) or getattr(value, "func", value)
        if callable(function) and not isinstance(function, type):
            function = inspect.unwrap(function)  # of what is cached
        if getattr(function, "__module__", "") != module.__name__ or id(function) in found:
            continue
        found[id(function)] = function
        if isinstance(function, type):
            todo += vars(function).values()
    return [value for value in found.values() if isinstance(value, FunctionType) and value.__annotations__]


def begin() -> None:
    """A test begins: everything is checked again."""
    while _called:
        _called.pop().begin()
