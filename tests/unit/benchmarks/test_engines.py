"""The comparison of engines: its rows and its claim."""

from pathlib import Path

import pytest
import torch

from benchmarks import engines


def test_times_become_rows_and_a_claim(tmp_path: Path) -> None:
    seconds = {"Draftscope, float32": [0.04, 0.05, 0.06], "llama.cpp, Q4_1": [0.01]}
    one, other = engines._rows(seconds, seconds, tmp_path / "m.Q4_1.gguf")
    assert (one["milliseconds"], one["faster"], other["faster"]) == (50.0, 1.0, 5.0)
    (claim,) = engines._claims(seconds, 0.04)
    assert claim.measured == pytest.approx(1.25) and claim.met is False
    assert engines._claims(seconds, 0.045)[0].met is True


def test_reading_takes_time_and_a_missing_file_is_one_sentence() -> None:
    assert 0 < engines._reading_seconds(torch.nn.Linear(64, 64), 1) < 5
    with pytest.raises(SystemExit, match=r"^gguf: 'nowhere.gguf' is not a file; give --gguf FILE"):
        engines.main(["--gguf", "nowhere.gguf"])
