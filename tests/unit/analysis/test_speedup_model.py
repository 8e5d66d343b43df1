"""The model of speed-ups: acceptance, draft length, batch."""

from dataclasses import replace
from itertools import accumulate, repeat
from operator import mul
from typing import Any

import pytest

from draftscope.analysis.acceptance_rate import hand_set
from draftscope.analysis.hardware import (
    DEVICES,
    ENGINES,
    SIZES,
    HardwareError,
)
from draftscope.analysis.speedup_model import MAX_DRAFTS, SHORT, SpeedupModel
from draftscope.analysis.verdicts import WORTH

PLAN = SpeedupModel(
    device=DEVICES["H100"],
    engine=replace(ENGINES["CUDA graphs"], overhead=0.0, verification=0.0),
    target=SIZES["Llama 3.1 8B"],
    draft=SIZES["Llama 3.2 1B"],
    acceptance=0.7,
    drafts=4,
    context=0,
)


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.9, 1.0])
def test_a_verification_yields_one_token_more_than_it_accepts(acceptance: float) -> None:
    accepted = sum(accumulate(repeat(acceptance, 5), mul))  # of the k-th draft: that it and those before it are
    assert replace(PLAN, acceptance=acceptance, drafts=5).tokens == pytest.approx(1 + accepted)


def test_a_pass_bound_by_memory_costs_its_weights() -> None:
    share = PLAN.draft.parameters / PLAN.target.parameters
    assert PLAN.bound == "memory"
    assert PLAN.speed_up == pytest.approx(PLAN.tokens / (1 + 4 * share))
    free = replace(PLAN, draft=None)
    assert free.drafting == 0 and free.speed_up == pytest.approx(free.tokens)


def test_the_best_draft_length_grows_with_acceptance_and_shrinks_with_the_batch() -> None:
    best = PLAN.with_best_draft_length()
    assert best.speed_up == max(replace(PLAN, drafts=drafts).speed_up for drafts in SHORT)
    short, long = (replace(PLAN, acceptance=rate).with_best_draft_length().drafts for rate in (0.3, 0.95))
    assert short < best.drafts < long
    crowded = replace(PLAN, draft=None, acceptance=0.8, batch=512)
    assert crowded.bound == "compute"
    assert crowded.with_best_draft_length().drafts < replace(crowded, batch=1).with_best_draft_length().drafts


def test_drafts_of_a_diffusion_head_take_its_steps_one_by_one_and_a_verification_all_at_once() -> None:
    plan = replace(PLAN, engine=ENGINES["eager"], target=SIZES["MAR-H"], draft=SIZES["MAR-B"], drafts=8)
    assert plan.baseline_pass.overhead == plan.verification.overhead == pytest.approx(1e-3 * (40 + 100 * (1 + 12 / 7)))
    assert plan.drafting > 8e-3 * (24 + 100 * (1 + 6 / 7))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"acceptance": 1.1}, "acceptance: 1.1 is not allowed; use 0 to 1"),
        ({"acceptance": float("nan")}, "acceptance: nan is not allowed"),
        ({"drafts": 0}, "drafts: 0 is not allowed; use 1 to 128"),
        ({"batch": 0}, "batch: 0 is not allowed; use 1 to 4,096"),
        ({"context": -1}, "context: -1 is not allowed; use 0 to 1,000,000"),
        ({"device": DEVICES["T4"]}, "take 18.5 GB, and T4 has 16; choose a larger device"),
    ],
)
def test_what_cannot_be_computed_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(HardwareError, match=problem):
        replace(PLAN, **changes)


def test_the_break_even_and_the_largest_batch_are_where_the_speed_up_crosses() -> None:
    break_even = PLAN.break_even
    assert break_even is not None
    assert replace(PLAN, acceptance=break_even).speed_up == pytest.approx(1, abs=1e-6)
    assert replace(PLAN, drafts=MAX_DRAFTS).break_even is None or replace(PLAN, acceptance=1).speed_up > 1
    plan = replace(PLAN, device=DEVICES["L4"], target=SIZES["Qwen3 4B"], draft=SIZES["Qwen3 0.6B"])
    found = plan.verdict(hand_set(0.7, 0.1))
    assert found.at.low < found.at.speed == plan.speed_up < found.at.high and found.is_worth
    assert found.at.high == replace(plan, acceptance=0.7 + 0.1).speed_up
    assert found.turns is not None and found.turns > 1
    last, first = (replace(plan, batch=found.turns - back).with_best_draft_length().speed_up for back in (1, 0))
    assert last >= WORTH > first
    full = replace(PLAN, context=1024, drafts=1, target=SIZES["Llama 3.3 70B"], gpus=2)
    assert (ends := full.verdict(hand_set(0.9, 0)).ends) is not None
    assert full.with_each("batch", [ends]) and not full.with_each("batch", [ends + 1])
    assert full.rates[1] / full.rates[0] == pytest.approx(full.speed_up)
