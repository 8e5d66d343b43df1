"""The video benchmark's figures: passes are counted a clip, and errors of distances are those of the clips."""

import pytest
import torch

from benchmarks import video
from benchmarks._results import standard_error
from engines.models.bundled.video import load


@pytest.mark.slow
def test_passes_are_those_of_every_clip_on_its_own() -> None:
    model, cell = load(), ("gumbel", 128)
    two, one, again = (
        video.decode_all(video.jobs(model, cell, clips, draw), 2)
        for clips, draw in ((["clip 1", "clip 2"], 0), (["clip 1"], 0), (["clip 1", "clip 2"], 1))
    )
    assert two.passes[:1] == one.passes and torch.equal(two.tokens[:1], one.tokens)
    assert not torch.equal(two.tokens, again.tokens)


def test_the_jackknife_gives_the_standard_error_of_a_mean() -> None:
    values = torch.tensor([1.0, 4.0, 2.0, 8.0, 5.0], dtype=torch.float64)
    error = video.jackknife(lambda some: float(some.mean()), values)
    assert error == pytest.approx(standard_error(values.tolist()))


def test_the_distance_is_that_of_means_and_spreads() -> None:
    real = torch.randn(6, 24, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert video.distance(real, real) == pytest.approx(0, abs=1e-9)
    assert video.distance(real + 2, real) == pytest.approx(5 * 2**2)
