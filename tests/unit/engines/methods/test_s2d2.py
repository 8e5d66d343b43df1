"""S2D2: its verifier against block size 1, its output distribution by enumeration, its variants, traces and routers."""

from collections import Counter
from typing import Any, cast

import pytest
import torch
from support.passes import ended, run_passes
from support.tiny_diffusion_lm import END, MASK, TinyLM, text, tiny_diffusion_lm
from torch import Tensor

from draftscope.analysis.block_stats import router_decisions
from draftscope.engines.diffusion_lm import masks, s2d2_layouts
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, PassLayout, TextTask
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.s2d2 import Config, decode
from draftscope.engines.runtime.driver import Job, Run, open_session
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import DrawKey, SeededRandom
from draftscope.engines.settings import make_config
from draftscope.engines.testing.conformance import finish
from draftscope.engines.testing.enumeration import exact_distribution, variation
from draftscope.engines.testing.toy_models import ToyBlockModel
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Fate

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
    request = row.request_layout(s2d2_layouts.verification_layout(row, row.span, filled, config), "verify")
    return session.logits({0: request})[0, 0, 0], row, filled


def one_by_one(model: TinyLM, row: BlockSequence, filled: Tensor) -> Tensor:
    """Decode one block of size 1 at a time, over a cache that was filled in the same way."""
    again = BlockSequence(row.task, 4, causal=row._causal)
    session = open_session([job(model=model, prompt="abcdeabcd")])
    session.logits({0: again.request_open_positions()})
    logits = []
    for draft_position in row.span.tolist():
        position = torch.arange(row.block.start, draft_position + (0 if row.task.shift else 1))
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
    for position in row.span.tolist():
        ids = filled[:position] if kind == "shift" else torch.cat([filled[:position], torch.tensor([MASK])])
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
        return model.all_probs(
            row.request_layout(s2d2_layouts.verification_layout(row, row.span, filled, config), "verify")
        )

    assert all_probs(0).equal(all_probs(2))


def deviation(model: ToyBlockModel, length: int, prompt: tuple[int, ...] = (), **values: object) -> float:
    """Total variation from the distribution of block size 1."""
    config = make_config(Config, {"block": "2", "mode": "sample", "verdict": "ratio", **values})
    probs = exact_distribution(lambda rng: decode(model.task(length, prompt), config, rng), model.forward)
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
@pytest.mark.parametrize("values", [{"sub_block": "1"}, {"reuse_store_pass": False}, {"block": "4", "sub_block": "2"}])
@pytest.mark.parametrize("shift", [False, True])
def test_how_a_block_is_gone_through_does_not_enter_that_distribution(shift: bool, values: dict[str, object]) -> None:
    assert (
        deviation(ToyBlockModel(2, shift=shift), 3 if "block" in values else 4, (1, 0) if shift else (), **values)
        < EXACT
    )
    assert METHODS["s2d2"].deviation(make_config(Config, {"mode": "sample", "verdict": "ratio", **values})) == ""


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"ar_cache": False}, "as their block sees them"),
        ({"mode": "greedy"}, "likely tokens are verified by p / q"),
        ({"tempering": 0.5}, "raised to a power"),
        ({"router": "span"}, "whose drafts are not verified"),
        ({"steps": 1}, "fill in more by confidence"),
        ({"edit_threshold": 0.4}, "are replaced"),
        ({"verdict": "match"}, "only if it is the likeliest token"),
    ],
)
def test_what_is_said_to_deviate_does(values: dict[str, object], sentence: str) -> None:
    assert deviation(ToyBlockModel(2, seed=3), 3, **values) > 0.05
    assert sentence in METHODS["s2d2"].deviation(make_config(Config, {"mode": "sample", "verdict": "ratio", **values}))


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
    trace = finish(job(edit_threshold=0.1, model=tiny_diffusion_lm(seed=2), mode="sample", verdict="ratio", length=32))
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
        self.met.update((draw.purpose, draw.iteration, position) for position in draw.position.tolist())
        return super()._uniform(draw)


def test_no_two_draws_share_a_name() -> None:
    model, rng = ToyBlockModel(3, seed=1), Names()
    config = make_config(Config, {"block": "4", "mode": "sample", "verdict": "ratio"})
    ended(run_passes(decode(model.task(16), config, rng), model.forward))
    assert {name for name, _, _ in rng.met} == {"draft", "estimate", "verify", "residual"}
    assert set(rng.met.values()) == {1}


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
    with pytest.raises(ValueError, match="this model looks at the whole text; use blockwise"):
        Run(job(model=tiny_diffusion_lm("full")))
