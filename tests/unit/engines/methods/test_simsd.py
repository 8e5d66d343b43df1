"""SimSD: its verifiers against one token after the other, its distribution enumerated, its pinned deviations."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, cast

import pytest
import torch
from support.conditionals import Conditionals, sequential
from support.tiny_diffusion_lm import END, TinyLM, tiny_diffusion_lm
from torch import Tensor

from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.simsd import ANY_ORDER, LAYOUTS, Config, Drafts
from draftscope.engines.protocol import Decoder
from draftscope.engines.runtime.driver import Job
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import make_config
from draftscope.engines.testing.conformance import finish
from draftscope.engines.testing.enumeration import by_role, exact_distribution, largest_error
from draftscope.engines.testing.toy_models import ToyBlockModel
from draftscope.traces import dumps, loads
from draftscope.traces.replay import canvas_states
from draftscope.traces.schema import Fate

EXACT = 1e-12
PROMPT = "abcdefg"  # two blocks, with the line break after it


def settings(**values: object) -> Config:
    return make_config(Config, {"block": "4", "gamma": 4, "length": 16, **values})


def job(model: Any = None, small: Any = None, seed: int = 0, **values: object) -> Job:
    draft = small or tiny_diffusion_lm(seed=1, layers=1)
    return Job(
        METHODS["simsd"], cast(Any, model or tiny_diffusion_lm()), PROMPT, settings(**values), seed, drafter=draft
    )


def drafts_of(row: BlockSequence, order: list[int], tokens: list[int]) -> Drafts:
    return Drafts(torch.tensor(order) + row.block.start, torch.tensor(tokens), torch.empty(len(order), 0))


def slots(model: TinyLM, row: BlockSequence, drafts: Drafts, verifier: str, rope_copy: bool = True) -> Tensor:
    """Logits the verifier reads for the drafts, from one pass without a cache."""
    request = row.request_layout(LAYOUTS[verifier](row, drafts, rope_copy), "verify")
    row._stored.clear()  # the next request starts from the beginning
    many = [
        model.everything(tokens, request.position, request.attention_mask)[request.output_index]
        for tokens in request.tokens
    ]
    return torch.stack([many[r][r] for r in range(len(many))]) if verifier == "exact" else many[0]


def replay(model: TinyLM, row: BlockSequence, drafts: Drafts) -> Tensor:
    """Return the logits by one pass per draft over prompt and block, as the target itself would decode.

    A right-shifted model predicts a token at the position to its left.
    """
    ids, logits = row.tokens[: row.block.stop].clone(), []
    block = torch.arange(len(ids)) // row.size
    for position, token in zip(drafts.position.tolist(), drafts.token.tolist(), strict=True):
        seen = block[:, None] >= block[None, :]
        logits.append(model.everything(ids, torch.arange(len(ids)), seen)[position - model.kind.shift])
        ids[position] = token
    return torch.stack(logits)


def begin(model: TinyLM, block: int = 4) -> BlockSequence:
    config = settings(block=str(block), gamma=block)
    return BlockSequence(cast(TextTask, model.make_task(PROMPT, config)), block)


ORDER, TOKENS = [2, 0, 3, 1], [4, 7, 5, 9]


SHIFTED_ORDER = [0, 2, 3, 1]
"""The first token of a block, which only the pass after the block before predicts, comes first."""


@pytest.mark.parametrize("kind", ["aligned", "shift"])
@pytest.mark.parametrize(
    ("verifier", "layers", "known", "exact"),
    [
        *(("exact", layers, False, True) for layers in (1, 2, 4)),
        ("eq1", 1, False, True),
        ("eq1", 1, True, True),
        *((verifier, layers, False, False) for verifier in ("eq1", "2L") for layers in (2, 4)),
    ],
)
def test_which_verifiers_are_the_target_token_by_token(
    verifier: str, layers: int, known: bool, exact: bool, kind: str
) -> None:
    model, order = tiny_diffusion_lm(kind, layers=layers), ORDER if kind == "aligned" else SHIFTED_ORDER
    if verifier == "2L" and kind == "shift":
        return  # refused
    row = begin(model)
    if known:
        row.fill([row.block.start + 1], [6])
    drafts = drafts_of(row, order[: 3 if known else 4], TOKENS[: 3 if known else 4])
    apart = (slots(model, row, drafts, verifier) - replay(model, row, drafts)).abs().amax(1)
    assert apart.max() < 1e-4 if exact else apart[1:].max() > 1e-2
    assert exact or kind == "shift" or apart[1:].min() > 1e-2


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("verifier", ["eq1", "exact", "2L"])
def test_whether_a_draft_reaches_its_own_verdict(verifier: str, layers: int) -> None:
    model = tiny_diffusion_lm(layers=layers)
    row = begin(model)
    drafts = drafts_of(row, ORDER, TOKENS)
    before = slots(model, row, drafts, verifier)
    for r in range(4):
        other = [*TOKENS]
        other[r] = 11
        moved = (slots(model, row, drafts_of(row, ORDER, other), verifier) - before).abs().amax(1)
        leaks = verifier == "eq1" and layers > 1 and r < 3
        assert bool(moved[r] > 1e-3) == leaks
        assert (moved[:r] < 1e-5).all() or leaks
        if r == 3:
            assert moved.max() < 1e-5  # the last draft is seen by no copy


@pytest.mark.parametrize("known", [{}, {1: 6}, {0: 4, 3: 9}])
@pytest.mark.parametrize(("verifier", "block"), [("2L", 1), *(("eq1", block) for block in (1, 2, 4, 8))])
@pytest.mark.parametrize("layers", [2, 3, 4])
def test_one_pass_judges_a_single_draft_exactly_in_a_block_of_any_size(
    layers: int, verifier: str, block: int, known: dict[int, int]
) -> None:
    """Among positions without drafts, final or open, which are in the block when gamma is below its size."""
    model = tiny_diffusion_lm(layers=layers)
    row = begin(model, block)
    inside = {row.block.start + i: token for i, token in known.items() if i < block - 1}
    for position, token in inside.items():
        row.tokens[position] = token
    for position in (row.open - row.block.start).tolist():
        drafts = drafts_of(row, [position], [5])
        judged, wanted = (
            logits[:, 3:].softmax(-1) for logits in (slots(model, row, drafts, verifier), replay(model, row, drafts))
        )
        torch.testing.assert_close(judged, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", [2, 3])
def test_no_draft_reaches_a_verdict_through_what_was_not_drafted(layers: int) -> None:
    """With gamma below the block size as with gamma equal to it, the last draft moves no verdict at all."""
    model = tiny_diffusion_lm(layers=layers)
    row = begin(model, block=8)
    row.fill([row.block.start + 1], [6])
    before = slots(model, row, drafts_of(row, [4, 0, 6], [4, 7, 5]), "eq1")
    after = slots(model, row, drafts_of(row, [4, 0, 6], [4, 7, 11]), "eq1")
    torch.testing.assert_close(after, before, rtol=0, atol=1e-5)


def test_copies_at_positions_of_their_own_are_further_off() -> None:
    model = tiny_diffusion_lm(layers=1)
    row = begin(model)
    drafts = drafts_of(row, ORDER, TOKENS)
    assert (slots(model, row, drafts, "eq1", rope_copy=False) - replay(model, row, drafts)).abs().max() > 0.1


def decoder(task: TextTask, **values: object) -> Callable[[RandomSource], Decoder]:
    config = settings(**{"length": 8, "mode": "sample", "verdict": "ratio", "verifier": "exact", **values})
    return lambda rng: METHODS["simsd"].decode(task, config, rng)


def pair(joint: bool, length: int = 3) -> dict[str, Conditionals]:
    return {role: Conditionals(length, 2, seed, joint) for seed, role in enumerate(("draft", "target"))}


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("values", "exact"),
    [
        ({}, True),
        *((values, False) for values in ({"order": "position"}, {"verdict": "plain"}, {"mode": "greedy"})),
        ({"verdict": "match"}, False),
    ],
    ids=str,
)
def test_the_ratio_in_draft_order_draws_the_targets_distribution(values: dict[str, object], exact: bool) -> None:
    models = pair(joint=False)
    probs = exact_distribution(decoder(models["target"].task, **values), by_role(models))
    error = largest_error(probs, sequential(models["target"], models["draft"]))
    assert error < EXACT if exact else error > 1e-2
    drawn = {"mode": "sample", "verdict": "ratio", "verifier": "exact"}
    assert (METHODS["simsd"].deviation(settings(**{**drawn, **values})) == ANY_ORDER) == exact


@pytest.mark.one_quick
@pytest.mark.parametrize("position", ["fallback", "truncate"])
@pytest.mark.parametrize(("gamma", "threshold"), [(1, 1.0), (2, 1.0), (3, 1.0), (3, 0.7), (3, 0.0)])
def test_any_window_drafter_and_rest_keep_a_joint_distribution(gamma: int, threshold: float, position: str) -> None:
    models, values = pair(joint=True), {"gamma": gamma, "draft_threshold": threshold, "rest": position}
    probs = exact_distribution(decoder(models["target"].task, **values), by_role(models))
    table = models["target"].table
    assert largest_error(probs, {tuple(at.tolist()): float(table[tuple(at)]) for at in (table >= 0).nonzero()}) < EXACT


def surest_first(
    models: Mapping[str, ToyBlockModel], length: int, block: int, prompt: tuple[int, ...] = ()
) -> dict[tuple[int, ...], float]:
    """The target's distribution, one token a pass at the position of which the drafter is surest.

    The first token of a block comes first where only the pass after the block before predicts it.
    """
    probs = {}
    for tokens in product(range(2), repeat=length):
        rows, weight = {role: BlockSequence(model.task(length, prompt), block) for role, model in models.items()}, 1.0
        while not rows["target"].ended:
            seen = {role: model.all_probs(rows[role].request_open_positions())[0] for role, model in models.items()}
            best = int(seen["draft"].amax(-1).argmax())
            position = int(rows["target"].open[best])
            token = tokens[position - len(prompt)]
            weight *= float(seen["target"][best, token])
            for row in rows.values():
                row.fill([position], [token])
        probs[tokens] = weight
    return probs


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [None, (0,), (0, 1, 1, 0)], ids=["aligned", "shifted", "shifted, whole block"])
@pytest.mark.parametrize(
    ("verifier", "block", "gamma", "exact"), [("eq1", 4, 1, True), ("eq1", 4, 2, False), ("exact", 2, 2, True)]
)
def test_which_verdicts_draw_the_targets_distribution(
    verifier: str, block: int, gamma: int, exact: bool, prompt: tuple[int, ...] | None
) -> None:
    kind = {"shift": prompt is not None}
    models: dict[str, Any] = {
        "draft": ToyBlockModel(2, seed=5, **kind),
        "target": ToyBlockModel(2, seed=4, **kind),
    }  # three layers tell every leak
    drawn: dict[str, object] = {"mode": "sample", "verdict": "ratio", "draft_threshold": 1}
    config = settings(block=str(block), length=8, verifier=verifier, gamma=gamma, **drawn)
    assert (METHODS["simsd"].deviation(config) == ANY_ORDER) == exact
    task = models["target"].task(4, prompt or ())
    probs = exact_distribution(lambda rng: METHODS["simsd"].decode(task, config, rng), by_role(models))
    error = largest_error(probs, surest_first(models, 4, block, prompt or ()))
    assert error < EXACT if exact else error > 1e-3


def test_a_drafter_that_is_read_in_place_drafts_the_same_for_a_shifted_target() -> None:
    """With blocks of one token, where no order is chosen: the first draft, and a whole text."""
    small = tiny_diffusion_lm(seed=1, layers=1)
    aligned, shifted = (
        finish(job(tiny_diffusion_lm(kind), small, block="1", gamma=1, mode="sample", verdict="ratio"))
        for kind in ("aligned", "shift")
    )
    first, same = (
        next(step for step in trace.steps if step.call.mode == "small_draft") for trace in (aligned, shifted)
    )
    assert first.numbers["confidence"] == pytest.approx(same.numbers["confidence"], abs=1e-6)
    assert (first.position, first.token) == (same.position, same.token) and shifted.summary.complete


def test_where_nothing_deviates_nothing_is_said() -> None:
    deviation = METHODS["simsd"].deviation
    assert deviation(settings(mode="greedy", verdict="match", verifier="exact")) == ANY_ORDER
    assert deviation(settings(block="1", gamma=0, verifier="2L")) == ""
    assert deviation(settings(gamma=1, order="position")) == ANY_ORDER
    assert "verified in one pass" in deviation(settings())
    assert "left to right" in deviation(settings(order="position"))
    assert "other positions than the drafts" in deviation(settings(rope_copy=False))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["aligned", "shift"])
def test_who_drafts_for_itself_is_always_right_and_writes_its_own_greedy_text(kind: str) -> None:
    """Self-drafting one token at a time gives that text by definition, whatever is verified at once."""
    model = tiny_diffusion_lm(kind)
    trace = finish(job(model, drafter="itself", verifier="exact"))
    assert trace.summary.acceptance == 1.0
    assert trace.draft_model == trace.model
    texts = {
        (gamma, rest_policy): finish(
            job(model, drafter="itself", verifier="exact", gamma=gamma, rest=rest_policy)
        ).output.tokens
        for gamma in (1, 2, 4)
        for rest_policy in ("fallback", "truncate")
    }
    assert len(set(texts.values())) == 1


def test_calls_and_fates_tell_who_did_what() -> None:
    trace = finish(job())
    assert {(step.call.role, step.call.mode) for step in trace.steps} == {
        ("draft", "small_draft"),
        ("target", "verify"),
    }
    assert trace.draft_model is not None
    for step in trace.steps:
        if step.call.mode == "small_draft":
            assert step.fate == (Fate.DRAFTED,)
        else:
            assert step.mask and sum(key[0] == "D" for key in step.mask.keys) == len(step.position)
            assert set(step.fate) <= {Fate.ACCEPTED, Fate.RESAMPLED, Fate.DISCARDED}
            assert {"order", "kl", "cross_entropy", "agrees", "ratio", "residual_mass"} <= set(step.numbers)
    assert loads(dumps(trace)) == trace
    assert trace.summary.forwards == len(trace.steps)


@pytest.mark.slow
def test_nothing_is_drafted_behind_an_end() -> None:
    met = 0
    for seed in range(12):
        trace = finish(job(mode="sample", verdict="ratio", seed=seed))
        for before, step in zip(canvas_states(trace), trace.steps, strict=False):
            if step.call.mode == "small_draft" and END in before.tokens:
                met += 1
                assert step.position[0] < before.tokens.index(END)
    assert met


def test_an_end_that_stands_in_the_prompt_ends_no_text() -> None:
    row = BlockSequence(cast(TextTask, tiny_diffusion_lm().make_task("abc", settings(block="8"))), 8)
    positions = list(range(row.prompt_length, 8))
    row.tokens[1] = END
    assert 0 < row.prompt_length < 6 and row.before_end(row.tokens).tolist() == positions
    row.tokens[6] = END
    assert row.before_end(row.tokens).tolist() == positions[:-2]


def test_sure_drafts_share_a_pass() -> None:
    apart, together = (
        [len(step.position) for step in finish(job(draft_threshold=threshold)).steps if step.call.mode == "small_draft"]
        for threshold in (1.0, 0.0)
    )
    assert set(apart) == {1} and max(together) == 4
    assert len(together) < len(apart)


def test_fewer_than_gamma_are_left_to_the_target() -> None:
    trace = finish(job(rest="fallback"))
    left = [step for step in trace.steps if step.call.mode == "fallback"]
    assert left
    assert all(step.call.role == "target" and step.fate == (Fate.FALLBACK,) for step in left)


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        ("full", {}, "attends to the whole text; use blockwise"),
        ("shift", {"verifier": "2L"}, "verifier: '2L' is for models whose tokens are read in place"),
        ("shift", {"rope_copy": False}, "rope_copy: false is for models whose tokens are read in place"),
    ],
)
def test_models_it_was_not_made_for_are_refused(kind: str, values: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        finish(job(tiny_diffusion_lm(kind), tiny_diffusion_lm(kind), **values))
