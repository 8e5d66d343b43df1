"""Beta along the denoising of a block."""

from collections import Counter, defaultdict

import pytest
from support.blocks import Blocks, s2d2, simsd

from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES


def betas(trace: Trace) -> dict[int, list[float]]:
    """β of every verified draft, by the denoising step of its block."""
    number: Counter[float] = Counter()
    found = defaultdict(list)
    for step in trace.steps:
        if any(fate.final for fate in step.fate):
            number[step.signals["block"]] += 1
            for fate, tv in zip(step.fate, step.numbers.get("tv", ()), strict=False):
                if fate.judged and tv is not None:
                    found[number[step.signals["block"]]].append(1 - tv)
    return dict(found)


def test_beta_is_the_mean_over_the_drafts_of_a_step() -> None:
    trace = simsd()
    beta, divergence = FIGURES["denoising"].draw([trace]).data
    found = betas(trace)
    assert list(beta.x) == sorted(found) and len(found) > 1
    assert list(beta.y) == [pytest.approx(sum(found[at]) / len(found[at])) for at in beta.x]
    assert list(beta.customdata) == [len(found[at]) for at in beta.x]
    assert min(divergence.y) >= 0 and list(divergence.x) == list(beta.x)


def test_runs_of_one_setting_are_one_curve() -> None:
    drawn = FIGURES["denoising"].draw([simsd(), simsd(Blocks(block=4, seed=1)), s2d2()])
    assert [mark.name for mark in drawn.data if mark.showlegend] == ["SimSD, shared passes (ours), 2 runs", "S2D2"]
    assert any(drawn.data[0].error_y.array)
