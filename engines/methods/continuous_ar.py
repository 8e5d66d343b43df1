"""Ordinary autoregressive decoding of continuous tokens: one token per forward pass. The baseline of its family.

`parallel` tokens per pass is masked generation (MAR, arXiv 2406.11838): each is drawn given the tokens before the step,
none given the others of its step, so that the more there are the further they are from the model's distribution.
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from draftscope.engines.continuous.denoising import ContinuousSampling, ContinuousTask
from draftscope.engines.continuous.drafting import decode_without_drafts, whole_canvas
from draftscope.engines.protocol import Decoder
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ContinuousSampling):
    """Settings of ordinary decoding."""

    tokens_per_step: Annotated[
        int,
        SettingInfo(
            "Tokens per step",
            "Tokens drawn in one pass without seeing each other, by models that decode in any order. 1 is exact.",
            1,
            256,
            1,
        ),
    ] = 1


def deviation(config: Config) -> str:
    """Return what keeps these settings from being lossless."""
    return "" if config.tokens_per_step == 1 else "Lossy: the tokens of a step are drawn without seeing each other."


def decode(task: ContinuousTask, config: Config, rng: RandomSource) -> Decoder:
    """Denoise every token given those before it: ordinary decoding of vectors.

    Raises:
        ConfigError: For several tokens per step of a causal model.
    """
    if config.tokens_per_step > 1 and not task.gaps:
        raise ConfigError(
            f"tokens_per_step: {config.tokens_per_step} tokens per step need a model that decodes in any order, such "
            "as patch-masked, and this one is causal; use 1."
        )
    done, iteration = (canvas := whole_canvas(task, config, rng)).final_tokens, 0
    while (n := len(done)) < task.length:
        block = canvas.at(slice(n, n + config.tokens_per_step), final_tokens=done, iteration=iteration)
        token = yield from decode_without_drafts(block, max(n - 1, 0))
        done, iteration = torch.cat([done, token]), iteration + 1
    return done
