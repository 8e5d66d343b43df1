"""Ordinary decoding of diffusion language models, block by block: the baseline of the text methods.

Rules are those of engines.diffusion_lm.unmasking, and SDAR's `static` and `dynamic` (arXiv 2510.06303).
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from torch import Tensor

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.approximate_caches import DEVIATION, ApproximateCache, Name
from draftscope.engines.diffusion_lm.block_sequence import (
    BlockSequence,
    SubBlockSettings,
    TextTask,
    sample_open_positions,
)
from draftscope.engines.protocol import Decoder, as_ints, as_probs
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.engines.transfer import to_device

_SCHEDULED: Final = ("static", "dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(SubBlockSettings):
    """Settings of ordinary decoding."""

    rule: Annotated[
        Literal["confidence", "localleap", "greedy", "static", "dynamic"],
        SettingInfo(
            "Reveal",
            "Masks a pass reveals. confidence: all above the threshold. localleap: and nearly sure neighbours. "
            "greedy: the most confident. static: an equal share per step. dynamic: the larger of both.",
        ),
    ] = "confidence"
    threshold: Annotated[
        float,
        SettingInfo("Threshold", unmasking.SURE, 0.0, 1.0, 0.05, {"rule": ("confidence", "localleap", "dynamic")}),
    ] = 0.9
    steps: Annotated[
        int,
        SettingInfo(
            "Steps per block", "Steps to fill a block in. Fewer are less sure.", 1, 32, 1, {"rule": _SCHEDULED}
        ),
    ] = 1

    cache: Annotated[
        Name,
        SettingInfo(
            "Cache",
            "What is kept of earlier passes. exact: only what stays as it is. The others are APPROXIMATE: prefix and "
            "dual (Fast-dLLM) keep what surrounds a block as its first pass saw it, delayed (dKV-Cache) a token as the "
            "pass after it saw it.",
        ),
    ] = "exact"
    refresh: Annotated[
        int,
        SettingInfo("Refresh", "Passes after which all entries are recomputed.", 1, 64, 1, {"cache": ("delayed",)}),
    ] = 8

    def __post_init__(self) -> None:
        SubBlockSettings.__post_init__(self)
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
"""Settings of releases, with blocks of 32; the caches are approximate."""


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1."""
    return unmasking.deviation_text({DEVIATION: config.cache != "exact"}, config.size > 1)


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Reveal tokens until the text ends."""
    row = BlockSequence(task, config.size, part=config.part, carry=config.reuse_store_pass)
    requester = row if config.cache == "exact" else ApproximateCache(row, config.cache, config.refresh)
    iteration, block, num_steps = 0, row.block, 0
    while not row.ended:
        position = row.open
        probs = as_probs((yield requester.request_open_positions(read=position)))  # [m, V]
        token, confidence = sample_open_positions(probs, position, iteration, rng, config.mode)
        ruled, passed = _choose(confidence, to_device(position, probs.device), config, num_steps)
        chosen = ruled | to_device(row.carried(position), probs.device) if task.shift else ruled
        decided = token, partial(unmasking.fates, chosen, ruled & ~passed), chosen
        answer = yield row.decision(position, decided, probs, confidence, open=len(position))
        row.write(position, as_ints(answer))
        row.move_on()
        iteration, num_steps = iteration + 1, num_steps + 1 if row.block == block else 0
        block = row.block
    return row.tokens[row.prompt_length :]


def _choose(confidence: Tensor, position: Tensor, config: Config, num_steps: int) -> tuple[Tensor, Tensor]:
    """Return the positions to reveal [m], and those that the rule accepts.

    If none, the most confident one is revealed.
    """
    if config.rule in unmasking.RULES:
        passed = unmasking.RULES[config.rule](confidence, position, config.threshold)
        return unmasking.at_least_one(passed, confidence), passed
    min_count = unmasking.schedule(config.size, config.steps, num_steps)
    chosen = unmasking.dynamic(confidence, config.threshold if config.rule == "dynamic" else 2.0, min_count)
    return chosen, chosen
