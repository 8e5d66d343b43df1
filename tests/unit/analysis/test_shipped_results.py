"""Results as a table shows them: no column says the same in every row, no cell is a list of raw numbers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.analysis.shipped_results import FOLDER, Conclusion, conclusions, measured
from draftscope.engines.methods import METHODS


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    environment = {"device": "cpu", "commit": "0123456789abcdef0123", "libraries": {"torch": "2"}}
    (folder / name).write_text(json.dumps({"title": "One", "environment": environment, "rows": rows}))


def test_what_all_rows_share_is_told_once_and_lists_are_short(tmp_path: Path) -> None:
    shared = {"method": "scd", "model": "m", "commit": "abc"}
    rounds = [0.5879785254855108, -0.6165409719096515]
    rows = [
        shared | {"window": size, "rounds": rounds * (size // 8), "parts": ["a", "b"][: size // 8]} for size in (8, 40)
    ]
    write(tmp_path, "one.json", rows)
    write(
        tmp_path, "claims.json", [shared | {"place": "Fig. 1", "says": "more", "found": "+1 ± 0.1", "verdict": "holds"}]
    )
    (one,) = measured("scd", tmp_path)
    assert one.heads == ("window", "rounds", "parts")
    assert [tuple(cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row) for row in one.rows] == [
        ("8", "0.59, -0.62", "a"),
        ("40", "-0.62 to 0.59 (10 values)", "a, b"),
    ]
    assert one.device_text == "model m, device cpu, commit 0123456789ab"
    assert conclusions("scd", tmp_path) == [Conclusion("Fig. 1", "more", "+1 ± 0.1", "holds")]
    assert conclusions("ar", tmp_path) == [] == conclusions("scd", tmp_path / "none")


@pytest.mark.slow
def test_no_cell_that_ships_is_raw_data_and_every_conclusion_has_its_method() -> None:
    for name in METHODS:
        titles = [table.title for table in measured(name)]
        assert len({*titles}) == len(titles), name
        for table in measured(name):
            for cell in (cell for row in table.rows for cell in row):
                assert not re.search(r"[\[{]|\d\.\d{8}|[0-9a-f]{20}", cell), (name, cell)
    listed = json.loads((FOLDER / "claims.json").read_text("utf-8"))["rows"]
    assert sum(len(conclusions(name)) for name in METHODS) == len(listed) > 30
