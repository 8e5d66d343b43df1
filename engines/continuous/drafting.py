"""Drafting continuous tokens: what methods with a small model share, up to the verification of a block."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from engines.continuous.denoising import ContinuousSampling, ContinuousTask, Noise, noise_at
from engines.continuous.gaussians import Gaussians
from engines.continuous.path_request import PathForward, Paths, PathVerification, anew, ask_paths, join, whole_paths
from engines.protocol import FATE_CODES, Decision, Part
from engines.sampling.random_source import Chance, Draw
from engines.settings import ConfigError, Knob
from traces.schema import Fate

ENOUGH_TRIES: Final = 10_000
"""From here on the bias of a plain draw that stands in is below 1 in 10,000: docs/methods/cspd-block.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedSampling(ContinuousSampling):
    """The settings of every method that drafts; the base of their Configs."""

    gamma: Annotated[
        int, Knob("Draft length", "Drafts (gamma) before a verification. 0 is ordinary decoding.", 0, 64, 1)
    ] = 8
    prefill: Annotated[
        float, Knob("Pre-fill", "Share of the tokens that the target decodes alone at the start.", 0.0, 1.0, 0.05)
    ] = 0.05
    tries: Annotated[
        int, Knob("Tries", "Proposals for a rejected draft's replacement before a plain draw stands in.", 1, 100_000, 1)
    ] = ENOUGH_TRIES
    drafter: Annotated[
        Literal["small", "itself", "mixture"],
        Knob("Drafter", "small: a smaller model. itself: the target, to compare. mixture: a small model of Gaussians."),
    ] = "small"

    def __post_init__(self) -> None:
        if self.gamma and self.sampler == "ddim" and self.eta == 0:
            raise ConfigError(
                "eta: 0 leaves nothing to chance, so drafts cannot be judged; raise it, use sampler=ddpm or gamma=0."
            )


def few_tries(config: DraftedSampling) -> str:
    """The deviation of settings under which the search for a replacement often ends without one."""
    if config.gamma == 0 or config.tries >= ENOUGH_TRIES:
        return ""
    return f"Biased: after {config.tries} tries a plain draw stands in for the replacement of a rejected draft."


@dataclass(frozen=True, slots=True)
class Block:
    """Positions n, n + 1 ... that are drafted and verified together."""

    done: Float[Tensor, "n D"]
    W: int
    """How many positions are drafted; the rest are the target's own."""
    position: Int[Tensor, " E"]
    noise: Noise
    guidance: Float[Tensor, " E"]
    iteration: int
    prefilled: bool = False
    """Whether the target draws here alone because speculation has not begun."""
    pick: Float[Tensor, " E"] | None = None
    """Where a mixture drafts, by what it chooses the Gaussians of its paths."""

    def at(self, index: slice, **changes: Any) -> "Block":
        """Some of the positions, with changes of other fields."""
        pick, noise = None if self.pick is None else self.pick[index], self.noise[index]
        position, guidance = self.position[index], self.guidance[index]
        return replace(self, position=position, noise=noise, guidance=guidance, pick=pick, **changes)

    def draw(self, purpose: str) -> Draw:
        """The name of a draw at the drafted positions."""
        return Draw(purpose, self.iteration, self.position[: self.W])

    def placed(self, token: Float[Tensor, "E D"], fate: Fate, distribution: Gaussians) -> Decision:
        """Tokens drawn from their own distributions."""

        def details() -> dict[str, Any]:
            numbers = {"last_std": distribution.std.mean((-1, -2)), "noise_norm": self.noise.last.norm(dim=-1)}
            fates = torch.full_like(self.position, FATE_CODES[fate])
            return {"fate": fates, "numbers": numbers | {"guidance": self.guidance}}

        return Decision(self.position, token, readback=self.position[:0], details=details)


def check_steps(task: ContinuousTask, config: DraftedSampling) -> None:
    """Raise ConfigError for drafts judged by denoising steps of a model that mixes Gaussians in one step."""
    if task.mixture and config.gamma:
        raise ConfigError(
            f"gamma: {config.gamma} drafts are judged by denoising steps, each of them one bell curve, and this model "
            "draws from several in one step; use method cspd, or gamma=0."
        )


def whole_canvas(task: ContinuousTask, config: ContinuousSampling, chance: Chance) -> Block:
    """All positions, none of them final."""
    position = torch.arange(task.length, device=task.device)
    noise, mixes = noise_at(position, task, config.steps, chance), getattr(config, "drafter", "") == "mixture"
    pick = chance.uniform(Draw("pick of the path", 0, position), 1)[:, 0] if mixes else None
    none = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    return Block(none, 0, position, noise, config.guidance_at(position, task), 0, pick=pick)


def next_block(canvas: Block, config: DraftedSampling, done: Tensor, iteration: int, *, bonus: bool = True) -> Block:
    """The positions behind the final tokens: up to gamma drafts and, with `bonus`, one of the target's behind them."""
    n, length = len(done), len(canvas.position)
    prefilled = n < round(config.prefill * length)
    W = 0 if prefilled else min(config.gamma, length - n - bonus)
    own = slice(n, n + max(W + bonus, 1))
    return canvas.at(own, done=done, W=W, iteration=iteration, prefilled=prefilled)


def alone(block: Block, cached: int) -> Part[Tensor]:
    """Let the target draw the tokens of a block without drafts, in one forward pass; `cached`: see `PathForward`.

    Several do not see each other.
    """
    unseen = len(block.position) - 1
    tokens = F.pad(block.done, (0, 0, 0, unseen)) if unseen else block.done
    request = PathForward(tokens, len(block.done), cached, block.noise.path, block.guidance, unseen=unseen)
    distribution = ask_paths((yield request)).last
    token = block.noise.draw(distribution)
    yield block.placed(token, Fate.PREFILLED if block.prefilled else Fate.SAMPLED, distribution)
    return token


def own_path(block: Block) -> PathVerification:
    """The target's own path at the position behind the drafts, with the noise of that position."""
    noise = torch.cat([block.noise.path[-1], block.noise.last[-1:]])[None]
    denoised = yield whole_paths(block.W, noise)
    return anew(block.W, denoised.states, 0)


def draft(block: Block, cached: int, *, mean: bool = False) -> Part[tuple[Tensor, Paths]]:
    """Draft the block's tokens one by one, one forward pass each: drafts [W, D] and the paths they came by.

    `cached` is that of the first pass; with `mean` a token is the last step's mean instead of a draw.
    """
    tokens, paths = block.done, []
    for i in range(block.W):
        one = block.at(slice(i, i + 1))
        request = PathForward(
            tokens, len(tokens), cached, one.noise.path, one.guidance, role="draft", mode="draft", pick=one.pick
        )
        paths.append(ask_paths((yield request)))
        distribution = paths[-1].last
        token = distribution.mean[:, 0] if mean else one.noise.draw(distribution)
        yield one.placed(token, Fate.DRAFTED, distribution)
        cached, tokens = len(tokens), torch.cat([tokens, token])
    return tokens[len(block.done) :], join(paths)
