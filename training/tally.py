"""Train the studio language models on Tally, a task described in `draftscope.engines.models.bundled.tally`.

    python -m training.tally tokenizer
    python -m training.tally target|draft|full [--preset cpu|gpu] [--minutes M]

The first writes assets/models/tally-tokenizer.json. `draft` is an eighth of the size. `full` is of the LLaDA kind: it
starts from `draft` and has to unlearn one mask. Stories are sampled again for every step, never held-out ones.
"""

from dataclasses import replace
from random import Random
from typing import Any, Final

import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import Qwen3ForCausalLM

from draftscope.engines.models.bundled import tally
from draftscope.engines.models.bundled.language import END, MASK, PAD
from draftscope.engines.models.bundled.tally import LINE, MAX_EVENTS, MIN_EVENTS, MOST, draw, held_out_stories
from training.block_diffusion import BLOCK, Noise, Recipe, answers, export, network, token_id, train
from training.trainer import MODELS, Preset, Run, device, muon, parse

TOKENIZER: Final = MODELS / "tally-tokenizer.json"
DATA: Final = "stories of a running total, generated"
LARGE: Final = (0, 0, 0, 0.3, 0.3, 0.4)
"""How often each block size is trained on where blocks of a few tokens are not decoded."""
KINDS: Final = {
    "target": Recipe("Tally", 256, 6, 640),
    "draft": Recipe("Tally, small", 128, 3, 320),
    "full": Recipe("Tally, small and bidirectional", 128, 3, 320, LARGE, full=True, base="draft"),
}
PRESETS: Final = {
    "cpu": Preset(steps=20_000, batch=24, lr=3e-3, minutes=120, linear=0.6),
    "gpu": Preset(steps=20_000, batch=128, lr=3e-3, linear=0.6),
}
MEASURED: Final = 200
MEASURED_FULL: Final = 48
"""Stories for a bidirectional model, which computes the whole row for every token."""
LENGTH: Final = LINE * MAX_EVENTS + 16
"""Room for the longest answer and its end."""


def words() -> list[str]:
    """All tokens but the special ones: digits, words, with a blank before them but at the start of a line."""
    pairs = [pair for verbs in tally.VERBS.values() for pair in verbs]
    vocabulary = [*(word for pair in (*pairs, *tally.MAKES) for word in pair), *tally.BEHIND["+"], *tally.BEHIND["-"]]
    vocabulary += [*tally.LINKS, *tally.ENDS, *tally.DIGITS, *tally.NAMES, tally.ALSO]
    changes = [f" {sign}{amount}" for sign in "+-" for amount in range(1, MOST + 1)]
    digits = [*map(str, range(10)), *(f" {digit}" for digit in range(10))]
    return [*digits, ":", *changes, *tally.OPENINGS, *(f" {word}" for word in vocabulary), "\n"]


def new_tokenizer() -> Tokenizer:
    """A token a word, a digit, and an event's sign and amount."""
    tokenizer = Tokenizer(
        models.WordLevel({name: i for i, name in enumerate([PAD, END, MASK, *words()])}, unk_token=PAD)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+| [+-]\d| ?\d|:|\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, END, MASK])
    return tokenizer


def encoder() -> Tokenizer:
    """The tokenizer that ships."""
    return Tokenizer.from_file(str(TOKENIZER))


def batch(step: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Token rows [size, L] for a step of training, filled up with <end>, and prompt lengths [size]."""
    dice, tokenizer = Random(f"{seed} {step}"), encoder()
    events, end = dice.randint(MIN_EVENTS, MAX_EVENTS), token_id(tokenizer, END)
    stories = [draw(dice, events) for _ in range(size)]
    prompts = [tokenizer.encode(f"{story.prompt}\n").ids for story in stories]
    answers = [tokenizer.encode(story.write(dice)).ids for story in stories]
    # Padded to whole blocks: one is learnt up to its end, whatever the last one holds after the answer.
    length = -(-(len(prompts[0]) + LINE * events + 1) // BLOCK) * BLOCK
    rows = [[*a, *b] + [end] * (length - len(a) - len(b)) for a, b in zip(prompts, answers, strict=True)]
    return torch.tensor(rows), torch.tensor([len(prompt) for prompt in prompts])


def main() -> None:
    """Train, measure and export, or write the tokenizer."""
    options, preset = parse(__doc__ or "", PRESETS, names=("tokenizer", *KINDS))
    if options.name == "tokenizer":
        new_tokenizer().save(str(TOKENIZER))
        print(f"{TOKENIZER.name} has {encoder().get_vocab_size()} tokens")
        return
    kind, tokenizer = KINDS[options.name], encoder()
    model = network(kind, tokenizer).to(device())
    if kind.base:
        preset = replace(preset, lr=preset.lr / 3)
        weights = load_file(MODELS / f"tally-{kind.base}" / "model.safetensors")
        known = model.load_state_dict(weights, strict=False)
        assert not known.unexpected_keys and known.missing_keys in ([], ["lm_head.weight"])  # tied to the embedding
    run = Run(f"tally-{options.name}", model, muon(model, model.model.layers, preset.lr), preset)
    seed, noise = options.seed, Noise(kind, tokenizer)
    run.carry_out(options, lambda: train(run, model, noise, seed, lambda step: batch(step, preset.batch, seed)))
    export(run, kind, model, DATA, lambda exported: measure(exported, kind), options)


def measure(model: Qwen3ForCausalLM, kind: Recipe) -> dict[str, Any]:
    """Return the share of held-out stories that are written correctly: with one token per pass, and with several."""
    stories = held_out_stories(MEASURED_FULL if kind.full else MEASURED)

    def right(block: str, **settings: object) -> float:
        config = {"block": block, "length": LENGTH, **settings}
        texts = answers(model, kind, encoder(), [story.prompt for story in stories], config)
        good = sum(story.is_told_by(text) for text, story in zip(texts, stories, strict=True))
        return round(100 * good / len(stories), 1)

    sizes = ("8", "16", "32") if kind.full else ("1", "16")
    return {
        "stories": len(stories),
        **{f"right_percent_block_{size}": right(size, rule="greedy") for size in sizes},
        **{
            f"right_percent_confidence_{threshold}_block_8": right("8", rule="confidence", threshold=threshold)
            for threshold in (0.5, 0.7, 0.9)
        },
    }


if __name__ == "__main__":
    main()
