"""The parts of the page, and servers, for all tests of the app, with two recorded runs of the closed-form raster."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.browser import chromium
from support.parts import Parts
from support.raster import decoded

from demo.runs.recordings import FOLDER, Recording, recordings
from traces import write

ROOT = Path(__file__).parents[2]
MOST_SECONDS_TO_START = 120.0
MOST_SECONDS_TO_END = 40.0
"""Generous: a busy machine takes four times as long as an idle one."""


SERVERS = {"server", "shipped_server", "small"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts the app takes seconds, and so does what opens a browser."""
    for item in items:
        needed = set(getattr(item, "fixturenames", ()))
        if needed & {"browser", *SERVERS}:
            item.add_marker("slow")
        if "browser" in needed:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def shipped() -> tuple[Recording, ...]:
    """The recordings that ship."""
    return recordings()


@pytest.fixture(scope="session")
def parts(recorded: tuple[Recording, ...]) -> Parts:
    return Parts.build(recorded)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ordinary decoding and SCD of the same seed."""
    folder = tmp_path_factory.mktemp("recordings")
    write(decoded("ar"), folder / "ar.json.gz")
    write(decoded("scd", window=16), folder / "scd.json.gz")
    return folder


@pytest.fixture(scope="session")
def recorded(library: Path) -> tuple[Recording, ...]:
    return recordings(library)


@pytest.fixture(scope="session")
def server(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running app with those two recordings."""
    with serving(library, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="session")
def shipped_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running app with the recordings that ship."""
    with serving(FOLDER, tmp_path_factory.mktemp("shipped")) as address:
        yield address


@pytest.fixture(scope="module")
def small(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app as a Space would run it, with a line for two."""
    variables = {"SPACE_ID": "somebody/draftscope", "DRAFTSCOPE_WAITING": "2", "DRAFTSCOPE_PER_ADDRESS": "none"}
    with serving(library, tmp_path_factory.mktemp("small"), **variables, DRAFTSCOPE_RUN_SECONDS="none") as address:
        yield address


@contextmanager
def serving(library: Path, temporary: Path, **variables: str) -> Iterator[str]:
    """The app with the recordings of a folder, and further variables of the environment.

    Told to end, it takes its visitors' files with it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
        "TMPDIR": str(temporary),
        **variables,
    }
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "support.served", str(library)], env=environment, cwd=ROOT)
    try:
        wait_until_ready(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(MOST_SECONDS_TO_END)
    assert process.returncode == 0
    assert not list(temporary.glob("draftscope-*"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def wait_until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    late = time.monotonic() + MOST_SECONDS_TO_START
    while time.monotonic() < late:
        assert process.poll() is None, "the app ended before it was ready"
        try:
            with urllib.request.urlopen(f"{address}/healthz") as answer:
                assert answer.status == 200
                return
        except urllib.error.HTTPError as error:
            error.close()
        except urllib.error.URLError:
            pass
        time.sleep(0.2)
    pytest.fail(f"the app was not ready after {MOST_SECONDS_TO_START:.0f} s")
