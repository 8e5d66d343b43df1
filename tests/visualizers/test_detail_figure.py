"""Acceptance against local detail: the detail is that of the picture's cells, the verdicts are those of the trace."""

from dataclasses import replace

import pytest
from PIL import Image
from support.raster import decoded

from traces.schema import Trace
from visualizers import FIGURES
from visualizers.figures.rates import BINS, PlaceTally, by_detail, correlation, local_detail
from visualizers.picture import data_url


def pictured(seed: int = 0, picture: Image.Image | None = None) -> Trace:
    """A run whose picture is a bright disc, of more detail towards its edge, in place of tiles of one colour."""
    run = decoded("scd", seed, window=16)
    image = data_url(picture or Image.radial_gradient("L"))
    return replace(run, legend=replace(run.legend, tiles=None), output=replace(run.output, image=image))


def test_detail_is_the_spread_of_brightness_within_a_cell() -> None:
    picture = Image.new("RGB", (4, 4), "black")
    picture.paste("white", (1, 0, 2, 2))  # half of the first cell
    picture.paste("white", (0, 2, 2, 4))  # all of the one below it
    assert local_detail(picture, 2, 2).tolist() == [[50, 0], [0, 0]]
    assert local_detail(picture.resize((64, 64), Image.Resampling.NEAREST), 2, 2).tolist() == [[50, 0], [0, 0]]
    assert local_detail(picture.resize((1, 1)), 2, 2).tolist() == [[0, 0], [0, 0]]  # a picture smaller than its canvas


def test_every_verdict_counts_where_it_was_given() -> None:
    run = pictured()
    verdicts = by_detail(run)
    assert sum(one.judged for one in verdicts) == run.summary.judged
    assert sum(one.accepted for one in verdicts) == run.summary.accepted
    assert len({one.detail for one in verdicts}) > 1


def test_detail_and_verdict_go_together_or_do_not() -> None:
    rejected, kept = PlaceTally(8, 3, 0), PlaceTally(2, 3, 3)
    assert correlation([rejected, kept]) == pytest.approx(-1)
    assert correlation([PlaceTally(8, 3, 3), PlaceTally(2, 3, 0)]) == pytest.approx(1)
    assert correlation([PlaceTally(2, 2, 1), PlaceTally(8, 4, 2)]) == pytest.approx(0)
    assert correlation([kept, PlaceTally(8, 1, 1)]) is None  # nothing was rejected
    assert correlation([rejected, PlaceTally(8, 3, 3)]) is None


@pytest.mark.slow
def test_groups_have_as_many_drafts_and_their_own_rate() -> None:
    runs = [pictured(seed) for seed in range(3)]
    (curve,) = FIGURES["detail"].draw(runs).data
    verdicts = [one for run in runs for one in by_detail(run)]
    total, accepted = sum(one.judged for one in verdicts), sum(one.accepted for one in verdicts)
    counts = [count for _, count in curve.customdata]
    assert sum(counts) == total and len(curve.x) == BINS
    assert max(counts) - min(counts) < total / BINS / 4
    assert list(curve.x) == sorted(curve.x)
    mean = sum(share * count for share, count in zip(curve.y, counts, strict=True)) / total
    assert mean == pytest.approx(100 * accepted / total)
    assert curve.name == f"MC-SJD, 3 runs: correlation {correlation(verdicts):.2f}"
