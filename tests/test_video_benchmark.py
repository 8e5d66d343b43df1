"""The video benchmark's figures: passes are counted a clip, and errors of distances are those of the clips."""

import pytest
import torch

from benchmarks import video
from benchmarks._results import standard_error
from engines.models.bundled.video import load


def test_passes_are_those_of_every_clip_on_its_own() -> None:
    model = load()
    together = video.decode_all("gumbel", model, ["clip 1", "clip 2"], 2, window=128)
    alone = video.decode_all("gumbel", model, ["clip 1"], 1, window=128)
    assert together.passes[:1] == alone.passes and torch.equal(together.tokens[:1], alone.tokens)
    assert not torch.equal(
        together.tokens, video.decode_all("gumbel", model, ["clip 1", "clip 2"], 2, 1, window=128).tokens
    )


def test_the_jackknife_gives_the_standard_error_of_a_mean() -> None:
    values = torch.tensor([1.0, 4.0, 2.0, 8.0, 5.0], dtype=torch.float64)
    error = video.jackknife(lambda rows: float(values[rows].mean()), len(values))
    assert error == pytest.approx(standard_error(values.tolist()))


def test_the_distance_is_that_of_means_and_spreads() -> None:
    found = torch.randn(6, 24, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert video.distance(found, found) == pytest.approx(0, abs=1e-9)
    assert video.distance(found + 2, found) == pytest.approx(5 * 2**2)
