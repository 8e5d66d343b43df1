"""The window of drafts that Jacobi-style methods carry along: how it is filled, judged and moved on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engines.ar.end_of_sequence import cut_at_end, ends_text, fates_up_to
from engines.ar.probs_request import Forward
from engines.protocol import FATE_CODES, Decision, Part, Task
from engines.sampling.coupling import Verdicts
from engines.sampling.random_source import Chance, Draw
from engines.settings import Knob
from engines.transfer import to_device
from traces.schema import Fate

Initial: TypeAlias = Literal["random", "uniform", "repeat-left", "left-argmax"]
InitialDrafts = Annotated[
    Initial,
    Knob(
        "Initial drafts",
        "The first draft of a position. random: any token. uniform: the same, verified so that more pass. "
        "repeat-left: the token to its left. left-argmax: the likeliest token one position to the left.",
    ),
]
WindowSize = Annotated[
    int,
    Knob("Window L", "Tokens a pass is fed: the last final one and L - 1 drafts. 1 is ordinary decoding.", 1, 256, 1),
]


@dataclass(frozen=True, slots=True)
class Window:
    """Drafts for the positions after the final tokens."""

    x: Int[Tensor, " W"]
    q: Float[Tensor, "W V"]
    """The distribution each draft was drawn from."""
    ages: tuple[int, ...]
    """Iterations that each has been in the window; 0 marks an initial draft."""
    left: Float[Tensor, "n V"]
    """The distribution of the last final token, in one row; no row before there is one."""

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def age(self) -> Int[Tensor, " W"]:
        """The ages beside the drafts."""
        return to_device(torch.tensor(self.ages, dtype=torch.long), self.x.device)

    def forward(self, done: Int[Tensor, " n"]) -> Forward:
        """Ask for the distributions of all drafts and of the position behind them."""
        n = done.shape[0]
        return Forward(torch.cat([done, self.x]), done=n, cached=max(n - 1, 0))

    def decided(
        self,
        task: Task,
        position: Int[Tensor, " E"],
        after: Int[Tensor, " E"],
        p: Float[Tensor, "W V"],
        verdict: Verdicts,
        numbers: Mapping[str, Tensor] | None = None,
    ) -> Part[tuple[int, bool]]:
        """What an iteration made of the window, in columns [W]; gives how many tokens are final, and if a text ended.

        Read back: which drafts were kept, and of a text which tokens end it.
        """
        W, E = len(self), position.shape[0]
        told = yield Decision(
            position,
            after,
            readback=torch.cat([verdict.kept, ends_text(task, after)]) if task.ends else verdict.kept,
            draft=self.x,
            p=p,
            q=self.q,
            successive=True,
            accept_prob=verdict.accept_prob,
            coin=verdict.coin,
            details=lambda: {
                "fate": self._fates(task, after, verdict.rejection),
                "numbers": {"age": self.age, "initial": self.age == 0, **(numbers or {})},
            },
        )
        gained = min((*told[:W], 0).index(0) + 1, E)
        ends = told[W : W + gained]
        return (ends.index(1) + 1, True) if 1 in ends else (gained, False)

    def _fates(self, task: Task, after: Int[Tensor, " E"], r: Int[Tensor, ""]) -> Int[Tensor, " E"]:
        """Accepted left of r, resampled at r or a bonus behind all drafts, and what became of the drafts to the right.

        Where an initial draft was redrawn, and behind the drafts, the model places its first draft.
        """
        W, age, code = len(self), self.age, FATE_CODES
        slot = torch.arange(after.shape[0], device=after.device)
        fate = torch.full_like(after, code[Fate.DRAFTED])
        old = fate[:W].masked_fill_(age > 0, code[Fate.CHANGED])
        old.masked_fill_((after[:W] == self.x) & (age > 0), code[Fate.KEPT])
        old.masked_fill_(slot[:W] < r, code[Fate.ACCEPTED]).masked_fill_(slot[:W] == r, code[Fate.RESAMPLED])
        fate[W:].masked_fill_(r == W, code[Fate.BONUS])
        gain, _ = cut_at_end(task, after, (r + 1).clamp(max=after.shape[0]))
        return fates_up_to(gain, fate)

    def moved(self, after: Int[Tensor, " E"], probs: Float[Tensor, "E V"], gained: int) -> "Window":
        """The window of the next iteration: what is left of `after` once `gained` tokens are final.

        The draft behind the window joins it: it was drawn from the model like any other. Each is to be judged by its
        row of `probs`.
        """
        ages = tuple(age + 1 for age in (*self.ages, 0)[gained : after.shape[0]])
        return Window(after[gained:], probs[gained:], ages, probs[gained - 1 : gained])


def empty_window(task: Task) -> Window:
    """No drafts yet."""
    none = torch.empty(0, dtype=torch.long, device=task.device)
    no_probs = torch.empty(0, task.vocabulary, dtype=torch.float64, device=task.device)
    return Window(none, no_probs, (), no_probs)


@dataclass(frozen=True, slots=True)
class InitialDrafter:
    """Fills windows with initial drafts.

    They are judged as point masses, whatever they came from: MRS then accepts a draft x with probability p(x) and
    draws from the rest of p otherwise, which is exact for every draft that does not look to its right. Only "uniform"
    judges a random draft against the uniform distribution it was drawn from, which is as exact and accepts more often.
    """

    task: Task
    width: int
    """Drafts in a full window."""
    initial: Initial
    chance: Chance

    def fill(self, window: Window, done: Int[Tensor, " n"], iteration: int) -> Window:
        """Append drafts until the window is full or reaches the end of the canvas."""
        n, W = done.shape[0], len(window)
        fresh = min(self.width, self.task.length - n) - W
        if fresh <= 0:
            return window
        device, vocabulary = self.task.device, self.task.vocabulary
        position = torch.arange(n + W, n + W + fresh, device=device)
        known, left = (window.x, window.q) if W else (done, window.left)
        uniform = torch.full((1, 1), 1 / vocabulary, dtype=torch.float64, device=device).expand(fresh, vocabulary)
        draft = self.chance.categorical(uniform, Draw("initial", iteration, position))
        if self.initial not in ("random", "uniform") and len(known):
            # A first column has no left neighbour in its row; the first position has none at all.
            near = left[-1:].argmax(-1) if self.initial == "left-argmax" else known[-1:]
            draft = torch.where(position % self.task.row_length == 0, draft, near)
        q = uniform
        if self.initial != "uniform" or self.chance.same_noise:  # all probability is on the draft
            q = window.q.new_zeros(fresh, vocabulary).scatter_(1, draft[:, None], 1.0)
        return Window(torch.cat([window.x, draft]), torch.cat([window.q, q]), window.ages + (0,) * fresh, window.left)
