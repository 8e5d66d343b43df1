"""The window of drafts that Jacobi-style methods carry along: how it is filled and where its verdicts stop."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from engines.protocol import Task
from engines.sampling.chance import Chance, Draw

Initial: TypeAlias = Literal["random", "uniform", "repeat-left", "left-argmax"]


@dataclass(frozen=True, slots=True)
class Window:
    """Drafts for the positions after the final tokens."""

    x: Int[Tensor, " W"]
    q: Float[Tensor, "W V"]
    """The distribution each draft was drawn from."""
    age: Int[Tensor, " W"]
    """Iterations in the window; 0 marks an initial guess."""

    def __len__(self) -> int:
        return len(self.x)


def empty_window(task: Task) -> Window:
    """No drafts yet."""
    none = torch.empty(0, dtype=torch.long, device=task.device)
    return Window(none, torch.empty(0, task.vocabulary, dtype=torch.float64, device=task.device), none)


@dataclass(frozen=True, slots=True)
class Guesser:
    """Fills windows with initial guesses.

    Guesses are judged as point masses, whatever they came from: MRS then accepts a guess x with probability p(x) and
    draws from the rest of p otherwise, which is exact for every guess that does not look to its right. Only "uniform"
    judges a random guess against the uniform distribution it was drawn from, which is as exact and accepts more often.
    """

    task: Task
    width: int
    """Drafts in a full window."""
    initial: Initial
    chance: Chance

    def fill(self, window: Window, done: Int[Tensor, " n"], iteration: int) -> Window:
        """Append guesses until the window is full or reaches the end of the canvas."""
        fresh = min(self.width, self.task.length - len(done)) - len(window)
        if fresh <= 0:
            return window
        device, vocabulary = self.task.device, self.task.vocabulary
        first = len(done) + len(window)
        position = torch.arange(first, first + fresh, device=device)
        known = torch.cat([done, window.x])[-1:]
        # A first column has no left neighbour in its row; the first position has none at all.
        anywhere = (position % self.task.row_length == 0) & (self.initial == "repeat-left")
        if self.initial in ("random", "uniform") or not len(known):
            anywhere = torch.ones_like(anywhere)
        uniform = torch.full((fresh, vocabulary), 1 / vocabulary, dtype=torch.float64, device=device)
        guess = self.chance.categorical(uniform, Draw("initial", iteration, position), where=anywhere)
        if len(known):
            likely = window.q[-1:].argmax(-1) if self.initial == "left-argmax" and len(window) else known
            guess = torch.where(anywhere, guess, likely)
        probs = uniform if self.initial == "uniform" else one_hot(guess, vocabulary).to(torch.float64)
        return Window(
            torch.cat([window.x, guess]),
            torch.cat([window.q, probs]),
            torch.cat([window.age, torch.zeros(fresh, dtype=torch.long, device=device)]),
        )
