"""Masked generation with one and with more tokens a step."""

import json
from pathlib import Path

import pytest

from benchmarks import masked


@pytest.mark.slow
def test_more_tokens_a_step_are_compared_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked, "PER_STEP", (32, 64))
    masked.main(["--images", "2", "--json", str(tmp_path / "masked.json")])
    rows = json.loads((tmp_path / "masked.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["tokens_per_step"], row["pictures"]) for row in rows] == [(32, 2), (64, 2)]
    assert rows[0]["faster"] == 1
