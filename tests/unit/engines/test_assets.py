"""Weights and recordings of an installed package: fetched from a server, checked, resumed."""

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from draftscope.cli.main import main
from draftscope.engines import assets
from draftscope.engines.models.errors import ModelError

FILES = {"models/a.safetensors": b"weights", "problems.json": b"[]"}


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a server, with the files of a release."""
    folder = tmp_path / "served"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    hashes = {name: (len(data), sha256(data).hexdigest()) for name, data in FILES.items()}
    monkeypatch.setattr(assets, "listed", lambda: hashes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv(assets.SOURCE_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
    yield folder
    server.shutdown()
    server.server_close()


def test_a_checkout_lacks_nothing() -> None:
    assert not assets.missing()


def test_what_is_missing_is_fetched_and_an_interrupted_fetch_goes_on(served: Path, tmp_path: Path) -> None:
    target, reports = tmp_path / "assets", list[tuple[int, int]]()
    (target / "models").mkdir(parents=True)
    (target / "models" / "a.safetensors").write_bytes(FILES["models/a.safetensors"])
    (served / "models" / "a.safetensors").unlink()
    assets.fetch(lambda *done: reports.append(done), target)
    assert reports == [(2, 2)] and not assets.missing(target)
    assert (target / "problems.json").read_bytes() == b"[]"


def test_a_file_of_another_hash_is_not_kept(served: Path, tmp_path: Path) -> None:
    (served / "models" / "a.safetensors").write_bytes(b"welghts")
    with pytest.raises(ModelError, match=r"^models/a\.safetensors: the file at http.* is not that of the release"):
        assets.fetch(lambda *_: None, tmp_path / "assets")
    assert not list((tmp_path / "assets").rglob("*.safetensors"))


def test_an_address_that_does_not_answer_is_one_sentence(served: Path, tmp_path: Path) -> None:
    (served / "models" / "a.safetensors").unlink()
    with pytest.raises(ModelError, match=r"^http.*/models/a\.safetensors: cannot be fetched \(.*404.*\); check"):
        assets.fetch(lambda *_: None, tmp_path / "assets")


def test_the_app_fetches_nothing_unasked(
    served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "missing", lambda: {name: len(data) for name, data in FILES.items()})
    monkeypatch.setattr(assets, "fetch", lambda *_: pytest.fail("fetched"))
    assert main(["app"]) == 3
    assert "draftscope app --fetch fetches them" in capsys.readouterr().err


def test_the_list_of_the_wheel_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assets.json").write_text(json.dumps({"problems.json": [2, "0" * 64]}))
    monkeypatch.setattr(assets, "__file__", str(tmp_path / "assets.py"))
    assets.listed.cache_clear()
    assert assets.listed() == {"problems.json": (2, "0" * 64)}
    assets.listed.cache_clear()
