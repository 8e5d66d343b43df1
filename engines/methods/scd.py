"""SCD: speculative Jacobi decoding with coupled drafts (So et al., arXiv 2510.24211).

Symbols follow the paper. At iteration t the window holds drafts X_j^t ~ p_j^t (here `x` and `q`), and one forward
pass gives the new distributions p_j^{t+1} (`p`) of all of them. MRS (Alg. 3) turns X_j^t into a draw from p_j^{t+1}
that equals X_j^t as often as any coupling allows. Left of the first refusal the drafts are final; the refused one is
replaced by its residual draw; what lies to the right is redrafted for the next iteration (Alg. 2):

    coupling "none"     an independent draw from p               speculative Jacobi decoding, SJD (arXiv 2410.01699)
    coupling "maximal"  the MRS output, already at hand          MC-SJD, pi_MC, Thm. 2
    coupling "gumbel"   argmax(log p + G_j), G_j fixed for j     GS-SJD, pi_GS, Alg. 4, Thm. 3

Drafts enter the next iteration with the distribution they were drawn from, which is the new p in all three cases. The
output distribution is exactly that of ordinary decoding; why, and where papers and releases differ, is in
docs/methods/scd.md.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from engines.ar.jacobi_window import Guesser, Initial, Window, empty_window
from engines.ar.request import Forward
from engines.config import Knob
from engines.protocol import FATE_CODES, NO_ENTRY, Decision, Decoder, Task, ask_numbers, ask_probs
from engines.sampling.chance import Chance, Draw
from engines.sampling.coupling import first_rejection, residual, toss
from engines.sampling.distributions import GuidedSampling
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Settings of SCD."""

    coupling: Annotated[
        Literal["maximal", "gumbel", "none"],
        Knob("Coupling", "How a new draft is tied to the old one. none is plain speculative Jacobi decoding (SJD)."),
    ] = "maximal"
    window: Annotated[
        int,
        Knob(
            "Window L",
            "Tokens fed per forward pass: the last final one and L - 1 drafts. 1 is ordinary decoding.",
            1,
            256,
            1,
        ),
    ] = 32
    alpha: Annotated[
        float,
        Knob(
            "Coupling strength",
            "Share alpha of redrafts that are coupled; the rest are independent. Maximal: the paper's linear mixture "
            "(Eq. 4). Gumbel: two iterations agree through the noise only if both are coupled: alpha enters squared.",
            0.0,
            1.0,
            0.05,
            {"coupling": ("maximal", "gumbel")},
        ),
    ] = 1.0
    initial: Annotated[
        Initial,
        Knob(
            "Initial drafts", "Guess for a position that enters the window: uniform, or taken from its left neighbour."
        ),
    ] = "random"
    stale: Annotated[
        bool,
        Knob(
            "Keep the old distribution (biased)",
            "Reproduces the image code released with the paper: a draft that survives keeps the distribution it was "
            "first drawn "
            "from. Not lossless.",
        ),
    ] = False


def deviation(config: Config) -> str:
    """What keeps these settings from being lossless."""
    if config.stale and config.coupling == "maximal" and config.window > 3:
        return (
            "Biased: drafts that survive keep their old distribution, as in the released image code. The output "
            "distribution is not the "
            "model's; docs/methods/scd.md has the measured deviation."
        )
    return ""


def decode(task: Task, config: Config, chance: Chance) -> Decoder:
    """Decode with drafts that are judged and redrawn in one pass per iteration."""
    done = torch.empty(0, dtype=torch.long, device=task.device)
    window = empty_window(task)
    guesser = Guesser(task, config.window - 1, config.initial, chance)
    iteration = 0
    while len(done) < task.length:
        window = guesser.fill(window, done, iteration)
        n, W = len(done), len(window)
        probs = ask_probs((yield Forward(torch.cat([done, window.x]), done=n, cached=max(n - 1, 0))))  # [W + 1, V]
        x, q, p = window.x, window.q, probs[:W]
        position = torch.arange(n, n + W + 1, device=task.device)
        inside = int(n + W < task.length)  # whether the position behind the drafts exists

        # Verify (Alg. 2, line 10): r is the first rejection.
        maximal = config.coupling == "maximal"
        verdict = toss(x, q, p, chance, Draw("verify", iteration, position[:W]), until_rejection=not maximal)
        r = first_rejection(verdict.kept)
        slot = torch.arange(W, device=task.device)
        tied = _tie(slot > r, position[:W], config, chance, iteration)
        rejected = ~verdict.kept & (tied | (slot <= r)) if maximal else slot == r
        replacement = chance.categorical(residual(q, p), Draw("residual", iteration, position[:W]), where=rejected)
        y = torch.where(verdict.kept, x, replacement)

        # Redraft what lies to the right (Alg. 2, lines 4-5); under maximal coupling the MRS output is the draft.
        if config.coupling == "gumbel":
            y = torch.where(tied, chance.gumbel_argmax(p, position[:W], where=tied), y)
        if config.coupling == "none" or config.alpha < 1:
            free = (slot > r) & ~tied
            y = torch.where(free, chance.categorical(p, Draw("redraft", iteration, position[:W]), where=free), y)
        everything = r == W
        bonus = chance.categorical(probs[W:], Draw("sample", iteration, position[W:]), where=everything.expand(1))
        after = torch.cat([y, bonus])
        gain = torch.minimum(r + 1, torch.tensor(W + inside, device=task.device))

        answer = yield Decision(
            position,
            after,
            _fates(window, y, r, inside),
            readback=gain[None],
            draft=x,
            p=p,
            q=q,
            successive=True,
            accept_prob=verdict.accept_prob,
            coin=verdict.coin,
            numbers={"age": window.age, "initial": window.age == 0},
        )
        (gained,) = ask_numbers(answer)
        done = torch.cat([done, after[:gained]])
        q_next = torch.where(verdict.kept[:, None], q, p) if config.stale and maximal else p
        window = Window(y[gained:], q_next[gained:], window.age[gained:] + 1)
        iteration += 1
    return done


def _tie(right: Tensor, position: Tensor, config: Config, chance: Chance, iteration: int) -> Tensor:
    """Which positions `right` of the first rejection are redrafted by the coupling: all, none, or a share alpha."""
    if config.coupling == "none":
        return torch.zeros_like(right)
    if config.alpha == 1:
        return right
    bar = torch.where(right, config.alpha, 0.0).to(torch.float64)
    return chance.keep(bar, Draw("alpha", iteration, position))[0]


def _fates(window: Window, y: Tensor, r: Tensor, inside: int) -> Tensor:
    """Codes [W + 1]: accepted left of r, resampled at r, and what became of the drafts to the right."""
    slot = torch.arange(len(window), device=y.device)
    code = FATE_CODES
    pending = torch.where(y == window.x, code[Fate.KEPT], code[Fate.CHANGED])
    pending = torch.where(window.age == 0, code[Fate.DRAFTED], pending)
    fate = torch.where(slot < r, code[Fate.ACCEPTED], torch.where(slot == r, code[Fate.RESAMPLED], pending))
    bonus = torch.where((r == len(window)) & bool(inside), code[Fate.BONUS], NO_ENTRY)
    return torch.cat([fate, bonus[None]])
