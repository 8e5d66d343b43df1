"""Methods with a defect: the source of a module with a line replaced."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType

import pytest

from draftscope.engines.methods import METHODS
from draftscope.engines.methods.method import Method
from draftscope.traces.files import ROOT

EXAMPLE = "docs/examples/prompt_lookup.py"


@dataclass(frozen=True)
class Mutant:
    """A defect, as the replacement of a text that a module has once."""

    name: str
    method: str
    """A name of the registry, or that of the example."""
    old: str
    new: str
    module: str = ""
    """The path of the module, if it is not the method's own."""
    settings: Mapping[str, object] = field(default_factory=dict)
    long: bool = False
    """Found by thousands of samples, which take as long as twenty other defects."""

    @property
    def path(self) -> str:
        """The path of the method's own module."""
        return EXAMPLE if self.method == "prompt-lookup" else f"engines/methods/{self.method.replace('-', '_')}.py"

    def load(self, monkeypatch: pytest.MonkeyPatch) -> Method:
        """Return the method with the defect; the modules are as before when the test ends."""
        if self.module:
            load_edited(self.module, self.old, self.new, monkeypatch)
            module = load_edited(self.path, "", "", monkeypatch)
        else:
            module = load_edited(self.path, self.old, self.new, monkeypatch)
        if self.method == "prompt-lookup":
            method: Method = module.METHOD
            return method
        return replace(METHODS[self.method], decode=module.decode)


def load_edited(path: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of a path of the repository with `old`, which it must have once, replaced by `new`.

    Modules that are loaded after it import it by its name.
    """
    source = (ROOT / path).read_text(encoding="utf-8")
    if old:
        assert source.count(old) == 1, f"{path} has {source.count(old)} times: {old}"
        source = source.replace(old, new)
    name = path.removesuffix(".py").removeprefix("docs/examples/").replace("/", ".")
    if name.startswith("engines."):
        name = f"draftscope.{name}"
    module = ModuleType(name)
    module.__file__ = str(ROOT / path)
    monkeypatch.setitem(sys.modules, name, module)
    package, _, leaf = name.rpartition(".")
    if package:
        monkeypatch.setattr(sys.modules[package], leaf, module)
    exec(compile(source, path, "exec"), module.__dict__)
    return module
