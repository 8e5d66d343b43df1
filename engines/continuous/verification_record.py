"""Record of a verified block: the outcome of its drafts, and the two paths of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from draftscope.engines.continuous.drafting import Block
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import PathContinuation, Paths, projection_plane
from draftscope.engines.continuous.rejection import DensityRatio, Ratio, Replacements
from draftscope.engines.protocol import Decision
from draftscope.engines.sampling.coupling import CouplingResult
from draftscope.engines.sampling.verification import fates_with_bonus


@dataclass(frozen=True, slots=True)
class VerifiedBlock:
    """Drafts of a block, with the target's results at the same positions."""

    block: Block
    x: Float[Tensor, "W D"]
    drawn: Paths
    """Their paths Y_q."""
    y: Float[Tensor, "W D"]
    paths: Paths
    """The target's paths Y_p; the first W rows speak of the drafts."""

    def ratio(self, variant: Ratio) -> DensityRatio:
        """The ratio of the last step's densities."""
        p, q = self.paths.last[: self.block.W], self.drawn.last
        # A mixture has several standard deviations a step, and no Sigma.
        sigma = (
            self.drawn.log_std - self.paths.log_std[: self.block.W] if _plain(p, q) else torch.zeros_like(self.x[:, 0])
        )
        return DensityRatio(variant, p, q, sigma)

    def decision(
        self,
        token: Tensor,
        verdict: CouplingResult,
        numbers: Callable[[], Mapping[str, Tensor]],
        readback: Tensor,
        fate: Tensor | None = None,
    ) -> Decision:
        """Return the decision on the block, by default up to the first rejection.

        Args:
            token: Token of each position after the pass.
            verdict: Verdicts on the drafts.
            numbers: Makes what the method adds to the measures of the last step, for the record alone.
            readback: Which of the tokens the method reads on the host.
            fate: Codes of the outcomes, if others are discarded than those after the first rejection.
        """
        return Decision(
            self.block.position,
            token,
            readback=readback,
            draft=self.x,
            accept_prob=verdict.accept_prob,
            uniform=verdict.uniform,
            deferred_fields=lambda: {
                "fate": fates_with_bonus(verdict.rejection, self.block.W) if fate is None else fate,
                "measures": {**self._measures(), **self._on_the_line(token[: self.block.W]), **numbers()},
                "denoising_paths": self.walks(),
            },
        )

    def walks(self) -> Float[Tensor, "W S C"]:
        """Return the paths for `Decision.denoising_paths`; a GMM head has no path, so that S is 0."""
        draft, target = self.drawn.states, self.paths.states[: len(self.x)]
        if not draft.shape[1]:
            return draft.new_zeros(len(draft), 0, 5)
        draft, target = torch.cat([draft, self.x[:, None]], 1), torch.cat([target, self.y[:, None]], 1)
        onto = projection_plane(draft)
        seen = [draft @ onto, target @ onto, (draft - target).square().sum(-1, keepdim=True)]
        if self.paths.continuation is not None:
            after = draft[:, 1:].transpose(0, 1)
            ratio = self.paths.distributions.log_density(after) - self.drawn.distributions.log_density(after)
            seen.append(F.pad(ratio.T, (1, 0))[..., None])
        return torch.cat(seen, -1)

    def _measures(self) -> dict[str, Tensor]:
        ratio = self.ratio("exact")
        numbers = {
            "log_density_target": ratio.p.log_density(self.x),
            "log_density_draft": ratio.q.log_density(self.x),
            "distance_squared": (self.x - self.y).square().sum(-1),
            "last_std": ratio.p.std.mean((-1, -2)),
            "guidance": self.block.guidance[: self.block.W],
        }
        if _plain(ratio.p, ratio.q):
            numbers["log_variance_ratio"] = ratio.log_sigma
        # A mixture has several means, and no one distance from them.
        for name, each in (("noise_norm", ratio.q), ("noise_norm_target", ratio.p)):
            if _plain(each):
                numbers[name] = each.noise(self.x)[:, 0].norm(dim=-1)
        if self.drawn.states.shape[1]:
            before = self.drawn.states[:, -1] - self.paths.states[: len(self.x), -1]
            numbers["distance_squared_before"] = before.square().sum(-1)
        return numbers

    def _on_the_line(self, token: Float[Tensor, "W D"]) -> dict[str, Tensor]:
        """Return the projections of draft and token onto the line between the means of the last steps.

        Mixtures have several means, and no such line.
        """
        p, q = self.paths.last[: self.block.W], self.drawn.last
        if not _plain(p, q):
            return {}
        start, line = q.mean[:, 0], p.mean[:, 0] - q.mean[:, 0]
        length = line.norm(dim=-1)
        along = line / length.clamp(min=torch.finfo(line.dtype).tiny)[:, None]
        return {
            "last_std_draft": q.std.mean((-1, -2)),
            "last_mean_distance": length,
            "last_place": ((self.x - start) * along).sum(-1),
            "last_place_token": ((token - start) * along).sum(-1),
        }


def _plain(*distributions: Gaussians) -> bool:
    """Whether none of them mixes several Gaussians."""
    return all(each.mean.shape[-2] == 1 for each in distributions)


def search_measures(
    rejected: Bool[Tensor, " W"], new: Replacements | PathContinuation, decided: Callable[[], Mapping[str, Tensor]]
) -> Mapping[str, Tensor]:
    """Return the measures of a verification, and of the search for replacements: NaN where nothing was rejected.

    Args:
        rejected: Rejected drafts.
        new: Replacements, with the number of proposals.
        decided: Makes the measures of the verification.
    """
    return {
        **decided(),
        "tries": torch.where(rejected, new.tries, torch.nan),
        "capped": torch.where(rejected, new.capped.double(), torch.nan),
    }
