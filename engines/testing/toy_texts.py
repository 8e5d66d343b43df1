"""Small models and the short texts that proofs decode with them, for each family of discrete tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from draftscope.engines.testing.enumeration import Distribution
from draftscope.engines.testing.toy_models import Table, ToyBlockModel

LENGTH, VOCABULARY = 10, 24
"""Length and vocabulary size of sampled texts."""
_MODELS: Final = 100
"""Seeds of the models of a proof are below it."""


@dataclass(frozen=True, slots=True)
class ToyText:
    """A small model, or a pair of them, and the text that it decodes."""

    length: int
    vocabulary: int
    sharpness: float = 2.0
    prompt: tuple[int, ...] = ()
    end: int | None = None
    seed: int = 3
    drafter: tuple[int, float] = (4, 2.0)
    """The drafter's seed and sharpness; with the target's own, drafter and target are equal."""
    other_drafts: bool = True
    """Whether that drafter drafts even where the settings have the target draft for itself."""

    def numbered(self, number: int) -> "ToyText":
        """Return the same text of other models."""
        step = _MODELS * number
        return replace(self, seed=self.seed + step, drafter=(self.drafter[0] + step, self.drafter[1]))

    def __str__(self) -> str:
        details = [f"after {''.join(map(str, self.prompt))}"] if self.prompt else []
        details += [f"sharpness {self.sharpness:g}"] if self.sharpness != 2 else []
        details += [f"id {self.end} ends it"] if self.end is not None else []
        return f"{self.length} tokens of {self.vocabulary} ids" + (f" ({', '.join(details)})" if details else "")


PAIR, LOOP, WAVE, CYCLE = (0, 1) * 6, (0,) * 12, (0, 0, 1, 1) * 4, (0, 1, 2, 3) * 3
"""Prompts that repeat themselves, so that look-ups have something to copy."""
CAUSAL: Final = (
    ToyText(4, 2, other_drafts=False),
    ToyText(2, 7),
    ToyText(5, 2, prompt=WAVE),
    ToyText(4, 2, 8.0, prompt=PAIR, end=1),
    ToyText(4, 2, 8.0, prompt=LOOP, drafter=(4, 8.0)),
    ToyText(3, 3, 4.0, prompt=(0, 1, 2) * 4),
)
BLOCKS: Final = (
    ToyText(3, 2, other_drafts=False),
    ToyText(2, 4),
    ToyText(4, 2, 6.0),
    ToyText(3, 2, 6.0, end=1),
)
SAMPLED: Final = (
    ToyText(LENGTH, VOCABULARY, seed=0, drafter=(0, 4.0), other_drafts=False),
    ToyText(LENGTH, VOCABULARY, seed=1, drafter=(1, 4.0)),
    ToyText(LENGTH, VOCABULARY, seed=2, drafter=(3, 2.0)),
    ToyText(LENGTH, VOCABULARY, seed=3, drafter=(4, 2.0)),
)
"""Two drafters that agree with their target, and two that do not."""
REPEATING: Final = (
    ToyText(LENGTH, 4, 6.0, prompt=CYCLE, seed=5, drafter=(6, 2.0)),
    ToyText(LENGTH, 4, 2.0, prompt=CYCLE, seed=7, drafter=(7, 4.0)),
)
"""Few ids after a prompt that repeats itself: look-ups draft here, and not in texts of many ids."""


def more_texts(texts: Sequence[ToyText]) -> Iterator[ToyText]:
    """Yield the same texts of other models, more and less certain ones, until all events have occurred."""
    for seed in range(5, 13, 2):
        for text in texts:
            sharpness = 8.0 if text.sharpness == 2 else 2.0
            yield replace(text, sharpness=sharpness, seed=seed, drafter=(seed + 1, sharpness))


class BlockTable:
    """A `ToyBlockModel` whose texts have one length, as those of a `Table` have; with `shift` after one token."""

    def __init__(self, length: int, vocabulary: int, seed: int, *, sharpness: float = 2.0, shift: bool = False) -> None:
        depth = ToyBlockModel(vocabulary, seed=seed, sharpness=sharpness, shift=shift)
        prompt = (0,) if shift else ()
        self.task, self.forward = depth.task(length, prompt), depth.forward
        self.conditionals = (
            partial(replace(depth).conditionals, prompt=prompt) if shift else replace(depth).conditionals
        )
        self._model = replace(depth)

    def joint(self) -> Distribution:
        """The distribution of ordinary decoding."""
        return self._model.joint(self.task.length, self.task.prompt_ids, end=self.task.eos_token_ids[0])


Kind: TypeAlias = Callable[..., Table | BlockTable]


def build_model(kind: Kind, text: ToyText, seed: int, sharpness: float) -> Table | BlockTable:
    """Return the model of a text.

    Args:
        kind: Class of the model.
        text: Length, number of ids, prompt and end.
        seed: Number of the model: another one has other distributions.
        sharpness: Sharpness of its distributions, as `kind` takes it.
    """
    model = kind(text.length, text.vocabulary, seed, sharpness=sharpness)
    if isinstance(model, Table):
        ends = () if text.end is None else (text.end,)
        model.task = replace(model.task, prompt_ids=text.prompt, eos_token_ids=ends)
    elif text.end is not None:
        model.task = replace(model.task, eos_token_ids=(text.end,))
    return model
