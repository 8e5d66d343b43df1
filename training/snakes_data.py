"""Games of snakes and ladders to learn from, and their tokenizer.

    python -m training.snakes_data

Games are drawn anew for every step of training, from those that `engines.models.bundled.snakes` does not hold out. All
games of a batch have the same number of rolls, so that none is filled up. Writes assets/models/snakes-tokenizer.json.
"""

from random import Random
from typing import Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from engines.models.bundled.snakes import FEWEST, LINE, MOST, Game, draw
from training.block_diffusion import BLOCK, END, MASK, PAD, token_id
from training.loop import MODELS

WORDS: Final = ("from", " roll", " to", " stay", " jump", "\n")
TOKENIZER: Final = MODELS / "snakes-tokenizer.json"


def tokenizer() -> Tokenizer:
    """A token a word, a digit, and a digit with a blank before it."""
    names = [PAD, END, MASK, *map(str, range(10)), *(f" {i}" for i in range(10)), *WORDS]
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[a-z]+| ?\d|\n"), "isolated")
    made.decoder = decoders.Fuse()
    made.add_special_tokens([PAD, END, MASK])
    return made


def batch(step: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Token rows [size, L] for a step of training, filled up with <end>, and prompt lengths [size]."""
    dice = Random(f"{seed} {step}")
    rolls = dice.randint(FEWEST, MOST)
    return rows(encoder(), [draw(dice, rolls) for _ in range(size)])


def encoder() -> Tokenizer:
    """The tokenizer that ships."""
    return Tokenizer.from_file(str(TOKENIZER))


def rows(encoder: Tokenizer, games: list[Game]) -> tuple[Tensor, Tensor]:
    """Token rows [N, L] of games of the same number of rolls, and prompt lengths [N]."""
    end = token_id(encoder, END)
    prompts = [encoder.encode(f"{game.prompt}\n").ids for game in games]
    answers = [encoder.encode(game.answer).ids for game in games]
    # Filled up to whole blocks: one is learnt up to its end, whatever the last one holds behind the answer.
    length = -(-(len(prompts[0]) + LINE * len(games[0].rolls) + 1) // BLOCK) * BLOCK
    filled = [[*a, *b] + [end] * (length - len(a) - len(b)) for a, b in zip(prompts, answers, strict=True)]
    return torch.tensor(filled), torch.tensor([len(prompt) for prompt in prompts])


def main() -> None:
    """Write the tokenizer."""
    tokenizer().save(str(TOKENIZER))
    print(f"{TOKENIZER.name} has {encoder().get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
