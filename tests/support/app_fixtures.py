"""The parts of the page, and servers, for all tests of the app, with two recorded runs of the closed-form raster.

The root conftest.py loads this plugin for every test, so what takes long to import is imported by the fixtures.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from draftscope.traces import write
from draftscope.traces.files import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from draftscope.demo.jobs.recordings import Recording
    from support.page_handlers import Parts


@pytest.fixture(scope="session")
def shipped() -> "tuple[Recording, ...]":
    """The recordings that ship."""
    from draftscope.demo.jobs.recordings import recordings

    return recordings()


@pytest.fixture(scope="session")
def parts(recorded: "tuple[Recording, ...]") -> "Parts":
    """The pages without a server."""
    from support.page_handlers import Parts

    return Parts.build(recorded)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ordinary decoding and SCD of the same seed."""
    from benchmarks._toy_runs import decode_toy_raster

    folder = tmp_path_factory.mktemp("recordings")
    write(decode_toy_raster("ar"), folder / "ar.json.gz")
    write(decode_toy_raster("scd", window=16), folder / "scd.json.gz")
    return folder


@pytest.fixture(scope="session")
def recorded(library: Path) -> "tuple[Recording, ...]":
    """Those two as recordings."""
    from draftscope.demo.jobs.recordings import recordings

    return recordings(library)


@pytest.fixture(scope="session")
def server(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running app with those two recordings."""
    with serving(library, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="session")
def shipped_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running app with the recordings that ship."""
    from draftscope.demo.jobs.recordings import FOLDER

    with serving(FOLDER, tmp_path_factory.mktemp("shipped")) as address:
        yield address


@pytest.fixture(scope="module")
def small(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app as a Space would run it, with a queue for two."""
    variables = {"SPACE_ID": "user/draftscope", "DRAFTSCOPE_WAITING": "2", "DRAFTSCOPE_PER_ADDRESS": "none"}
    with serving(library, tmp_path_factory.mktemp("small"), **variables, DRAFTSCOPE_RUN_SECONDS="none") as address:
        yield address


@pytest.fixture
def page(browser: "Browser", server: str, request: pytest.FixtureRequest) -> "Iterator[Page]":
    """The app with those two recordings, opened; parameters are its `address` after the server's, and options."""
    from support.browser import visit

    options = dict(getattr(request, "param", {}))
    with visit(browser, f"{server}/{options.pop('address', '')}", **options) as opened:
        opened.wait_for_function("globalThis.draftscopeOpened")
        yield opened


@contextmanager
def serving(library: Path, temporary: Path, **variables: str) -> Iterator[str]:
    """The app with the recordings of a folder, and further environment variables.

    When it is stopped, it removes its users' files.
    """
    from benchmarks._app_process import served

    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "TMPDIR": str(temporary),
        **variables,
    }
    with served(environment, command=("-m", "support.serve_folder", str(library))) as (address, _, process):
        yield address
    assert process.returncode == 0
    assert not list(temporary.glob("draftscope-*"))
