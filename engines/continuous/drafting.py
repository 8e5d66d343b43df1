"""Drafting continuous tokens: what methods with a small model share, up to the verification of a block."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.continuous.denoising import ContinuousSampling, ContinuousTask, Noise, position_noise
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import (
    PathRequest,
    Paths,
    PathVerification,
    as_paths,
    join,
    resampled_path,
    whole_paths,
)
from draftscope.engines.protocol import FATE_CODES, Decision, SubDecoder
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.traces.schema import Fate

RELIABLE_TRIES: Final = 10_000
"""From this number of tries, the bias of using a plain sample is below 1 in 10,000: docs/methods/cspd-block.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedSampling(ContinuousSampling):
    """The settings of every method that drafts; the base of their Configs."""

    gamma: Annotated[
        int, SettingInfo("Draft length", "Drafts (gamma) before a verification. 0 is ordinary decoding.", 0, 64, 1)
    ] = 8
    prefill_share: Annotated[
        float,
        SettingInfo("Pre-fill", "Share of the tokens that the target decodes alone at the start.", 0.0, 1.0, 0.05),
    ] = 0.05
    max_tries: Annotated[
        int,
        SettingInfo(
            "Tries", "Proposals for the replacement of a rejected draft before a plain sample is used.", 1, 100_000, 1
        ),
    ] = RELIABLE_TRIES
    drafter: Annotated[
        Literal["small", "itself", "mixture"],
        SettingInfo(
            "Drafter", "small: a smaller model. itself: the target, to compare. mixture: a small model of Gaussians."
        ),
    ] = "small"

    def __post_init__(self) -> None:
        if self.gamma and self.sampler == "ddim" and self.eta == 0:
            raise ConfigError(
                "eta: with 0 denoising is deterministic, so drafts cannot be verified; raise it, use sampler=ddpm or "
                "gamma=0."
            )


def max_tries_deviation(config: DraftedSampling) -> str:
    """The deviation of settings under which the search for a replacement often ends without one."""
    if config.gamma == 0 or config.max_tries >= RELIABLE_TRIES:
        return ""
    return f"Biased: after {config.max_tries} tries a plain sample replaces a rejected draft."


@dataclass(frozen=True, slots=True)
class Block:
    """Positions n, n + 1 ... that are drafted and verified together."""

    final_tokens: Float[Tensor, "n D"]
    W: int
    """How many positions are drafted; the rest are the target's own."""
    position: Int[Tensor, " E"]
    noise: Noise
    guidance: Float[Tensor, " E"]
    iteration: int
    prefilled: bool = False
    """Whether the target decodes without drafts here because speculation has not started."""
    pick: Float[Tensor, " E"] | None = None
    """Uniform numbers by which a mixture chooses the Gaussians of its paths."""

    def at(self, index: slice, **changes: Any) -> "Block":
        """Some of the positions, with changes of other fields."""
        pick, noise = None if self.pick is None else self.pick[index], self.noise[index]
        position, guidance = self.position[index], self.guidance[index]
        return replace(self, position=position, noise=noise, guidance=guidance, pick=pick, **changes)

    def draw_key(self, purpose: str) -> DrawKey:
        """The name of a draw at the drafted positions."""
        return DrawKey(purpose, self.iteration, self.position[: self.W])

    def record_samples(self, token: Float[Tensor, "E D"], fate: Fate, distribution: Gaussians) -> Decision:
        """Return the record of tokens that were drawn from their own distributions.

        Args:
            token: One token for each position of the block.
            fate: Outcome of all of them.
            distribution: Distributions that they were drawn from.
        """

        def details() -> dict[str, Any]:
            numbers = {"last_std": distribution.std.mean((-1, -2)), "noise_norm": self.noise.last.norm(dim=-1)}
            fates = torch.full_like(self.position, FATE_CODES[fate])
            return {"fate": fates, "measures": numbers | {"guidance": self.guidance}}

        return Decision(self.position, token, readback=self.position[:0], deferred_fields=details)


def check_steps(task: ContinuousTask, config: DraftedSampling) -> None:
    """Raise ConfigError if drafts would be verified by denoising steps of a model that mixes Gaussians in one step.

    Args:
        task: Task of the target.
        config: Settings; without drafts every model passes.
    """
    if task.mixture and config.gamma:
        raise ConfigError(
            f"gamma: {config.gamma} drafts are verified by denoising steps, each of them one Gaussian, and this model "
            "samples from several in one step; use method cspd, or gamma=0."
        )


def whole_canvas(task: ContinuousTask, config: ContinuousSampling, rng: RandomSource) -> Block:
    """Return all positions of a canvas as a block, none of them final.

    Args:
        task: Task of the canvas.
        config: Settings; guidance and steps give each position its scale and noise.
        rng: Random source.
    """
    position = torch.arange(task.length, device=task.device)
    noise, mixes = position_noise(position, task, config.steps, rng), getattr(config, "drafter", "") == "mixture"
    pick = rng.uniform(DrawKey("pick of the path", 0, position), 1)[:, 0] if mixes else None
    none = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    return Block(none, 0, position, noise, config.guidance_at(position, task), 0, pick=pick)


def next_block(canvas: Block, config: DraftedSampling, done: Tensor, iteration: int, *, bonus: bool = True) -> Block:
    """Return the positions after the final tokens: up to gamma drafts and, with `bonus`, one of the target after them.

    Args:
        canvas: Result of `whole_canvas`.
        config: Settings; the first `prefill_share` of the canvas has no drafts.
        done: Final tokens.
        iteration: Number of the iteration, for the keys of the draws.
        bonus: Whether the target decodes the position after the drafts in the same pass.
    """
    n, length = len(done), len(canvas.position)
    prefilled = n < round(config.prefill_share * length)
    W = 0 if prefilled else min(config.gamma, length - n - bonus)
    index = slice(n, n + max(W + bonus, 1))
    return canvas.at(index, final_tokens=done, W=W, iteration=iteration, prefilled=prefilled)


def decode_without_drafts(block: Block, cached: int) -> SubDecoder[Tensor]:
    """Let the target draw the tokens of a block in one forward pass, without drafts; they do not attend to each other.

    Args:
        block: Positions to decode.
        cached: Tokens in the KV cache: `PathRequest.num_cached`.
    """
    unseen = len(block.position) - 1
    tokens = F.pad(block.final_tokens, (0, 0, 0, unseen)) if unseen else block.final_tokens
    request = PathRequest(
        tokens, len(block.final_tokens), cached, block.noise.path, block.guidance, num_visible_missing=unseen
    )
    distribution = as_paths((yield request)).last
    token = block.noise.draw(distribution)
    yield block.record_samples(token, Fate.PREFILLED if block.prefilled else Fate.SAMPLED, distribution)
    return token


def bonus_path(block: Block) -> PathVerification:
    """Return the target's path at the position after the drafts, with the noise of that position."""
    noise = torch.cat([block.noise.path[-1], block.noise.last[-1:]])[None]
    denoised = yield whole_paths(block.W, noise)
    return resampled_path(block.W, denoised.states, 0)


def draft(block: Block, cached: int, *, mean: bool = False) -> SubDecoder[tuple[Tensor, Paths]]:
    """Draft the block's tokens one by one, one forward pass each.

    Args:
        block: Positions to draft, the first W of it.
        cached: Tokens in the drafter's KV cache before the first pass.
        mean: Whether a token is the mean of its last step instead of a draw.

    Returns:
        Drafts [W, D], and the paths that they came by.
    """
    tokens, paths = block.final_tokens, []
    for i in range(block.W):
        one = block.at(slice(i, i + 1))
        request = PathRequest(
            tokens, len(tokens), cached, one.noise.path, one.guidance, role="draft", mode="draft", pick=one.pick
        )
        paths.append(as_paths((yield request)))
        distribution = paths[-1].last
        token = distribution.mean[:, 0] if mean else one.noise.draw(distribution)
        yield one.record_samples(token, Fate.DRAFTED, distribution)
        cached, tokens = len(tokens), torch.cat([tokens, token])
    return tokens[len(block.final_tokens) :], join(paths)
