"""The counts of every mode add up, and sampling stops on request."""

import pytest

from draftscope.demo.components import bias as panel
from draftscope.demo.components.bias import sample_modes
from draftscope.engines.continuous.toy_mixture_2d import MODES, ToyMixtureConfig

COUNT, AT_ONCE = 2000, 1000


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel, "TOKENS", COUNT)
    monkeypatch.setattr(panel, "_AT_ONCE", AT_ONCE)


def test_every_mode_is_drawn_and_counted() -> None:
    *progress, last = sample_modes(ToyMixtureConfig(variance=0.7, steps=3))
    assert progress == list(range(AT_ONCE, len(MODES) * COUNT + 1, AT_ONCE))
    bias, table = last
    rows = {mode: row for mode, *row in table["rows"]}
    assert list(rows) == [*MODES, "draft"]
    assert rows["vanilla"][0] == rows["vanilla"][3] == ""
    exact, paper, release = (float(rows[mode][0].removesuffix(" %")) for mode in ("exact", "paper", "release"))
    assert 0 < paper < exact < release <= 100 and float(rows["exact"][3]) >= 1
    assert [one.name for one in bias.drawn] == list(MODES)
    for one in bias.drawn:
        assert 0.9 < sum(map(sum, one.cells)) < 1.0001
        assert rows[one.name][1] == f"{one.total_variation:.3f}"
    assert rows["draft"][1] == f"{bias.draft.total_variation:.3f}"
    assert "variances 0.7 times" in bias.message and "2,000 tokens" in bias.message


def test_a_draft_that_is_the_target_is_always_kept_and_drawing_stops_before_the_next_tokens() -> None:
    *_, last = sample_modes(ToyMixtureConfig(variance=1, shift=0, steps=2))
    rows = last[1]["rows"]
    assert rows[1][1] == "100.0 %" and rows[1][5] == "0.00 %" and rows[-1][2] == "0.000"
    calls = iter(range(10))
    assert list(sample_modes(ToyMixtureConfig(steps=2), lambda: next(calls) == 2)) == [AT_ONCE, 2 * AT_ONCE]
