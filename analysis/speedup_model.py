"""How much faster drafts make a model on given hardware: computed from an acceptance rate; nothing here is measured.

A verification of γ drafts yields (1 - α^(γ+1)) / (1 - α) tokens on average where each is accepted with probability α
once those before it were (arXiv 2211.17192, equation 1). What passes take is computed by `analysis.hardware`. Drafts
without a network of their own, looked up or left over from the last pass, cost nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from draftscope.analysis.acceptance_rate import AcceptanceRate
from draftscope.analysis.break_even import acceptance_for, tokens_of
from draftscope.analysis.hardware import (
    Bound,
    Device,
    Engine,
    HardwareError,
    NetworkSize,
    PassCost,
    PassWork,
    check_memory,
    draft_cost,
    pass_cost,
)
from draftscope.analysis.verdicts import Range, Verdict, verdict

MAX_DRAFTS: Final = 128
SHORT: Final = range(1, 17)
"""Draft lengths among which the fastest is: far drafts are seldom as good as near ones, as the formula assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupModel:
    """A model, what drafts for it, and where both run; HardwareError for a number out of range or too little memory."""

    device: Device
    engine: Engine
    target: NetworkSize
    draft: NetworkSize | None
    """None for drafts by lookup."""
    acceptance: float
    """Acceptance rate of a draft if all earlier drafts were accepted."""
    drafts: int
    """Drafts per verification, γ."""
    batch: int = 1
    context: int = 1024
    """Tokens in the KV cache of each sequence."""
    gpus: int = 1
    """Devices that share every layer."""

    def __post_init__(self) -> None:
        for field, value, maximum in (
            ("acceptance", self.acceptance, 1),
            ("drafts", self.drafts, MAX_DRAFTS),
            ("batch", self.batch, 4096),
            ("context", self.context, 1_000_000),
        ):
            minimum = 0 if field in ("acceptance", "context") else 1
            if not minimum <= value <= maximum:
                raise HardwareError(f"{field}: {value:g} is not allowed; use {minimum} to {maximum:,}.")
        check_memory(self.device, self.target, self.draft, self.context + self.drafts + 1, self.batch, self.gpus)

    @property
    def tokens(self) -> float:
        """Tokens that one verification yields, on average."""
        return tokens_of(self.acceptance, self.drafts)

    @property
    def baseline_pass(self) -> PassCost:
        """A pass over the next token of every sequence."""
        return self._pass(self.target, 1)

    @property
    def verification(self) -> PassCost:
        """A pass over the drafts of every sequence and one token more."""
        return self._pass(self.target, self.drafts + 1, judges=True)

    @property
    def drafting(self) -> float:
        """Seconds that the drafts of one verification take."""
        return 0.0 if self.draft is None else self.drafts * self._pass(self.draft, 1, cost=draft_cost).seconds

    @property
    def speed_up(self) -> float:
        """Times as fast as ordinary decoding of the same batch."""
        return self.tokens * self.baseline_pass.seconds / (self.verification.seconds + self.drafting)

    @property
    def bound(self) -> Bound:
        """Resource on which a verification spends most of its time."""
        return self.verification.bound

    @property
    def break_even(self) -> float | None:
        """Acceptance rate at which it is as fast as ordinary decoding; None if no rate suffices."""
        return acceptance_for((self.verification.seconds + self.drafting) / self.baseline_pass.seconds, self.drafts)

    def verdict(self, rate: AcceptanceRate) -> Verdict:
        """Return whether drafts pay at this batch, and from which larger batch on the answer changes.

        Args:
            rate: The acceptance rate with its interval, which makes the range. Larger batches have their fastest draft
                lengths.
        """
        ends = (replace(self, acceptance=each).speed_up for each in (rate.low, rate.high))
        here = Range(self.speed_up, *ends)
        fixed = replace(self, drafts=1, batch=1)

        def speeds(batch: int) -> Range | None:
            if batch == self.batch:
                return here
            speed = _fastest(fixed, batch)
            return None if speed is None else Range(speed, speed, speed)

        found = verdict(speeds, self.batch)
        assert found is not None  # this plan fits the memory
        return found

    def with_each(self, field: str, values: Iterable[Any]) -> list["SpeedupModel"]:
        """Return copies with other values of a field, without those that do not fit the memory of the device.

        Args:
            field: Name of a field.
            values: Values, in the order of the result.
        """
        plans = []
        for value in values:
            try:
                plans.append(replace(self, **{field: value}))
            except HardwareError:
                continue
        return plans

    def with_best_draft_length(self, lengths: Iterable[int] = SHORT) -> "SpeedupModel":
        """Return a copy with the fastest draft length, the shortest of equals."""
        return max(self.with_each("drafts", lengths), key=lambda plan: plan.speed_up)

    @property
    def experts(self) -> tuple[float, float]:
        """Experts of a layer that a pass of ordinary decoding and a verification touch; 0 in a dense model."""
        tokens = self.batch, self.batch * (self.drafts + 1)
        one, many = map(self.target.touched, tokens)
        return one, many

    @property
    def rates(self) -> tuple[float, float]:
        """Tokens a second of one user, ordinarily and with drafts."""
        ordinary = 1 / self.baseline_pass.seconds
        return ordinary, ordinary * self.speed_up

    def _pass(
        self, size: NetworkSize, tokens: int, *, judges: bool = False, cost: Callable[..., PassCost] = pass_cost
    ) -> PassCost:
        steps = size.denoising_steps
        work = PassWork(
            query_tokens=tokens * self.batch, rows=self.batch, context=self.context, judges=judges, head_passes=steps,
            noisy_tokens=steps * tokens * self.batch,
        )  # fmt: skip
        return cost(self.device, size, self.engine, work, self.gpus)


@lru_cache(maxsize=4096)
def _fastest(plan: SpeedupModel, batch: int) -> float | None:
    """The speed-up of a batch with its fastest draft length; None if it does not fit the memory."""
    try:
        return replace(plan, batch=batch).with_best_draft_length().speed_up
    except HardwareError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeeds:
    """Speculative decoding with one drafter as it was measured, by draft length and batch."""

    target: str
    drafter: str
    location: str
    """The hardware."""
    acceptance: float
    """Acceptance rate of a draft if all earlier drafts were accepted; mean over draft lengths and batches."""
    spread: float
    """Maximum distance of a draft length's or batch's rate from it."""
    speeds: Mapping[tuple[int, int], tuple[float, float, float]]
    """Draft length and batch -> times as fast as ordinary decoding: median, lower and upper quartile."""

    def __str__(self) -> str:
        """The pair in words."""
        return f"{self.target} by {self.drafter}"
