"""Verdicts: what they say at a batch, where the answer turns, and where memory ends."""

import pytest

from draftscope.analysis.verdicts import Range, verdict


def plain(speed: float, spread: float = 0.0) -> Range:
    return Range(speed, speed - spread, speed + spread)


@pytest.mark.parametrize(
    ("speeds", "batch", "sentence"),
    [
        (
            lambda n: plain(1.6 if n < 48 else 1.1, 0.2), 1,
            "Yes: about 1.6 times, 1.4 to 1.8, at batch 1; no from batch 48 on.",
        ),
        (
            lambda n: plain(1.2, 0.15), 8,
            "Perhaps: about 1.2 times, 1.1 to 1.3, at batch 8; no batch up to 4,096 changes that.",
        ),
        (
            lambda n: plain(1.05 if n < 7 else 1.3, 0.01), 1,
            "No: about 1.1 times, 1.0 to 1.1, at batch 1; yes from batch 7 on.",
        ),
        (
            lambda n: plain(2.0) if n <= 44 else None, 2,
            "Yes: about 2.0 times at batch 2; memory ends at batch 44.",
        ),
        (lambda n: plain(2.0) if n <= 44 else None, 44, "Yes: about 2.0 times at batch 44; memory ends there."),
        (
            lambda n: plain(0.8) if n <= 44 else None, 44,
            "No: about 0.80 times at batch 44; no batch up to 44 changes that.",
        ),
        (lambda n: plain(2.0 if n < 40 else 1.0) if n <= 44 else None, 1,
            "Yes: about 2.0 times at batch 1; no from batch 40 on."),
        (lambda n: None, 1, "None"),
    ],
)  # fmt: skip
def test_the_sentence_has_the_range_and_the_batch_at_which_it_turns(speeds: object, batch: int, sentence: str) -> None:
    assert str(verdict(speeds, batch)) == sentence  # type: ignore[arg-type]
