"""SCD: speculative Jacobi decoding with coupled drafts (So et al., arXiv 2510.24211); docs/methods/scd.md.

At iteration t the window holds drafts X_j^t ~ p_j^t (here `x` and `q`), and one pass gives the distributions p_j^{t+1}
(`p`) of all of them. Left of the first rejection by MRS (Alg. 3) drafts are final; the others are drafted again (Alg.
2):

    coupling "none"     an independent sample from p             speculative Jacobi decoding, SJD (arXiv 2410.01699)
    coupling "maximal"  the MRS output, already computed         MC-SJD, pi_MC, Thm. 2
    coupling "gumbel"   argmax(log p + G_j), G_j fixed for j     GS-SJD, pi_GS, Alg. 4, Thm. 3

With `same_noise` all three are the last one, and a draft is accepted if p picks it again (docs/methods/ar.md).
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftscope.engines.ar.jacobi_window import InitialDrafter, InitialDraftSetting, WindowSize, empty_window
from draftscope.engines.protocol import Decoder, Task, as_probs
from draftscope.engines.sampling.coupling import sample_residual, verify_drafts
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import SettingInfo

_COUPLED: Final = {"coupling": ("maximal", "gumbel")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Settings of SCD."""

    coupling: Annotated[
        Literal["maximal", "gumbel", "none"],
        SettingInfo(
            "Coupling",
            "How a redrawn draft is tied to the old one. maximal: it changes as rarely as possible. gumbel: positions "
            "keep their noise. none: plain speculative Jacobi decoding (SJD).",
        ),
    ] = "maximal"
    window: WindowSize = 32
    alpha: Annotated[
        float,
        SettingInfo(
            "Coupling strength", "Share of the redrawn drafts that are coupled (alpha).", 0.0, 1.0, 0.05, _COUPLED
        ),
    ] = 1.0
    initial_drafts: InitialDraftSetting = "random"
    reuse_old_probs: Annotated[
        bool,
        SettingInfo(
            "Keep the old distribution (biased)", "A surviving draft keeps its first distribution, as released."
        ),
    ] = False


PRESETS: Final[dict[str, dict[str, object]]] = {
    "Lumina-mGPT": {"top_k": 2000, "guidance": 3.0, "window": 64},
    "Janus-Pro": {"top_k": 1000, "guidance": 5.0, "window": 32},
    "Cosmos": {"top_p": 0.8, "window": 128},
}
"""Sampling settings of the paper's models (App. F), and the fastest window in its tables (1, 3 and 2)."""


def deviation(config: Config) -> str:
    """Return what keeps these settings from being lossless."""
    # With one draft, none waits to the right of a rejection. With two, one does, whatever the initial drafts are: it
    # came from the model, after the window.
    if config.reuse_old_probs and config.coupling == "maximal" and config.alpha > 0 and config.window > 2:
        return (
            "Biased: surviving drafts are verified against the distribution they were first sampled from, as in the "
            "released image code. The output is not exactly the model's; docs/methods/scd.md measures the difference."
        )
    return ""


def decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    """Decode with drafts that are verified and sampled again in one pass per iteration."""
    rng.same_noise = config.same_noise  # then every coupling is the Gumbel one
    done, positions = (
        torch.empty(0, dtype=torch.long, device=task.device),
        torch.arange(task.length, device=task.device),
    )
    window = empty_window(task)
    drafter = InitialDrafter(task, config.window - 1, config.initial_drafts, rng)
    maximal = config.coupling == "maximal"
    iteration, ended = 0, False
    while (n := done.shape[0]) < task.length and not ended:
        # Initial drafts, and one pass for the distributions of all drafts and the next position (lines 1, 2, 7, 8).
        window = drafter.fill(window, done, iteration)
        x, q, W = window.x, window.q, len(window)
        position = positions[n : n + W + 1]  # [E]: W drafts, and the one after them unless the canvas ends there
        E = position.shape[0]
        probs = as_probs((yield window.make_request(done)))
        p, drafts, probs = probs[:W], position[:W], probs[:E] if E == W else probs

        # Verify (Alg. 2, line 10): r is the first rejection.
        verdict = verify_drafts(x, q, p, rng, DrawKey("verify", iteration, drafts), until_rejection=not maximal)
        accepted, residual = verdict.accepted, DrawKey("residual", iteration, drafts)

        # Redraft what lies to the right (lines 4, 5); under maximal coupling the MRS output is the draft. What is
        # after the window is sampled from the model, too: a bonus, or a draft for the next iteration.
        if maximal and config.alpha == 1:
            after = sample_residual(x, q, p, rng, residual, ~accepted)
            if E > W:
                after = torch.cat([after, rng.categorical(probs[W:], DrawKey("sample", iteration, position[W:]))])
        else:
            slot, r = positions[:E], verdict.rejection
            loose = _loose(slot, r, position, config, rng, iteration)
            redrawn = ~(accepted | loose[:W]) if maximal else slot[:W] == r
            after, free = pad(sample_residual(x, q, p, rng, residual, redrawn), (0, E - W)), slot == W
            if config.coupling == "gumbel":
                tied = (slot > r) & ~loose
                after = torch.where(tied, rng.gumbel_argmax(probs, position, where=tied), after)
                free = free & (slot == r)
            free = free | loose
            after = torch.where(free, rng.categorical(probs, DrawKey("sample", iteration, position), where=free), after)

        gained, ended = yield from window.record_iteration(task, position, after, p, verdict)
        done = torch.cat([done, after[:gained]])
        if maximal and config.reuse_old_probs:  # as released: kept drafts keep the distribution they had
            stays = accepted if config.alpha == 1 else accepted & ~loose[:W]
            probs = torch.cat([torch.where(stays[:, None], q, p), probs[W:]])
        window = window.advance(after, probs, gained)
        iteration += 1
    return done


def _loose(slot: Tensor, r: Tensor, position: Tensor, config: Config, rng: RandomSource, iteration: int) -> Tensor:
    """Which positions right of the first rejection are not redrafted by the coupling."""
    if config.coupling == "none":
        return slot > r
    if config.alpha == 1:
        return slot < 0
    prob = torch.where(slot > r, config.alpha, 0.0).to(torch.float64)
    return (slot > r) & ~rng.accept(prob, DrawKey("alpha", iteration, position))[0]
