"""Applies to every test: nothing leaves the machine, and torch uses one thread, which is faster for tiny tensors."""

import gc
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = "1000000000"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # where a test takes two, the one that waits leaves others its core
os.environ.setdefault("DRAFTSCOPE_DEVICE", "cpu")  # the same numbers everywhere; name another to test on it

import pytest
from support import shapes

pytest_plugins = ["support.app_fixtures"]

if "PYTEST_XDIST_WORKER" in os.environ or "-n" not in sys.argv:  # the process that waits for workers runs no test
    gc.disable()
    shapes.install()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the first worker compile alone, in a new environment, what all of them import."""
    worker, bytecode = os.environ.get("PYTEST_XDIST_WORKER"), getattr(find_spec("gradio"), "cached", None)
    if not worker or not bytecode or sys.dont_write_bytecode or Path(bytecode).exists():
        return (yield)
    compiled = Path(gettempdir(), os.environ["PYTEST_XDIST_TESTRUNUID"])
    limit = time.monotonic() + 120
    while worker != "gw0" and not compiled.exists() and time.monotonic() < limit:
        time.sleep(0.1)
    try:
        return (yield)
    finally:
        compiled.touch()


@pytest.fixture(autouse=True)
def _every_shape_is_checked() -> None:
    shapes.begin()


_open = ExitStack()
_browsers: list[Any] = []


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium, or its headless shell, which takes less time. Tests that follow each other share it."""
    from support.browser import executable

    from benchmarks._browser import chromium

    if not _browsers:
        _browsers.append(_open.enter_context(chromium(shutil.which("chromium-headless-shell") or executable())))
    return _browsers[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser before a test without it: where it stays open, what prints figures starts no event loop."""
    try:
        yield
    finally:
        if "browser" not in getattr(nextitem, "fixturenames", ()):
            _browsers.clear()
            _open.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = [*dict.fromkeys(item.path.parent for item in items)]
    items.sort(key=lambda item: (folders.index(item.path.parent), "browser" not in getattr(item, "fixturenames", ())))
    gc.freeze()  # what is imported by now stays, and is searched for garbage no more
    gc.enable()
    met = set[str]()
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "browser" in fixtures:
            item.add_marker("browser")
        if fixtures & {"browser", "server", "shipped_server", "small"}:
            item.add_marker("slow")
        if item.get_closest_marker("one_quick"):
            name = item.nodeid.partition("[")[0]
            if name in met:
                item.add_marker("slow")
            met.add(name)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name gzip bytes by their kind: they hold the second they were packed in, and workers must collect the same."""
    return "gzip" if isinstance(val, bytes) and val.startswith(b"\x1f\x8b") else None
