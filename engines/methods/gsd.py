"""GSD: grouped speculative decoding (So et al., 2025), the lossy baseline of the SCD paper (Table 1, C).

A draft X is verified together with its group C of interchangeable tokens; docs/methods/gsd.md.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from draftscope.engines.ar.jacobi_window import InitialDrafter, InitialDraftSetting, WindowSize, empty_window
from draftscope.engines.protocol import Decoder, Task, as_probs
from draftscope.engines.sampling.coupling import CouplingResult, sample_residual
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Settings of GSD."""

    window: WindowSize = 32
    group: Annotated[
        int,
        SettingInfo("Group reach G", "Neighbours in rank, either side, in the group of the draft. 0 is SJD.", 0, 50, 1),
    ] = 3
    max_prob_difference: Annotated[
        float,
        SettingInfo(
            "Probability reach", "The most that probabilities in a group may differ from the draft's.", 0.0, 1.0, 0.05
        ),
    ] = 0.15
    max_embedding_distance: Annotated[
        float,
        SettingInfo(
            "Embedding reach", "The largest embedding distance in a group, over the mean squared one.", 0.0, 4.0, 0.05
        ),
    ] = 0.5
    at_ranking_ends: Annotated[
        Literal["cut", "clamp"],
        SettingInfo(
            "Ends of the ranking", "Fewer than G neighbours: cut the group, or clamp to the last one (released)."
        ),
    ] = "cut"
    initial_drafts: InitialDraftSetting = "random"


PRESETS: Final[dict[str, dict[str, object]]] = {
    "Lumina-mGPT, G = 3": {"top_k": 2000, "guidance": 3.0, "window": 32, "group": 3},
    "Lumina-mGPT, G = 10": {"top_k": 2000, "guidance": 3.0, "window": 32, "group": 10},
}
"""The two rows of the SCD paper's Table 1, with the sampling of its App. F.1."""


def deviation(config: Config) -> str:
    """GSD changes the output distribution whenever groups can have more than one member."""
    if config.group == 0 or config.window == 1:
        return ""
    return (
        "Lossy by design: verification treats similar tokens as interchangeable. The paper reports worse pictures for "
        "it, by FID and Inception score (SCD, Table 1)."
    )


def decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    """Decode by speculative Jacobi iterations whose verdicts are on groups of interchangeable tokens.

    Raises:
        ConfigError: For the same noise, with which groups have no meaning.
    """
    if config.same_noise:
        raise ConfigError("same_noise: True is not possible, groups keep other tokens than the noise picks; use False.")
    done, positions = (
        torch.empty(0, dtype=torch.long, device=task.device),
        torch.arange(task.length, device=task.device),
    )
    window = empty_window(task)
    drafter = InitialDrafter(task, config.window - 1, config.initial_drafts, rng)
    iteration, ended = 0, False
    while (n := done.shape[0]) < task.length and not ended:
        window = drafter.fill(window, done, iteration)
        x, q, W = window.x, window.q, len(window)
        position = positions[n : n + W + 1]  # [E]: W drafts, and the one after them unless the canvas ends there
        E = position.shape[0]
        probs = as_probs((yield window.make_request(done)))[:E]
        p, drafts, slot = probs[:W], position[:W], positions[:E]

        # Verify by groups: r is the first rejection.
        group_p, group_q, group_size = group_probs(x, q, p, config, task.embedding)
        accept_prob = (group_p / group_q).clamp(max=1.0)
        accepted, uniform = rng.accept(accept_prob, DrawKey("verify", iteration, drafts), until_rejection=True)
        verdict = CouplingResult(accepted, accept_prob, uniform)
        r = verdict.rejection
        rejected = slot[:W] == r
        after = pad(sample_residual(x, q, p, rng, DrawKey("residual", iteration, drafts), rejected), (0, E - W))

        # Draft again to the right, and sample the position after the window: a bonus, or the next draft.
        free = (slot > r) | (slot == W)
        after = torch.where(free, rng.categorical(probs, DrawKey("sample", iteration, position), where=free), after)

        numbers = {"group_p": group_p, "group_q": group_q, "group_size": group_size}
        gained, ended = yield from window.record_iteration(task, position, after, p, verdict, numbers)
        done = torch.cat([done, after[:gained]])
        window = window.advance(after, probs, gained)
        iteration += 1
    return done


def group_probs(
    x: Int[Tensor, " W"],
    q: Float[Tensor, "W V"],
    p: Float[Tensor, "W V"],
    config: Config,
    embedding: Float[Tensor, "V D"] | None,
) -> tuple[Float[Tensor, " W"], Float[Tensor, " W"], Int[Tensor, " W"]]:
    """Return the probabilities of the group C of every draft, which are its interchangeable tokens.

    Args:
        x: Drafts.
        q: Distributions from which they were sampled.
        p: Distributions of the target.
        config: Settings: how far members may be apart in rank, in probability and, with an embedding, in distance.
        embedding: Vectors of the codes; None to ignore distances.

    Returns:
        The sums of p and of q over C, and the size of C.
    """
    V = p.shape[-1]
    order = p.argsort(dim=-1, stable=True)
    rank = order.argsort(dim=-1).gather(1, x[:, None])  # [W, 1]
    reach = rank + torch.arange(-config.group, config.group + 1, device=p.device)  # [W, 2G + 1]
    ids = order.gather(1, reach.clamp(0, V - 1))
    member = (p.gather(1, ids) - p.gather(1, x[:, None])).abs() < config.max_prob_difference
    if embedding is not None:
        # Mean squared distance of two different codes, from the moments of the codebook.
        spread = 2 * (embedding.square().sum(-1).mean() - embedding.mean(0).square().sum()) * V / (V - 1)
        member &= (embedding[ids] - embedding[x][:, None]).square().sum(-1) < config.max_embedding_distance * spread
    if config.at_ranking_ends == "cut":
        member &= (reach >= 0) & (reach < V)
    member |= reach == rank  # the draft itself, where no token is alike enough
    return (member * p.gather(1, ids)).sum(-1), (member * q.gather(1, ids)).sum(-1), member.sum(-1)
