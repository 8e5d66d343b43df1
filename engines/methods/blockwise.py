"""Ordinary decoding of diffusion language models, block by block: the baseline of the text methods.

Rules are those of engines.diffusion_lm.unmasking, and SDAR's `static` and `dynamic` (arXiv 2510.06303).
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from torch import Tensor

from engines.diffusion_lm import unmasking
from engines.diffusion_lm.approximate_caches import DEVIATION, Name, StaleCache
from engines.diffusion_lm.block_sequence import PartSettings, Row, TextTask, propose
from engines.protocol import Decoder, ask_numbers, ask_probs
from engines.sampling.random_source import Chance
from engines.settings import ConfigError, Knob
from engines.transfer import to_device

_SCHEDULED: Final = ("static", "dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(PartSettings):
    """Settings of ordinary decoding."""

    rule: Annotated[
        Literal["confidence", "localleap", "greedy", "static", "dynamic"],
        Knob(
            "Reveal",
            "Masks a pass reveals. confidence: all above the threshold. localleap: and nearly sure neighbours. "
            "greedy: the surest. static: an equal share a step. dynamic: whichever of both is more.",
        ),
    ] = "confidence"
    threshold: Annotated[
        float, Knob("Threshold", unmasking.SURE, 0.0, 1.0, 0.05, {"rule": ("confidence", "localleap", "dynamic")})
    ] = 0.9
    steps: Annotated[
        int, Knob("Steps per block", "Steps to fill a block in. Fewer are less sure.", 1, 32, 1, {"rule": _SCHEDULED})
    ] = 1

    cache: Annotated[
        Name,
        Knob(
            "Cache",
            "What is kept of earlier passes. exact: only what stays as it is. The others are APPROXIMATE: prefix and "
            "dual (Fast-dLLM) keep what surrounds a block as its first pass saw it, delayed (dKV-Cache) a token as the "
            "pass after it saw it.",
        ),
    ] = "exact"
    refresh: Annotated[
        int, Knob("Refresh", "Passes after which everything is computed anew.", 1, 64, 1, {"cache": ("delayed",)})
    ] = 8

    def __post_init__(self) -> None:
        PartSettings.__post_init__(self)
        if self.rule in _SCHEDULED and self.steps > self.size:
            raise ConfigError(
                f"steps: {self.steps} is more than a block of {self.size} has tokens; use 1 to {self.size}."
            )


PRESETS: Final[dict[str, dict[str, object]]] = {
    "Fast-dLLM v2": {"block": "32", "sub_block": "8", "threshold": 0.9},
    "Fast-dLLM v2, sub-block cache": {"block": "32", "sub_block": "8", "threshold": 0.9, "cache": "dual"},
    "Fast-dLLM, prefix cache": {"block": "32", "threshold": 0.9, "cache": "prefix"},
    "Fast-dLLM, dual cache": {"block": "32", "threshold": 0.9, "cache": "dual"},
    "dKV-Cache": {"block": "32", "rule": "greedy", "cache": "delayed", "refresh": 8},
}
"""What releases do, with blocks of 32; the caches are approximate."""


def deviation(config: Config) -> str:
    """What sets the distribution apart from that of block size 1."""
    return unmasking.differing({DEVIATION: config.cache != "exact"}, config.size > 1)


def decode(task: TextTask, config: Config, chance: Chance) -> Decoder:
    """Reveal tokens until the text ends."""
    row = Row(task, config.size, part=config.part, carry=config.carry)
    ask = row if config.cache == "exact" else StaleCache(row, config.cache, config.refresh)
    iteration, block, taken = 0, row.block, 0
    while not row.ended:
        position = row.open
        probs = ask_probs((yield ask.look(read=position)))  # [m, V]
        token, confidence = propose(probs, position, iteration, chance, config.mode)
        ruled, passed = _choose(confidence, to_device(position, probs.device), config, taken)
        chosen = ruled | to_device(row.carried(position), probs.device) if task.shift else ruled
        decided = token, partial(unmasking.fates, chosen, ruled & ~passed), chosen
        answer = yield row.decision(position, decided, probs, confidence, open=len(position))
        row.write(position, ask_numbers(answer))
        row.move_on()
        iteration, taken = iteration + 1, taken + 1 if row.block == block else 0
        block = row.block
    return row.tokens[row.prompt_length :]


def _choose(confidence: Tensor, position: Tensor, config: Config, taken: int) -> tuple[Tensor, Tensor]:
    """The positions to reveal [m], and those that a rule lets pass: for want of them the most confident is revealed."""
    if config.rule in unmasking.RULES:
        passed = unmasking.RULES[config.rule](confidence, position, config.threshold)
        return unmasking.at_least_one(passed, confidence), passed
    least = unmasking.schedule(config.size, config.steps, taken)
    chosen = unmasking.dynamic(confidence, config.threshold if config.rule == "dynamic" else 2.0, least)
    return chosen, chosen
