"""Stories of the tally task to learn from, and their tokenizer, assets/models/tally-tokenizer.json.

    python -m training.tally_data

Stories are drawn anew for every step of training, from those that `engines.models.bundled.tally` does not hold out.
"""

from random import Random
from typing import Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from engines.models.bundled import tally
from engines.models.bundled.language import END, MASK, PAD
from engines.models.bundled.tally import FEWEST_EVENTS, LINE, MOST, MOST_EVENTS, draw
from training.block_diffusion import BLOCK, token_id
from training.loop import MODELS

TOKENIZER: Final = MODELS / "tally-tokenizer.json"


def words() -> list[str]:
    """All tokens but the special ones: digits, words, with a blank before them but at the start of a line."""
    pairs = [pair for verbs in tally.VERBS.values() for pair in verbs]
    said = [*(word for pair in (*pairs, *tally.MAKES) for word in pair), *tally.BEHIND["+"], *tally.BEHIND["-"]]
    said += [*tally.LINKS, *tally.ENDS, *tally.DIGITS, *tally.NAMES, tally.ALSO]
    changes = [f" {sign}{amount}" for sign in "+-" for amount in range(1, MOST + 1)]
    digits = [*map(str, range(10)), *(f" {digit}" for digit in range(10))]
    return [*digits, ":", *changes, *tally.OPENINGS, *(f" {word}" for word in said), "\n"]


def tokenizer() -> Tokenizer:
    """A token a word, a digit, and an event's sign and amount."""
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate([PAD, END, MASK, *words()])}, unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+| [+-]\d| ?\d|:|\n"), "isolated")
    made.decoder = decoders.Fuse()
    made.add_special_tokens([PAD, END, MASK])
    return made


def encoder() -> Tokenizer:
    """The tokenizer that ships."""
    return Tokenizer.from_file(str(TOKENIZER))


def batch(step: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Token rows [size, L] for a step of training, filled up with <end>, and prompt lengths [size]."""
    dice, made = Random(f"{seed} {step}"), encoder()
    events, end = dice.randint(FEWEST_EVENTS, MOST_EVENTS), token_id(made, END)
    stories = [draw(dice, events) for _ in range(size)]
    prompts = [made.encode(f"{story.prompt}\n").ids for story in stories]
    answers = [made.encode(story.tell(dice)).ids for story in stories]
    # Filled up to whole blocks: one is learnt up to its end, whatever the last one holds behind the answer.
    length = -(-(len(prompts[0]) + LINE * events + 1) // BLOCK) * BLOCK
    rows = [[*a, *b] + [end] * (length - len(a) - len(b)) for a, b in zip(prompts, answers, strict=True)]
    return torch.tensor(rows), torch.tensor([len(prompt) for prompt in prompts])


def main() -> None:
    """Write the tokenizer."""
    tokenizer().save(str(TOKENIZER))
    print(f"{TOKENIZER.name} has {encoder().get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
