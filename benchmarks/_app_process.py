"""The app in a process of its own, as tests and benchmarks.app start it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Final

import httpx

from draftscope.traces.files import ROOT

MAX_SECONDS_TO_START: Final = 240.0


@contextmanager
def served(
    variables: Mapping[str, str] | None = None, errors: IO[bytes] | None = None, command: Sequence[str] = ("app.py",)
) -> Iterator[tuple[str, float, subprocess.Popen[bytes]]]:
    """The running app: its address, the seconds until it was ready, its process.

    Args:
        variables: Environment variables in addition to ours.
        errors: Where its standard error goes; ours when left out.
        command: What Python is started with.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port), **(variables or {})}
    address, start = f"http://127.0.0.1:{port}", time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
    try:
        with httpx.Client(timeout=5) as client:  # one for all: making one takes longer than asking
            while not _answers(client, f"{address}/healthz"):
                if process.poll() is not None:
                    raise RuntimeError(f"the app ended with code {process.returncode} before it was ready")
                if time.monotonic() - start > MAX_SECONDS_TO_START:
                    raise RuntimeError(f"the app was not ready after {MAX_SECONDS_TO_START:.0f} s")
                time.sleep(0.02)
        yield address, time.monotonic() - start, process
    finally:
        process.terminate()
        try:
            process.wait(60)  # a busy machine is slow, not wrong
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(client: httpx.Client, url: str) -> bool:
    """Whether a GET gives 200."""
    try:
        return client.get(url).status_code == 200
    except httpx.HTTPError:
        return False
