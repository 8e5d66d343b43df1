"""What is counted of every mode adds up, and drawing stops when asked."""

import pytest

from demo.pages.bias import counted
from demo.runs import biases
from demo.runs.biases import Biases, conduct
from engines.continuous.mixture2d import MODES, Plane, total_variation

COUNT, AT_ONCE = 2000, 1000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(biases, "TOKENS", COUNT)
    monkeypatch.setattr(biases, "_AT_ONCE", AT_ONCE)


def test_every_mode_is_drawn_and_counted() -> None:
    *progress, found = conduct(Plane(variance=0.7, steps=3))
    assert progress == list(range(AT_ONCE, len(MODES) * COUNT + 1, AT_ONCE))
    assert isinstance(found, Biases)
    assert tuple(tally.mode for tally in found.tallies) == MODES
    vanilla, exact, paper, release, _ = found.tallies
    assert vanilla.tries is None and vanilla.kept == 0
    assert 0 < paper.kept < exact.kept < release.kept <= 1
    assert exact.tries is not None and exact.tries >= 1
    for tally in found.tallies:
        assert 0.9 < float(tally.cells.sum()) <= 1
    drawn = found.picture()
    assert [one.name for one in drawn.drawn] == list(MODES)
    assert drawn.draft.total_variation == total_variation(found.draft, found.target)
    assert "variances 0.7 times" in drawn.said and "2,000 tokens" in drawn.said


def test_the_table_has_a_line_a_mode_and_one_for_the_draft() -> None:
    *_, last = conduct(Plane(variance=1, shift=0, steps=2))
    assert isinstance(last, Biases)
    rows = counted(last)["rows"]
    assert [row[0] for row in rows] == [*MODES, "draft"]
    assert rows[0][1] == "" and rows[1][1] == "100.0 %" and rows[1][5] == "0.00 %"
    assert rows[-1][2] == "0.000"


def test_drawing_stops_before_the_next_tokens() -> None:
    asked: list[None] = []

    def stopped() -> bool:
        asked.append(None)
        return len(asked) == 3

    assert list(conduct(Plane(steps=2), stopped)) == [AT_ONCE, 2 * AT_ONCE]
