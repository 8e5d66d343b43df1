"""Window of drafts of Jacobi-style methods: how it is filled, verified and advanced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.ar.end_of_sequence import is_eos, keep_final_fates, truncate_at_eos
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.protocol import FATE_CODES, Decision, SubDecoder, Task
from draftscope.engines.sampling.coupling import CouplingResult
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate

InitialDraftKind: TypeAlias = Literal["random", "uniform", "repeat-left", "left-argmax"]
InitialDraftSetting = Annotated[
    InitialDraftKind,
    SettingInfo(
        "Initial drafts",
        "The first draft of a position. random: any token. uniform: the same, verified so that more pass. "
        "repeat-left: the token to its left. left-argmax: the likeliest token one position to the left.",
    ),
]
WindowSize = Annotated[
    int,
    SettingInfo(
        "Window L", "Tokens a pass is fed: the last final one and L - 1 drafts. 1 is ordinary decoding.", 1, 256, 1
    ),
]


@dataclass(frozen=True, slots=True)
class Window:
    """Drafts for the positions after the final tokens."""

    x: Int[Tensor, " W"]
    q: Float[Tensor, "W V"]
    """The distribution each draft was drawn from."""
    ages: tuple[int, ...]
    """Iterations that each has been in the window; 0 marks an initial draft."""
    last_final_probs: Float[Tensor, "n V"]
    """The distribution of the last final token, in one row; no row before there is one."""

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def age(self) -> Int[Tensor, " W"]:
        """Ages of the drafts."""
        return to_device(torch.tensor(self.ages, dtype=torch.long), self.x.device)

    def make_request(self, done: Int[Tensor, " n"]) -> ProbsRequest:
        """Request the distributions of all drafts and of the position after them."""
        n = done.shape[0]
        return ProbsRequest(torch.cat([done, self.x]), num_final=n, num_cached=max(n - 1, 0))

    def record_iteration(
        self,
        task: Task,
        position: Int[Tensor, " E"],
        after: Int[Tensor, " E"],
        p: Float[Tensor, "W V"],
        verdict: CouplingResult,
        numbers: Mapping[str, Tensor] | None = None,
    ) -> SubDecoder[tuple[int, bool]]:
        """Record the result of an iteration in columns [W].

        The host reads back which drafts were accepted, and for texts which tokens end it.

        Args:
            task: Task of the run.
            position: Positions of the drafts and, unless the canvas ends there, of the one after them; E is W or W + 1.
            after: Tokens at these positions after the iteration.
            p: Distributions against which the drafts were verified.
            verdict: Outcome of the verification.
            numbers: Further measures of the drafts, by name.

        Returns:
            How many tokens are final, and whether the text ended.
        """
        W, E = len(self), position.shape[0]
        answer = yield Decision(
            position,
            after,
            readback=torch.cat([verdict.accepted, is_eos(task, after)]) if task.eos_token_ids else verdict.accepted,
            draft=self.x,
            p=p,
            q=self.q,
            consecutive_iterations=True,
            accept_prob=verdict.accept_prob,
            uniform=verdict.uniform,
            deferred_fields=lambda: {
                "fate": self._fates(task, after, verdict.rejection),
                "measures": {"age": self.age, "initial": self.age == 0, **(numbers or {})},
            },
        )
        gained = min((*answer[:W], 0).index(0) + 1, E)
        ends = answer[W : W + gained]
        return (ends.index(1) + 1, True) if 1 in ends else (gained, False)

    def _fates(self, task: Task, after: Int[Tensor, " E"], r: Int[Tensor, ""]) -> Int[Tensor, " E"]:
        """Return the fates: accepted left of r, resampled at r or a bonus after all drafts, then those to the right.

        Where an initial draft was sampled again, and after the drafts, the model places its first draft.
        """
        W, age, code = len(self), self.age, FATE_CODES
        slot = torch.arange(after.shape[0], device=after.device)
        fate = torch.full_like(after, code[Fate.DRAFTED])
        old = fate[:W].masked_fill_(age > 0, code[Fate.CHANGED])
        old.masked_fill_((after[:W] == self.x) & (age > 0), code[Fate.KEPT])
        old.masked_fill_(slot[:W] < r, code[Fate.ACCEPTED]).masked_fill_(slot[:W] == r, code[Fate.RESAMPLED])
        fate[W:].masked_fill_(r == W, code[Fate.BONUS])
        gain, _ = truncate_at_eos(task, after, (r + 1).clamp(max=after.shape[0]))
        return keep_final_fates(gain, fate)

    def advance(self, after: Int[Tensor, " E"], probs: Float[Tensor, "E V"], gained: int) -> "Window":
        """Return the window of the next iteration: what remains once some tokens are final.

        The draft after the window joins it: it was sampled from the model like any other.

        Args:
            after: Tokens of the window after the pass, and the draft after them.
            probs: Distribution that each was sampled from, which it is verified against in the next iteration.
            gained: Number of tokens that became final, at least 1.
        """
        ages = tuple(age + 1 for age in (*self.ages, 0)[gained : after.shape[0]])
        return Window(after[gained:], probs[gained:], ages, probs[gained - 1 : gained])


def empty_window(task: Task) -> Window:
    """No drafts yet."""
    none = torch.empty(0, dtype=torch.long, device=task.device)
    no_probs = torch.empty(0, task.vocab_size, dtype=torch.float64, device=task.device)
    return Window(none, no_probs, (), no_probs)


@dataclass(frozen=True, slots=True)
class InitialDrafter:
    """Fills windows with initial drafts.

    They are verified as point masses, whatever their origin: MRS then accepts a draft x with probability p(x) and
    samples from the rest of p otherwise, which is exact for every draft that does not depend on what is to its right.
    Only "uniform" verifies a random draft against the uniform distribution it was sampled from, which is exact as well
    and accepts more often.
    """

    task: Task
    width: int
    """Drafts in a full window."""
    initial: InitialDraftKind
    rng: RandomSource

    def fill(self, window: Window, done: Int[Tensor, " n"], iteration: int) -> Window:
        """Return a window with drafts appended until it is full or reaches the end of the canvas.

        Args:
            window: Drafts that remain of the iteration before.
            done: Final tokens.
            iteration: Number of the iteration, for the keys of the draws.
        """
        n, W = done.shape[0], len(window)
        fresh = min(self.width, self.task.length - n) - W
        if fresh <= 0:
            return window
        device, vocabulary = self.task.device, self.task.vocab_size
        position = torch.arange(n + W, n + W + fresh, device=device)
        known, left = (window.x, window.q) if W else (done, window.last_final_probs)
        uniform = torch.full((1, 1), 1 / vocabulary, dtype=torch.float64, device=device).expand(fresh, vocabulary)
        draft = self.rng.categorical(uniform, DrawKey("initial", iteration, position))
        if self.initial not in ("random", "uniform") and len(known):
            # A first column has no left neighbour in its row; the first position has none at all.
            near = left[-1:].argmax(-1) if self.initial == "left-argmax" else known[-1:]
            draft = torch.where(position % self.task.row_width == 0, draft, near)
        q = uniform
        if self.initial != "uniform" or self.rng.same_noise:  # all probability is on the draft
            q = window.q.new_zeros(fresh, vocabulary).scatter_(1, draft[:, None], 1.0)
        return Window(
            torch.cat([window.x, draft]), torch.cat([window.q, q]), window.ages + (0,) * fresh, window.last_final_probs
        )
