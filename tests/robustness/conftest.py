"""An app for clients that send malformed requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import httpx
import orjson
import pytest

from benchmarks._app_process import served

SECRET = "draftscope-secret-that-nobody-may-read"
"""Is in a file and in the environment of the app; no answer may contain it."""
LIMITS = {
    "DRAFTSCOPE_RUN_SECONDS": "2",
    "DRAFTSCOPE_REPEAT_SECONDS": "2",
    "DRAFTSCOPE_WAITING": "4",
    "DRAFTSCOPE_KEPT_MEGABYTES": "2000",
}
"""Limits that end the work of a request soon."""


@dataclass(frozen=True)
class App:
    """A running app on the loopback."""

    address: str
    log: Path
    """Standard error of the app."""
    secret: Path
    """A file that must never be served."""

    @cached_property
    def events(self) -> list[dict[str, object]]:
        """Sound bodies for its queue: each event of the page with the values that the page opens with."""
        config = httpx.get(f"{self.address}/config", timeout=60).json()
        values = {one["id"]: one.get("props", {}).get("value") for one in config["components"]}
        small = {name: value for name, value in values.items() if len(orjson.dumps(value)) < 2000}
        return [
            {"data": [small.get(name) for name in one["inputs"]], "fn_index": one["id"], "session_hash": "s"}
            for one in config["dependencies"]
            if one.get("backend_fn", True)
        ]


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("robust")
    log, secret = folder / "log", folder / "secret.json.gz"
    secret.write_text(SECRET, encoding="utf-8")
    with log.open("wb") as errors, served({**LIMITS, "DRAFTSCOPE_SECRET": SECRET}, errors) as (address, _, _):
        yield App(address, log, secret)
