"""Routers: estimates of acceptance, scores, hysteresis and the bandit."""

import math
import random
from collections.abc import Sequence

import pytest
import torch

from draftscope.engines.diffusion_lm import routing
from draftscope.engines.settings import make_config

CPU = torch.device("cpu")


def settings(**values: object) -> routing.RouterSettings:
    return make_config(routing.RouterSettings, {"block": "4", "estimator": "power", "verification_cost": 0.0, **values})


def view(
    confidence: Sequence[float], confident: int = 0, progress: float = 0.0, entropy: float = 0.0
) -> routing.RouterInput:
    """Drafts of these confidences; `entropy` 0 or 1 for distributions that are certain or uniform."""
    count = len(confidence)
    probs = torch.full((count, 4), 0.25) if entropy else torch.eye(4)[:1].expand(count, -1)
    chosen = torch.tensor(confidence, dtype=torch.float64)
    return routing.RouterInput(probs.double(), chosen, torch.full_like(chosen, 0.5), torch.tensor(confident), progress)


def test_expected_drafts_have_their_limits() -> None:
    one, none = torch.ones(5), torch.tensor([0.0, 1.0, 1.0])
    assert routing.expected_accepted(one) == 5
    assert routing.expected_accepted(none) == 0
    assert routing.expected_accepted(torch.tensor([0.5, 0.5, 0.0, 1.0])) == 0.75
    assert routing.expected_accepted(torch.empty(0)) == 0


def test_estimates_are_the_papers() -> None:
    probs = torch.tensor([[0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    confidence, uniform = torch.tensor([0.7, 0.25, 1.0]).double(), torch.tensor([0.1, 0.2, 0.3]).double()
    estimated = routing.estimates(probs, confidence, uniform, exponent=0.5, cut=0.25)
    share = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1)) / math.log(4)
    wanted = {
        "random": [0.1, 0.2, 0.3],
        "entropy": [math.exp(-0.5 * share), math.exp(-0.5), 1],
        "power": [0.7**0.5, 0.5, 1],
        "renyi": [0.54, 0.25, 1],
        "hard_entropy": [0, 0, 1],
        "margin": [1, 0, 1],
        "clipped_margin": [0.25, 0, 0.5],
    }
    assert estimated.keys() == wanted.keys()
    for name, values in wanted.items():
        torch.testing.assert_close(estimated[name], torch.tensor(values, dtype=torch.float64))
    assert set(routing.TABLE) == estimated.keys() - {"clipped_margin"}


def test_a_margin_at_the_cut_passes_and_an_entropy_at_the_cut_does_not() -> None:
    probs = torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    assert routing.estimates(probs, probs[:, 0], probs[:, 0], 1.0, 0.5)["margin"] == 1
    uniform = torch.full((1, 2), 0.5, dtype=torch.float64)
    assert routing.estimates(uniform, probs[:, 0], probs[:, 0], 1.0, 1.0)["hard_entropy"] == 0


def decide(
    config: routing.RouterSettings, seen: routing.RouterInput, memory: routing.RouterState | None = None
) -> bool:
    return bool(routing.route(config, seen, memory or routing.initial_state(config, CPU)).verify)


@pytest.mark.parametrize(
    ("values", "confidence", "verifies"),
    [
        ({"router": "always"}, [0.0], True),
        ({"router": "never"}, [1.0], False),
        ({"router": "span", "span_threshold": 2}, [0.0, 0.0], True),
        ({"router": "span", "span_threshold": 2}, [1.0], False),
        ({"router": "score", "score_threshold": 0.5}, [0.5], True),
        ({"router": "score", "score_threshold": 0.5}, [0.499], False),
    ],
)
def test_a_router_decides_at_its_threshold(values: dict[str, object], confidence: list[float], verifies: bool) -> None:
    assert decide(settings(**values), view(confidence)) is verifies


@pytest.mark.parametrize(
    ("scoring", "cost", "confident", "score"),
    [("static", 1.0, 3, 0.5), ("dynamic", 1.0, 3, -1.5), ("dynamic", 0.5, 0, 1.5)],
)
def test_scores_are_expected_drafts_less_the_cost(scoring: str, cost: float, confident: int, score: float) -> None:
    seen = view([1.0, 0.5], confident)
    decision = routing.route(
        settings(router="score", scoring=scoring, verification_cost=cost), seen, routing.initial_state(settings(), CPU)
    )
    assert float(decision.signals()["score"]) == score
    assert float(decision.signals()["expected_accepted"]) == 1.5
    assert bool(decision.verify) == (score >= 0)
    assert decision.estimate().tolist() == [1.0, 0.5]


def test_nothing_is_decided_without_a_span() -> None:
    config = settings(router="bandit")
    decision = routing.route(config, view([]), routing.initial_state(config, CPU))
    assert not decision.verify
    assert not decision.signals()
    assert routing.update_state(decision, torch.tensor(1)) is decision.memory


def test_hysteresis_switches_late_both_ways() -> None:
    config = settings(router="hysteresis", switch_on=1.0, switch_off=0.5)
    memory, verified = routing.initial_state(config, CPU), []
    for score in (0.9, 1.0, 0.6, 0.5, 0.4, 0.9, 1.2, 0.0):
        decision = routing.route(config, view([min(score, 1.0), max(score - 1.0, 0.0)]), memory)
        memory = routing.update_state(decision, torch.tensor(1))
        assert bool(memory.switch) == bool(decision.verify) == bool(decision.signals()["switch"])
        verified.append(bool(decision.verify))
    assert verified == [False, True, True, True, False, False, True, False]


def test_the_bandit_takes_the_better_arm_unless_it_is_curious() -> None:
    table = torch.zeros(8, 2, dtype=torch.float64)
    visits, rewards = table.clone(), table.clone()
    visits[0], rewards[0] = torch.tensor([10.0, 2.0]), torch.tensor([20.0, 3.0])
    memory = routing.RouterState(torch.tensor(False), visits, rewards)
    calm, curious = settings(router="bandit", exploration=0.0), settings(router="bandit", exploration=2.0)
    assert not decide(calm, view([0.5]), memory)
    decision = routing.route(curious, view([0.5]), memory)
    assert decision.verify
    assert float(decision.signals()["bucket_visits"]) == 12
    assert float(decision.signals()["bandit_mean"]) == 1.5
    assert float(decision.signals()["bandit_bound"]) == pytest.approx(1.5 + 2 * math.sqrt(math.log(13) / 2))


def plain_choice(rewards: Sequence[Sequence[float]], t: int, beta: float) -> int:
    """Eq. 16 in plain numbers for one bucket: untried arms come first, ties go to arm 1."""
    bounds = [sum(r) / len(r) + beta * math.sqrt(math.log(t) / len(r)) if r else math.inf for r in rewards]
    return int(bounds[1] >= bounds[0])


@pytest.mark.parametrize("beta", [0.2, 0.5, 1.0, 2.0, 5.0])
def test_the_bandit_decides_as_its_formula_written_out(beta: float) -> None:
    config, chance = settings(router="bandit", exploration=beta), random.Random(3)
    for _ in range(12):
        rewards: list[list[float]] = [[], []]
        memory = routing.initial_state(config, CPU)
        for t in range(1, 31):
            gained = chance.randint(1, 4)
            decision = routing.route(config, view([0.5]), memory)
            memory = routing.update_state(decision, torch.tensor(gained))
            arm = plain_choice(rewards, t, beta)
            assert bool(decision.verify) == bool(arm)
            rewards[arm].append(gained / (1 + arm))


@pytest.mark.parametrize(
    ("bins", "count", "progress", "entropy", "bucket"),
    [
        ("2,2,2", 1, 0.0, 0.0, 0),
        ("2,2,2", 2, 0.0, 0.0, 0),
        ("2,2,2", 3, 0.0, 0.0, 4),
        ("2,2,2", 4, 0.5, 1.0, 7),
        ("2,2,2", 1, 0.49, 1.0, 1),
        ("1,2,2", 4, 0.5, 0.0, 2),
        ("4,4,4", 4, 1.0, 1.0, 63),
        ("2,1,2", 4, 1.0, 0.0, 2),
    ],
)
def test_buckets(bins: str, count: int, progress: float, entropy: float, bucket: int) -> None:
    config = settings(router="bandit", bins=bins)
    decision = routing.route(
        config, view([0.5] * count, progress=progress, entropy=entropy), routing.initial_state(config, CPU)
    )
    assert decision.signals()["bucket"] == bucket
    assert len(decision.memory.visits) == math.prod(config.buckets)
