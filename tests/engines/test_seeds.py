"""One rule for seeds, in one sentence, wherever they are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.raster import MODEL

import draftscope as ds
from demo.pages.api import refusal
from engines.__main__ import main
from engines.sampling.chance import LARGEST_SEED, read_seed


def python(seed: Any, folder: Path) -> str:
    with pytest.raises(ValueError) as caught:
        ds.run("ar", model=MODEL, seed=seed)
    return str(caught.value)


def programs(seed: Any, folder: Path) -> str:
    return refusal("draftscope_run", {"method": "ar", "prompt": "", "model": MODEL, "seed": seed}) or ""


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, 1.5, "7", True, None])
@pytest.mark.parametrize("way", [python, programs])
def test_what_is_no_seed(seed: Any, way: Callable[[Any, Path], str], tmp_path: Path) -> None:
    assert way(seed, tmp_path) == f"seed: {seed!r} is not allowed; use a whole number from 0 to 2147483647."


@pytest.mark.parametrize(("seed", "said"), [("-1", "-1"), ("2147483648", "2147483648"), ("1.5", "'1.5'"), ("x", "'x'")])
def test_on_the_command_line(seed: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ar", "--model", MODEL, "--seed", seed, "-o", str(tmp_path / "a.json")]) == 2
    assert capsys.readouterr().err == f"seed: {said} is not allowed; use a whole number from 0 to 2147483647.\n"


def test_the_last_seed() -> None:
    assert read_seed(LARGEST_SEED) == 2147483647
