"""S2D2: its verifier against block size 1, its output distribution by enumeration, its variants, traces and routers."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from support.passes import ended, run_passes
from support.tiny_diffusion_lm import END, MASK, TinyLM, text, tiny_diffusion_lm
from torch import Tensor

from analysis.block_stats import router_decisions
from engines.diffusion_lm import masks, routing, s2d2_layouts
from engines.diffusion_lm.block_sequence import BlockSequence, PassLayout, TextTask
from engines.methods import METHODS
from engines.methods.s2d2 import Config, decode
from engines.runtime.driver import Job, Run, open_session
from engines.runtime.run_request import RunRequest
from engines.sampling.random_source import DrawKey, SeededRandom
from engines.settings import make_config
from engines.testing.conformance import finish
from engines.testing.enumeration import exact_distribution, variation
from engines.testing.toy_models import ToyBlockModel
from traces import dumps, loads
from traces.schema import Fate

EXACT = 1e-12
PROMPT = "abcde"  # with the line break after it, a block and a half of four


def job(method: str = "s2d2", prompt: str = PROMPT, model: Any = None, seed: int = 0, **values: object) -> Job:
    return RunRequest(
        method, model or tiny_diffusion_lm(), prompt, seed=seed, settings={"block": "4", "length": 16} | values
    ).job()


def judged(model: TinyLM, *, causal: bool, layout: str) -> tuple[Tensor, BlockSequence, Tensor]:
    """Logits of a span whose first block is half written, on a cache of two blocks: logits, row, tokens of F."""
    config = make_config(Config, {"block": "4", "length": 16, "layout": layout})
    row = BlockSequence(cast(TextTask, model.make_task("abcdeabcd", config)), 4, causal=causal)
    session = open_session([job(model=model, prompt="abcdeabcd")])
    session.logits({0: row.request_open_positions()})
    filled = row.tokens.clone()
    filled[row.open] = torch.tensor([4, 9])
    row.tokens[row.block.stop - 1] = MASK
    request = row.request_layout(s2d2_layouts.judging(row, row.span, filled, config), "verify")
    return session.logits({0: request})[0, 0, 0], row, filled


def one_by_one(model: TinyLM, row: BlockSequence, filled: Tensor) -> Tensor:
    """Decode one block of size 1 at a time, over a cache that was filled in the same way."""
    again = BlockSequence(row.task, 4, causal=row._causal)
    session = open_session([job(model=model, prompt="abcdeabcd")])
    session.logits({0: again.request_open_positions()})
    logits = []
    for place in row.span.tolist():
        position = torch.arange(row.block.start, place + (0 if row.task.shift else 1))
        tokens = filled[position].clone()
        if not row.task.shift:
            tokens[-1] = MASK
        last = torch.tensor([len(position) - 1])
        layout = PassLayout(
            tokens=tokens[None], position=position, read=last, seen=masks.block_causal(len(position), 1)
        )
        logits.append(session.logits({0: again.request_layout(layout, "verify")})[0, 0, 0, 0])
    return torch.stack(logits)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("kind", ["aligned", "shift"])
def test_one_pass_gives_the_distributions_of_block_size_one(kind: str, layers: int, causal: bool) -> None:
    model = tiny_diffusion_lm(kind, layers=layers)
    minimal, row, filled = judged(model, causal=causal, layout="minimal")
    assert len(minimal) == 2
    torch.testing.assert_close(minimal, one_by_one(model, row, filled), rtol=0, atol=1e-5)
    torch.testing.assert_close(judged(model, causal=causal, layout="full")[0], minimal, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_only_a_causal_cache_makes_verdicts_autoregressive(kind: str, layers: int) -> None:
    model = tiny_diffusion_lm(kind, layers=layers)
    wanted = []
    cached, row, filled = judged(model, causal=True, layout="minimal")
    for place in row.span.tolist():
        ids = filled[:place] if kind == "shift" else torch.cat([filled[:place], torch.tensor([MASK])])
        seen = torch.ones(len(ids), len(ids)).tril().bool()
        wanted.append(model.everything(ids, torch.arange(len(ids)), seen)[-1])
    reference = torch.stack(wanted)
    reference[:, MASK] = -torch.inf
    torch.testing.assert_close(cached, reference, rtol=0, atol=1e-5)
    blockwise = judged(model, causal=False, layout="minimal")[0]
    apart = float((blockwise - reference)[reference.isfinite()].abs().max())
    assert apart < 1e-5 if layers == 1 else apart > 0.01


@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize("layout", ["minimal", "full"])
def test_what_is_final_behind_the_span_is_not_seen(kind: str, layout: str) -> None:
    model = ToyBlockModel(3, shift=kind == "shift")
    config = make_config(Config, {"block": "4", "layout": layout})

    def all_probs(last: int) -> Tensor:
        row = BlockSequence(model.task(4), 4)
        row.tokens[[0, 3]] = torch.tensor([1, last])
        filled = row.tokens.clone()
        filled[1:3] = torch.tensor([0, 2])
        assert row.span.tolist() == [1, 2]
        return model.all_probs(row.request_layout(s2d2_layouts.judging(row, row.span, filled, config), "verify"))

    assert all_probs(0).equal(all_probs(2))


def deviation(model: ToyBlockModel, length: int, prompt: tuple[int, ...] = (), **values: object) -> float:
    """Total variation from the distribution of block size 1."""
    config = make_config(Config, {"block": "2", "mode": "sample", "verdict": "ratio", **values})
    probs = exact_distribution(lambda chance: decode(model.task(length, prompt), config, chance), model.forward)
    assert sum(probs.values()) == pytest.approx(1)
    return variation(probs, model.joint(length, prompt))


@pytest.mark.one_quick
@pytest.mark.parametrize("causal_draft", [False, True])
@pytest.mark.parametrize("shift", [False, True])
def test_always_verifying_causally_draws_the_distribution_of_block_size_one(shift: bool, causal_draft: bool) -> None:
    prompt = (1, 0) if shift else ()
    assert deviation(ToyBlockModel(2, shift=shift), 4, prompt, causal_draft=causal_draft) < EXACT
    assert deviation(ToyBlockModel(3, shift=shift), 2, (1,), causal_draft=causal_draft, layout="full") < EXACT
    assert METHODS["s2d2"].deviation(make_config(Config, {"mode": "sample", "verdict": "ratio"})) == ""


@pytest.mark.slow
@pytest.mark.parametrize("values", [{"sub_block": "1"}, {"carry": False}, {"block": "4", "sub_block": "2"}])
@pytest.mark.parametrize("shift", [False, True])
def test_how_a_block_is_gone_through_does_not_enter_that_distribution(shift: bool, values: dict[str, object]) -> None:
    assert (
        deviation(ToyBlockModel(2, shift=shift), 3 if "block" in values else 4, (1, 0) if shift else (), **values)
        < EXACT
    )
    assert METHODS["s2d2"].deviation(make_config(Config, {"mode": "sample", "verdict": "ratio", **values})) == ""


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ar_cache": False}, "as their block sees them"),
        ({"mode": "greedy"}, "likely tokens are verified by p / q"),
        ({"tempering": 0.5}, "raised to a power"),
        ({"router": "span"}, "whose drafts are not verified"),
        ({"steps": 1}, "fill in more by confidence"),
        ({"edit": 0.4}, "are replaced"),
        ({"verdict": "match"}, "only if it is the likeliest token"),
    ],
)
def test_what_is_said_to_deviate_does(values: dict[str, object], said: str) -> None:
    assert deviation(ToyBlockModel(2, seed=3), 3, **values) > 0.05
    assert said in METHODS["s2d2"].deviation(make_config(Config, {"mode": "sample", "verdict": "ratio", **values}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize("block", ["2", "4", "8"])
def test_greedy_match_is_the_text_of_block_size_one(kind: str, block: str) -> None:
    for seed in range(3):
        model = tiny_diffusion_lm(kind, seed=seed)
        fast, plain = finish(job(model=model, block=block)), finish(job("blockwise", model=model, block="1"))
        assert text(fast.output.tokens) == text(plain.output.tokens)
        assert fast.note == ""
        parts = finish(job(model=model, block=block, sub_block="2"))
        assert text(parts.output.tokens) == text(plain.output.tokens)
        assert (
            finish(job(model=model, block=block, layout="full", causal_draft=True)).output.tokens == fast.output.tokens
        )


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize("mode", ["sample", "greedy"])
@pytest.mark.parametrize("steps", [0, 2])
def test_never_verifying_is_ordinary_block_decoding(kind: str, mode: str, steps: int) -> None:
    shared = {"model": tiny_diffusion_lm(kind), "mode": mode, "threshold": 0.3}
    never = finish(job(router="never", ar_cache=False, steps=steps, **shared))
    plain = finish(job("blockwise", rule="dynamic", steps=steps or 4, **shared))
    assert never.output.tokens == plain.output.tokens
    assert len(never.steps) == len(plain.steps)
    beyond = finish(job(router="span", span_threshold=5, ar_cache=False, steps=steps, **shared))
    assert beyond.output.tokens == plain.output.tokens


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize("values", [{}, {"mode": "sample", "verdict": "ratio"}, {"verdict": "ratio"}])
def test_block_size_one_never_refuses(kind: str, values: dict[str, object]) -> None:
    trace = finish(job(model=tiny_diffusion_lm(kind), block="1", **values))
    fates = Counter(fate for step in trace.steps for fate in step.fate)
    assert not fates[Fate.RESAMPLED]
    assert (fates[Fate.UNMASKED] if kind == "shift" else fates[Fate.ACCEPTED]) == trace.summary.tokens


def test_without_tempering_left_everything_passes() -> None:
    def acceptance(tempering: float) -> set[float | None]:
        drawn = {"mode": "sample", "verdict": "ratio", "block": "8", "tempering": tempering}
        return {finish(job(seed=seed, **drawn)).summary.acceptance for seed in range(4)}

    assert acceptance(0.0) == {1.0}
    assert acceptance(1.0) != {1.0}


@pytest.mark.slow
def test_the_verifier_sees_edits() -> None:
    trace = finish(job(edit=0.1, model=tiny_diffusion_lm(seed=2), mode="sample", verdict="ratio", length=32))
    edited = [step for step in trace.steps if Fate.EDITED in step.fate]
    assert edited
    assert {step.call.mode for step in edited} <= {"draft", "edit"}
    assert loads(dumps(trace)).output.tokens == trace.output.tokens


def test_steps_that_gain_too_little_are_topped_up() -> None:
    trace = finish(job(prompt="abc", block="8", steps=2, mode="sample", verdict="ratio", length=32))
    gained = [
        (draft.signals["open"], verify.signals["committed"])
        for draft, verify in zip(trace.steps, trace.steps[1:], strict=False)
        if verify.call.mode == "verify" and END not in verify.token
    ]
    assert gained
    assert all(many >= min(open_, 4) for open_, many in gained)
    assert any(Fate.UNMASKED in step.fate for step in trace.steps if step.call.mode == "verify")


def test_nothing_is_decoded_behind_the_end() -> None:
    model = ToyBlockModel(3, seed=5)
    config = make_config(Config, {"block": "8", "mode": "sample", "verdict": "ratio", "tempering": 0.0})
    stopped = 0
    for seed in range(20):
        task = model.task(16, end=0)
        tokens = ended(run_passes(decode(task, config, SeededRandom(seed)), model.forward))[1].tolist()
        if 0 in tokens:
            stopped += 1
            assert set(tokens[tokens.index(0) + 1 :]) <= {task.mask}
    assert stopped


class Names(SeededRandom):
    """Chance that notes the names of its draws."""

    def __init__(self) -> None:
        super().__init__(0)
        self.met: Counter[tuple[str, int, int]] = Counter()

    def _uniform(self, draw: DrawKey) -> Tensor:
        self.met.update((draw.purpose, draw.iteration, place) for place in draw.position.tolist())
        return super()._uniform(draw)


def test_no_two_draws_share_a_name() -> None:
    model, chance = ToyBlockModel(3, seed=1), Names()
    config = make_config(Config, {"block": "4", "mode": "sample", "verdict": "ratio"})
    ended(run_passes(decode(model.task(16), config, chance), model.forward))
    assert {name for name, _, _ in chance.met} == {"draft", "estimate", "verify", "residual"}
    assert set(chance.met.values()) == {1}


MODES: dict[str, dict[str, object]] = {
    "greedy_match": {},
    "greedy_paper": {"verdict": "ratio"},
    "sample": {"mode": "sample", "verdict": "ratio"},
    "score": {"router": "score", "score_threshold": 0.5},
    "hysteresis": {"router": "hysteresis", "scoring": "dynamic", "switch_on": -0.5, "switch_off": -1.0},
    "bandit": {"router": "bandit"},
}


@pytest.mark.parametrize("name", MODES)
def test_a_trace_reads_back_and_counts_its_passes(name: str) -> None:
    trace = finish(job(**MODES[name]))
    again = loads(dumps(trace))
    assert again.summary == trace.summary
    modes = Counter(step.call.mode for step in again.steps)
    assert set(modes) <= {"draft", "verify"}
    assert again.summary.forwards == sum(modes.values())
    routed = router_decisions(again.steps)
    assert len(routed) == modes["draft"]
    assert sum(bool(one.verify) for one in routed) == modes["verify"]
    for draft, check in zip(again.steps, again.steps[1:], strict=False):
        if check.call.mode == "verify":
            assert draft.signals["verify"] == 1
            assert {"ratio", "residual_mass", "estimate"} <= set(check.numbers)
            assert check.mask is not None
            assert check.p is not None and check.q is not None
            assert (check.coin is None) == (name not in ("greedy_paper", "sample"))


def test_bidirectional_models_are_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="this model looks at the whole text; use method blockwise"):
        Run(job(model=tiny_diffusion_lm("full")))


CPU = torch.device("cpu")


def settings(**values: object) -> routing.RouterSettings:
    return make_config(routing.RouterSettings, {"block": "4", "estimator": "power", "cost": 0.0, **values})


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
    confidence, coin = torch.tensor([0.7, 0.25, 1.0]).double(), torch.tensor([0.1, 0.2, 0.3]).double()
    estimated = routing.estimates(probs, confidence, coin, exponent=0.5, cut=0.25)
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
    taken = routing.route(
        settings(router="score", scoring=scoring, cost=cost), seen, routing.initial_state(settings(), CPU)
    )
    assert float(taken.signals()["score"]) == score
    assert float(taken.signals()["expected_accepted"]) == 1.5
    assert bool(taken.verify) == (score >= 0)
    assert taken.estimate().tolist() == [1.0, 0.5]


def test_nothing_is_decided_without_a_span() -> None:
    config = settings(router="bandit")
    taken = routing.route(config, view([]), routing.initial_state(config, CPU))
    assert not taken.verify
    assert not taken.signals()
    assert routing.update_state(taken, torch.tensor(1)) is taken.memory


def test_hysteresis_switches_late_both_ways() -> None:
    config = settings(router="hysteresis", switch_on=1.0, switch_off=0.5)
    memory, verified = routing.initial_state(config, CPU), []
    for score in (0.9, 1.0, 0.6, 0.5, 0.4, 0.9, 1.2, 0.0):
        taken = routing.route(config, view([min(score, 1.0), max(score - 1.0, 0.0)]), memory)
        memory = routing.update_state(taken, torch.tensor(1))
        assert bool(memory.switch) == bool(taken.verify) == bool(taken.signals()["switch"])
        verified.append(bool(taken.verify))
    assert verified == [False, True, True, True, False, False, True, False]


def test_the_bandit_takes_the_better_arm_unless_it_is_curious() -> None:
    table = torch.zeros(8, 2, dtype=torch.float64)
    visits, rewards = table.clone(), table.clone()
    visits[0], rewards[0] = torch.tensor([10.0, 2.0]), torch.tensor([20.0, 3.0])
    memory = routing.RouterState(torch.tensor(False), visits, rewards)
    calm, curious = settings(router="bandit", exploration=0.0), settings(router="bandit", exploration=2.0)
    assert not decide(calm, view([0.5]), memory)
    taken = routing.route(curious, view([0.5]), memory)
    assert taken.verify
    assert float(taken.signals()["bucket_visits"]) == 12
    assert float(taken.signals()["bandit_mean"]) == 1.5
    assert float(taken.signals()["bandit_bound"]) == pytest.approx(1.5 + 2 * math.sqrt(math.log(13) / 2))


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
            taken = routing.route(config, view([0.5]), memory)
            memory = routing.update_state(taken, torch.tensor(gained))
            arm = plain_choice(rewards, t, beta)
            assert bool(taken.verify) == bool(arm)
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
    taken = routing.route(
        config, view([0.5] * count, progress=progress, entropy=entropy), routing.initial_state(config, CPU)
    )
    assert taken.signals()["bucket"] == bucket
    assert len(taken.memory.visits) == math.prod(config.buckets)
