"""The comparison of engines: its rows and its claims."""

from pathlib import Path

import pytest
import torch

from benchmarks import engines


def test_times_become_rows_and_claims(tmp_path: Path) -> None:
    seconds = {"Draftscope, float32": [0.04, 0.05, 0.06], "transformers, float32": [0.06], "llama.cpp, Q4_1": [0.01]}
    rows = engines._rows(seconds, seconds, tmp_path / "m.Q4_1.gguf")
    assert [row["milliseconds"] for row in rows] == pytest.approx([50, 60, 10])
    assert [row["faster"] for row in rows] == pytest.approx([1, 5 / 6, 5])
    generate, reading = engines._claims(seconds, 0.04)
    assert generate.measured == pytest.approx(1.2) and generate.met is True
    assert reading.measured == pytest.approx(1.25) and reading.met is None
    assert engines._claims(seconds | {"transformers, float32": [0.045]}, 0.04)[0].met is False


def test_reading_takes_time_and_a_missing_file_is_one_sentence() -> None:
    assert 0 < engines._reading_seconds(torch.nn.Linear(64, 64), 1) < 5
    with pytest.raises(SystemExit, match=r"^gguf: 'nowhere.gguf' is not a file; give --gguf FILE"):
        engines.main(["--gguf", "nowhere.gguf"])
