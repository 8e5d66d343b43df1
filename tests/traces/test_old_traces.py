"""Files that earlier versions of the program recorded go on being read, replayed and drawn."""

from pathlib import Path

import pytest

from traces import read, state_after
from visualizers import supported

FILES = sorted((Path(__file__).parents[1] / "data" / "traces").glob("*.json.gz"))


def test_there_is_one_of_every_family() -> None:
    assert len(FILES) >= 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_old_trace_opens_replays_and_is_drawn(path: Path) -> None:
    trace = read(path)
    assert trace.summary.complete and trace.summary.drafts is None
    assert state_after(trace, len(trace.steps)).tokens == trace.output.tokens
    figures = supported([trace])
    assert len(figures) > 5
    for figure in figures:
        assert figure.draw([trace]).data
