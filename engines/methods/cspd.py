"""CSpD: continuous speculative decoding (arXiv 2411.11925).

A small model drafts gamma tokens x_i one after the other, each denoised along Y_q = x_T^q .. x_0^q; the target denoises
all of them in one pass along Y_p, with the same noise (alignment, Thm. 1), up to the distribution of the last step.
Symbols:

    p, q      distributions of x_0 given x_1, p_theta(x_0 | x_1^p) and q_theta(x_0 | x_1^q)
    Sigma     standard deviations of q's over p's path, last step excluded (Eq. 8)
    R         p(x) / q(x), times Sigma in the paper (Eq. 9); a coin below it keeps the draft (Alg. 1)
    n         drafts kept, up to the first rejection; the next token is redrawn by acceptance-rejection (Eq. 10-13), or,
              if all were kept, drawn from the target's own distribution

Without Sigma this is a maximal coupling of p and q, and since x_1^p follows the target's distribution whatever the
draft was, so does the token: mode "exact". By default it judges all steps of the path, and keeps many more drafts
(engines/continuous/block_verification.py). Why Sigma biases it, and what the release does, is in docs/methods/cspd.md.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from engines.config import ConfigError, Knob
from engines.continuous.block_verification import following, log_ratio
from engines.continuous.denoising import ContinuousSampling, ContinuousTask, noise_at
from engines.continuous.drafting import Block, compared, draft, tying
from engines.continuous.paths import Branch, Paths, Walks
from engines.continuous.rejection import Judge, Ratio, Replaced, replace
from engines.continuous.request import PathForward, ask_paths
from engines.protocol import FATE_CODES, NO_ENTRY, Decision, Decoder, ask_numbers
from engines.sampling.chance import Chance
from engines.sampling.coupling import first_rejection
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ContinuousSampling):
    """Settings of CSpD."""

    mode: Annotated[
        Ratio,
        Knob(
            "Ratio",
            "exact: densities of the last step, lossless. paper: times Sigma (Eq. 9). release: as the released code "
            "judges, block by block, with no rollback. distance-only: standardised distances alone.",
        ),
    ] = "exact"
    gamma: Annotated[
        int, Knob("Draft length", "Tokens drafted per verification; 0 is ordinary decoding.", 0, 64, 1)
    ] = 8
    prefill: Annotated[
        float, Knob("Pre-fill", "Share of the tokens that the target draws alone before speculation.", 0.0, 1.0, 0.05)
    ] = 0.05
    align: Annotated[
        bool, Knob("Align trajectories", "Draft and target denoise with the same noise. Only acceptance depends on it.")
    ] = True
    whole: Annotated[
        bool,
        Knob(
            "Whole path",
            "Judge all denoising steps as one (block verification): exact, and most drafts pass. Aligned "
            "or not makes no difference then.",
            when={"mode": ("exact",)},
        ),
    ] = True
    tied: Annotated[
        int,
        Knob(
            "Tied steps",
            "Denoising steps before the last one that are coupled to the draft's too, each by a verdict of its own. "
            "Exact, and more drafts pass. 0 judges the last step alone.",
            0,
            250,
            1,
            {"mode": ("exact",), "whole": (False,)},
        ),
    ] = 5
    tries: Annotated[
        int,
        Knob("Tries", "Proposals for a refused token's replacement before a plain draw stands in.", 1, 100_000, 1),
    ] = 10_000
    drafter: Annotated[Literal["small", "itself"], Knob("Drafter", "The small model, or the target itself.")] = "small"

    def __post_init__(self) -> None:
        if self.gamma and self.sampler == "ddim" and self.eta == 0:
            raise ConfigError("eta: 0 leaves no density to judge drafts by; raise it, use sampler=ddpm or gamma=0.")


def deviation(config: Config) -> str:
    """What keeps these settings from being lossless."""
    if config.gamma == 0:
        return ""
    return {
        "exact": "",
        "paper": "Biased where head variances differ: the ratio carries Sigma, as printed (Eq. 9, 13).",
        "release": "Lossy: softened distances, inverted Sigma, no rollback, drafts judged apart, as in the release.",
        "distance-only": "Lossy: the ratio leaves out the normalisers of both densities.",
    }[config.mode]


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Decode with drafts of a small model.

    Raises:
        ConfigError: for a mode that the model's head does not have.
    """
    if task.mixture and config.mode in ("release", "distance-only") and config.gamma:
        raise ConfigError(
            f"mode: {config.mode!r} judges by one Gaussian's distances; this model mixes several, use exact."
        )
    return _decode(task, config, chance)


def _decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    done = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    release, exact = config.mode == "release", config.mode == "exact"
    whole, tied = exact and config.whole and not task.mixture, config.tied if exact else 0
    prefilled = round(config.prefill * task.length)
    settled = fed = iteration = 0
    while (n := len(done)) < task.length:
        W = 0 if n < prefilled else min(config.gamma, task.length - n - (not release))
        position = torch.arange(n, n + W + (W == 0 or not release), device=task.device)
        noise = noise_at(position, task, config.steps, chance)
        block = Block(done, W, position, noise, config.guidance_at(position, task.length), iteration)
        x, drawn = yield from draft(block, min(settled, fed), mean=release)  # the release leaves the last noise out
        own = noise if config.align or not W else noise_at(position, task, config.steps, chance, " of the target")
        asked = PathForward(
            torch.cat([done, x]),
            done=n,
            cached=settled,
            noise=own.path,
            guidance=block.guidance[-1:].expand_as(position) if release else block.guidance,  # the last draft's for all
            mode="verify" if W else "causal",
            unseen=W if release and task.gaps else 0,
            steer=tying(block, drawn, config.tries, chance) if tied and drawn and not whole else None,
            steered=tied,
            follow=following(block, drawn, x, config.tries, chance) if whole and drawn else None,
        )
        paths = ask_paths((yield asked))
        y = own.draw(paths.last)  # what the target alone would draw
        if paths.led:
            y = torch.cat([x, y[W:]]).index_copy(0, paths.led.branch.row, paths.led.token)
        if drawn is None:
            yield block.placed(y, Fate.PREFILLED if n < prefilled else Fate.SAMPLED, paths.last)
            done, settled = torch.cat([done, y]), n
        else:
            after, decision = _verify(block, x, (drawn, paths), y, (config, chance))
            (gain,) = ask_numbers((yield decision))
            done, fed = torch.cat([done, after[:gain]]), n + W - 1
            settled = n if release else n + gain - 1  # the release puts other tokens amid those it keeps
        iteration += 1
    return done


def _verify(
    block: Block, x: Tensor, both: tuple[Paths, Paths], y: Tensor, how: tuple[Config, Chance]
) -> tuple[Tensor, Decision]:
    """Alg. 1 from Sigma on: tokens for the block's positions; the readback says how many of them are final."""
    (drawn, paths), (config, chance), W = both, how, block.W
    judge = Judge(config.mode, paths.last[:W], drawn.last, drawn.log_std - paths.log_std[:W])
    ratio = judge.verdict(x) if paths.led is None else log_ratio(drawn, paths, x)
    bar = ratio.clamp(max=0.0).exp()
    release = config.mode == "release"
    kept, coin = chance.keep(bar, block.draw("verify"), until_rejection=not release)
    slot, r = torch.arange(W, device=x.device), first_rejection(kept)
    rejected = ~kept if release else slot == r
    new: Replaced | Branch
    if paths.led is None:
        new = replace(judge, rejected, config.tries, chance, block.draw("residual"))
        after = torch.cat([torch.where(rejected[:, None], new.token, x), y[W:]])
    else:
        new, after = paths.led.branch, y
    numbers = {
        **compared(judge, x, y[:W], both),
        "log_ratio": ratio,
        "guidance": block.guidance[:W],
        "tries": torch.where(rejected, new.tries, torch.nan),
        "capped": torch.where(rejected, new.capped.to(x.dtype), torch.nan),
    }
    code = {fate: FATE_CODES[fate] for fate in Fate}
    fate = torch.where(rejected, code[Fate.RESAMPLED], code[Fate.ACCEPTED])
    gain = torch.full_like(r, W)
    if not release:
        fate = torch.where(slot > r, code[Fate.DISCARDED], fate)
        fate = torch.cat([fate, torch.where(r == W, code[Fate.BONUS], NO_ENTRY)[None]])
        gain = r + 1
    return after, Decision(
        block.position,
        after,
        fate,
        gain[None],
        draft=x,
        accept_prob=bar,
        coin=coin,
        numbers=numbers,
        walks=Walks(drawn, paths, x, y[:W]),
    )
