"""Engines of the certificate's model that sample speculatively, with one mistake or none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from draftscope.certificates.known_model import LETTERS, Sampling, network, softmax, to_ids
from draftscope.certificates.sources import Drawn

MISTAKES: Final = {
    "uniform q": "q is another distribution than the drafts come from",
    "colder q": "q is sharper than the distribution of the drafts",
    "argmax drafts": "drafts are the drafter's likeliest tokens, q is not",
    "residual from p": "the residual is p",
    "first draft unverified": "the first draft is not verified",
    "greedy acceptance": "a draft is accepted if it is the likeliest token",
    "no filters": "filters act on other probabilities than they should",
}
"""Each mistake, and the defect that a certificate names."""
DRAFTS: Final = 3


@dataclass(slots=True)
class SpeculativeEngine:
    """Speculative sampling of many texts at once, without a cache."""

    mistake: str = ""
    counts: bool = True
    name: str = field(default="an engine of the tests", init=False)
    temperature_last: bool = field(default=False, init=False)
    drafter: Any = field(default="model", init=False)

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Continue each prompt by `length` tokens."""
        rng = np.random.default_rng(seeds[0])
        filters = Sampling() if self.mistake == "no filters" else sampling
        heads = [to_ids(prompt) for prompt in prompts]
        texts: list[list[int]] = [[] for _ in prompts]
        drafted = accepted = 0
        while open_rows := [row for row, text in enumerate(texts) if len(text) < length]:
            canvas = np.zeros((len(open_rows), len(heads[0]) + length + DRAFTS + 1), np.int64)
            ends = np.array([len(heads[row]) + len(texts[row]) for row in open_rows])
            for index, row in enumerate(open_rows):
                canvas[index, : ends[index]] = heads[row] + texts[row]
            at = np.arange(len(open_rows))
            drafts, drawn_from = [], []
            for step in range(DRAFTS):
                q = self._pass("draft", canvas, sampling)[at, ends + step - 1]
                draft = q.argmax(-1) if self.mistake == "argmax drafts" else _sample(q, rng)
                canvas[at, ends + step] = draft
                drafts.append(draft)
                drawn_from.append(self._reported(q))
            verified = self._pass("target", canvas, filters)
            for index, row in enumerate(open_rows):
                rows = verified[index, ends[index] - 1 :][: DRAFTS + 1]
                tokens = [int(draft[index]) for draft in drafts]
                passed = self._verify(tokens, rows, [q[index] for q in drawn_from], rng)
                drafted, accepted = drafted + DRAFTS, accepted + len(passed) - 1
                texts[row] = (texts[row] + passed)[:length]
        return Drawn(texts, drafted if self.counts else 0, accepted)

    def _pass(self, role: Any, canvas: np.ndarray, sampling: Sampling) -> np.ndarray:
        with torch.inference_mode():
            logits = network(role)(torch.from_numpy(canvas), use_cache=False).logits.double().numpy()
        return sampling.apply(logits, temperature_last=False)

    def _reported(self, q: np.ndarray) -> np.ndarray:
        if self.mistake == "uniform q":
            return np.full_like(q, 1 / len(LETTERS))
        return softmax(1.5 * np.log(np.maximum(q, 1e-30))) if self.mistake == "colder q" else q

    def _verify(self, drafts: list[int], p: np.ndarray, q: list[np.ndarray], rng: Any) -> list[int]:
        """Return the tokens that pass, and one of the target."""
        passed: list[int] = []
        for index, draft in enumerate(drafts):
            is_accepted = rng.random() < p[index, draft] / max(q[index][draft], 1e-300)
            if self.mistake == "greedy acceptance":
                is_accepted = draft == p[index].argmax()
            if is_accepted or (self.mistake == "first draft unverified" and not index):
                passed.append(draft)
                continue
            residual = p[index] if self.mistake == "residual from p" else np.maximum(p[index] - q[index], 0)
            residual = residual if residual.sum() > 0 else p[index]
            return [*passed, int(_sample((residual / residual.sum())[None], rng)[0])]
        return [*passed, int(_sample(p[len(drafts)][None], rng)[0])]


def _sample(probs: np.ndarray, rng: Any) -> np.ndarray:
    """One token of each row."""
    return np.minimum((probs.cumsum(-1) < rng.random((len(probs), 1))).sum(-1), probs.shape[-1] - 1)
