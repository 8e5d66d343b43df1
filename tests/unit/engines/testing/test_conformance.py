"""Every method keeps what it promises, under its default settings and every preset; broken ones are caught."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.methods import METHODS, ar, blockwise, scd
from draftscope.engines.methods import continuous_ar as continuous
from draftscope.engines.methods.method import Method, no_deviation
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.protocol import Decision, Decoder
from draftscope.engines.runtime import driver, recorder
from draftscope.engines.sampling import coupling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource, SeededRandom
from draftscope.engines.settings import ConfigError, Setting, settings
from draftscope.engines.testing.case import claims, subject
from draftscope.engines.testing.conformance import CHECKS, CLAIM, DoesNotHoldError, check, run_contract_checks
from draftscope.engines.testing.exactness import proof
from draftscope.traces.replay import CanvasReplay
from draftscope.traces.schema import Step, Trace

PRESETS = {
    (name, preset): dict(method.presets[preset]) for name, method in METHODS.items() for preset in method.presets
}
FURTHER: dict[tuple[str, str], dict[str, object]] = {
    ("cspd-block", "coupled maximally, drafts in closed form"): {"verdict": "maximal", "drafter": "mixture"},
    **{("speculative", drafter): {"drafter": drafter} for drafter in EAGLE_DRAFTERS},
}
"""Lossless settings that are neither defaults nor presets."""
ALL: dict[tuple[str, str], dict[str, object]] = {(name, ""): {} for name in METHODS} | PRESETS | FURTHER
BIDIRECTIONAL = ("prefix", "delayed")
"""Caches that a block-causal model, such as the one here, refuses; test_approximate_caches.py has them."""
ALIKE: tuple[tuple[str, str], ...] = (
    ("scd", "Janus-Pro"),  # Lumina-mGPT: a table has 4 ids, fewer than top-k, and no guidance
    *(("cspd", f"As published, γ = {gamma}") for gamma in (8, 16)),  # γ = 4 and 32
    ("s2d2", "SDAR-4B B"),  # SDAR-8B B: a text of 16 tokens is one block of either
)
"""Presets that the small models here cannot tell from others."""
CASES = {
    repr((name, values)): (name, preset)
    for (name, preset), values in ALL.items()
    if values.get("cache") not in BIDIRECTIONAL and (name, preset) not in ALIKE
}
"""Every set of settings once; some presets differ by name alone."""
REPLAY = "the trace replays to the output"


def broken(method: Method, *, sampled: bool | None = None, **values: object) -> dict[str, str]:
    """Return the failed checks with their messages; for a lossy method nothing has to be proved.

    Long texts and the smallest settings are among them if they are `sampled`: unless it is given, without `values`.
    """
    if not claims(method, values):
        return unkept(method, **values)
    sampled = not values if sampled is None else sampled
    return {f.check: f.message for f in check(subject(method, values), True, sampled=sampled) if not f.holds}


def unkept(method: Method, **values: object) -> dict[str, str]:
    """The checks but that of the output distribution that fail, with what they say."""
    return {f.check: f.message for f in run_contract_checks(subject(method, values)) if not f.holds}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "preset"),
    [pytest.param(*case, marks=[pytest.mark.nightly] if case in PRESETS else []) for case in CASES.values()],
)
def test_a_method_keeps_its_promises(name: str, preset: str) -> None:
    assert broken(METHODS[name], sampled=False, **ALL[name, preset]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", METHODS)
def test_a_method_keeps_them_in_long_texts_and_with_its_smallest_settings(name: str) -> None:
    assert broken(METHODS[name]) == {}


def mutant(method: str, decode: Any, **changed: Any) -> Method:
    """A method with another decoder that calls itself lossless."""
    return replace(METHODS[method], decode=decode, deviation=no_deviation, **changed)


def altered(decode: Callable[..., Decoder], change: Callable[[Any], Any]) -> Callable[..., Decoder]:
    """A decoder whose requests are changed."""

    def altering(task: Any, config: Any, rng: RandomSource) -> Decoder:
        inner, altered = decode(task, config, rng), None
        while True:
            try:
                item = inner.send(altered)
            except StopIteration as stop:
                return cast(Tensor, stop.value)
            altered = yield item if isinstance(item, Decision) else change(item)

    return altering


@pytest.mark.slow
def test_replacements_drawn_from_the_target_are_caught_in_a_text_method(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"mode": "sample", "verdict": "ratio"}
    assert claims(METHODS["s2d2"], values)
    monkeypatch.setattr(coupling, "residual", lambda q, p: p)
    result = proof(subject(METHODS["s2d2"], values))
    assert not result.holds
    assert result.message.startswith("TV 0.")


def candidates(setting: Setting) -> Sequence[object]:
    """Its choices, or small values and the ends of its range."""
    if setting.kind == "choice":
        return setting.choices
    if setting.kind == "bool":
        return (False, True)
    low, high = setting.knob.low, setting.knob.high
    assert low is not None and high is not None
    return (low, high) if setting.kind == "float" else [value for value in range(4) if low <= value <= high] or (low,)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, pytest.param(10, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.family != "continuous-ar"])
def test_whatever_is_biased_is_labelled_so(name: str, size: int) -> None:
    """The first of a hundred random settings that claim to be lossless are enumerated."""
    rng, claimed = random.Random(0), 0
    for _ in range(100):
        values = {setting.name: rng.choice(candidates(setting)) for setting in settings(METHODS[name].config)}
        try:
            case = subject(METHODS[name], values)
        except (ConfigError, ValueError):
            continue
        if claims(METHODS[name], values):
            result, claimed = proof(case, sampled=False, counted=False), claimed + 1
            assert result.holds or "cannot be enumerated" in result.message, (values, result.message)
        if claimed == size:
            break


@pytest.mark.slow
def test_few_tries_are_labelled_biased() -> None:
    for name in ("cspd", "cspd-block"):
        assert claims(METHODS[name], {})
        assert not claims(METHODS[name], {"max_tries": 1})
    assert not proof(subject(METHODS["cspd-block"], {"max_tries": 1})).holds


@dataclass
class Cheat:
    """A random source with which a method tampers: some of its draws are sharpened, or have other names."""

    rng: RandomSource
    length: int
    biased: Callable[["Cheat", Tensor, DrawKey], Any]
    named: Callable[[DrawKey], DrawKey]
    verdicts: list[list[bool]] = field(default_factory=list)
    judged_from: float = math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rng, name)

    def accept(self, prob: Tensor, draw: DrawKey, *, until_rejection: bool = False) -> tuple[Tensor, Tensor]:
        accepted, uniform = self.rng.accept(prob, self.named(draw), until_rejection=until_rejection)
        self.verdicts.append(accepted.tolist())
        self.judged_from = min(draw.position.tolist(), default=math.inf)
        return accepted, uniform

    def categorical(self, weights: Tensor, draw: DrawKey, where: Tensor | None = None) -> Tensor:
        biased = torch.as_tensor(self.biased(self, weights, draw)).expand(len(weights))
        return self.rng.categorical(torch.where(biased[:, None], weights.pow(8), weights), self.named(draw), where)


def renamed(position: int | None, *purposes: str) -> Callable[[DrawKey], DrawKey]:
    """Draws of these purposes share numbers, at each position or at one."""

    def named(draw: DrawKey) -> DrawKey:
        positions = draw.position if position is None else torch.full_like(draw.position, position)
        return DrawKey(purposes[0], 0, positions) if draw.purpose in purposes else draw

    return named


def after_a_rejection(cheat: Cheat, weights: Tensor, draw: DrawKey) -> bool:
    """In a pass that accepts right after one that rejected."""
    recent = cheat.verdicts[-2:]
    return draw.purpose == "residual" and len(recent) == 2 and all(recent) and not recent[0][0] and recent[1][0]


def peeking(cheat: Cheat, weights: Tensor, draw: DrawKey) -> Any:
    """Drafts look at the number that their verdict will be taken by."""
    verdict = DrawKey("verify", len(cheat.verdicts), draw.position)
    even = torch.full((len(weights),), 0.5, dtype=torch.float64)
    return draw.purpose == "draft" and cheat.rng.accept(even, verdict)[1] < 0.5


def residual(biased: Callable[[Cheat, Tensor, DrawKey], Any]) -> Callable[[Cheat, Tensor, DrawKey], Any]:
    return lambda cheat, weights, draw: draw.purpose == "residual" and biased(cheat, weights, draw)


CHEATS: dict[str, dict[str, Any]] = {
    "many ids": {"biased": residual(lambda cheat, weights, draw: weights.shape[-1] > 16)},
    "late positions": {"biased": residual(lambda cheat, weights, draw: draw.position >= 4)},
    "long texts": {"biased": residual(lambda cheat, weights, draw: cheat.length > 4)},
    "deep drafts": {"biased": residual(lambda cheat, weights, draw: draw.position >= cheat.judged_from + 4)},
    "after a rejection": {"biased": after_a_rejection},
    "one name": {"named": renamed(0, "token", "draft", "residual")},
    "names of drafts for verdicts": {"named": renamed(None, "draft", "verify")},
    "one residual": {"named": renamed(0, "residual")},
    "peeking": {"biased": peeking},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_cheats_are_caught(name: str) -> None:
    honest = {"biased": lambda *_: False, "named": lambda draw: draw}

    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        cheat: Any = Cheat(rng, task.length, **honest | CHEATS[name])
        return METHODS["speculative"].decode(task, config, cheat)

    assert not proof(subject(mutant("speculative", decode))).holds


STRANGER = altered(continuous.decode, lambda request: replace(request, role="draft"))


@pytest.mark.one_quick
@pytest.mark.parametrize(
    "biased",
    [
        pytest.param(mutant("blockwise", blockwise.decode), id="likeliest tokens that differ"),
        pytest.param(mutant("gsd", METHODS["gsd"].decode), id="what needs a vocabulary to be seen"),
        pytest.param(mutant("continuous", STRANGER, find_drafter=lambda _: "small"), id="vectors of another model"),
    ],
)
def test_another_distribution_is_caught(biased: Method) -> None:
    assert list(broken(biased)) == [CLAIM]


@pytest.mark.slow
def test_branches_that_cannot_be_walked_prove_nothing() -> None:
    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        rng.uniform(DrawKey("mine", 0, torch.arange(1)), 1)
        return (yield from ar.decode(task, config, rng))

    assert "draw with keep, categorical or gumbel_argmax" in broken(mutant("ar", decode))[CLAIM]


def test_a_bias_that_shows_at_three_drafts_is_seen() -> None:
    """Short settings must not turn a biased method into a lossless one."""
    values = {"coupling": "maximal", "reuse_old_probs": True, "initial_drafts": "uniform"}
    assert not claims(METHODS["scd"], values)
    assert broken(METHODS["scd"], **values) == {}
    assert list(broken(replace(METHODS["scd"], deviation=no_deviation), **values)) == [CLAIM]


def test_randomness_of_ones_own_is_caught() -> None:
    seeds = count()
    result = unkept(mutant("scd", lambda task, config, _: scd.decode(task, config, SeededRandom(next(seeds)))))
    assert result["draws the same tokens twice"].startswith("no, two runs of seed 0 differ")


@pytest.mark.slow
def test_drafts_that_are_called_cached_are_caught() -> None:
    fed = [0]

    def pretend(request: ProbsRequest) -> ProbsRequest:
        cached, fed[0] = (min(fed[0], len(request.tokens) - 1) if request.num_final else 0), len(request.tokens)
        return replace(request, num_cached=max(cached, 0))

    assert "cached equals uncached" in unkept(mutant("scd", altered(scd.decode, pretend)))


def test_tokens_that_never_went_through_the_model_are_not_cached() -> None:
    result = unkept(mutant("ar", altered(ar.decode, lambda request: replace(request, num_cached=request.num_final))))
    assert "ValueError: cached: 1 tokens are said to be cached, and 0 were fed" in result["cached equals uncached"]


def test_sequences_that_know_of_each_other_are_caught() -> None:
    alive: list[None] = []

    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        alive.append(None)
        done = yield from ar.decode(task, config, rng)
        alone = len(alive) == 1
        alive.clear()
        return done if alone else 1 - done

    assert "in a batch of 3" in unkept(mutant("ar", decode))["a batch equals single runs"]


def test_recording_that_changes_tokens_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[None] = []

    def details() -> dict[str, Any]:
        looked_at.append(None)
        return {}

    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        looked_at.clear()
        inner, altered = ar.decode(task, config, rng), None
        for _ in range(task.length):
            altered = yield inner.send(altered)
            altered = yield replace(cast(Decision, inner.send(altered)), deferred_fields=details)
        return torch.full((task.length,), len(looked_at))

    monkeypatch.setattr(recorder, "_MAX_PENDING", -1)  # steps are made after every pass
    assert "a recorded run has other tokens" in unkept(mutant("ar", decode))["recording changes nothing"]


def test_steps_that_say_other_than_the_decoder_returns_are_caught() -> None:
    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        done = yield from ar.decode(task, config, rng)
        return 1 - done

    assert "the decoder returns" in unkept(mutant("ar", decode))[REPLAY]


class Painted(CanvasReplay):
    """Shows everything a step mentions, as if dropped drafts were still there."""

    def apply(self, step: Step) -> None:
        super().apply(step)
        for position, token in zip(step.position, step.token, strict=True):
            self._tokens[position] = token


@pytest.mark.parametrize("name", ["s2d2", "simsd", "cspd"])
def test_pictures_of_drafts_that_were_dropped_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CanvasReplay", Painted)
    with pytest.raises(DoesNotHoldError, match="shows what is not there"):
        CHECKS[REPLAY](subject(METHODS[name]))


def test_a_pass_that_makes_no_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    proper = driver.make_trace

    def forgetful(job: driver.Job, sequence: driver.RunningSequence) -> Trace:
        del sequence.steps[0]
        return proper(job, sequence)

    monkeypatch.setattr(driver, "make_trace", forgetful)
    with pytest.raises(DoesNotHoldError, match="forward passes make"):
        CHECKS["every forward pass is counted"](subject(METHODS["simsd"]))


def test_a_trace_that_disturbs_the_run_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    proper = driver.Run.trace

    def disturbing(self: driver.Run) -> Trace:
        session = proper(self)
        if not self._sequence.result:
            self._sequence.steps.append(self._sequence.steps[-1])
        return session

    monkeypatch.setattr(driver.Run, "trace", disturbing)
    with pytest.raises(DoesNotHoldError, match="it ends elsewhere"):
        CHECKS["stops and goes on"](subject(METHODS["simsd"]))
