"""One server for all tests of the page, with two recorded runs of the closed-form raster."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import pytest
from support.raster import decoded

from demo.app import build
from demo.recordings import Recording, recordings
from demo.server import start
from demo.sessions import Visitors
from traces import write


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    blocks: gr.Blocks
    visitors: Visitors


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
def server(library: Path, recorded: tuple[Recording, ...]) -> Iterator[Server]:
    visitors = Visitors()
    blocks = build(visitors, recorded)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = start(blocks, [visitors.root, library], server_name="127.0.0.1", server_port=port, quiet=True)
    yield Server(address.rstrip("/"), blocks, visitors)
    blocks.close()
