"""Train the studio language models that play snakes and ladders.

    python -m training.snakes target|draft [--preset cpu|gpu]

Both are block diffusion models as `training.text` has them, on a game in which haste costs:
`engines.models.bundled.snakes` says why. `draft` is half as wide. A model that learns longer learns to look ahead, and
haste costs it less. So checkpoints are kept, and `--at STEP` ships one of them: docs/training.md has the rule.
"""

from typing import Any, Final

from transformers import Qwen3ForCausalLM

from engines.models.bundled.snakes import LINE, MOST, held_out_games
from training.block_diffusion import Noise, Recipe, answers, export, network, train
from training.loop import Preset, Run, device, muon, parse
from training.snakes_data import batch, encoder

DATA: Final = "games of snakes and ladders, simulated"
KINDS: Final = {
    "target": Recipe("Snakes and ladders", 128, 4, 320),
    "draft": Recipe("Snakes and ladders, small", 64, 4, 160),
}
PRESETS: Final = {
    "cpu": Preset(steps=1300, batch=24, lr=4e-3, keep=100),
    "gpu": Preset(steps=1300, batch=256, lr=4e-3, keep=100),
}
MEASURED: Final = 200
LENGTH: Final = LINE * (MOST + 1)
"""Room for the longest answer and its end."""
HASTY: Final = {"rule": "confidence", "threshold": 0.9}


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS, names=KINDS)
    kind, tokenizer = KINDS[options.name], encoder()
    model = network(kind, tokenizer).to(device())
    run = Run(f"snakes-{options.name}", model, muon(model, model.model.layers, preset.lr), preset)
    seed, noise = options.seed, Noise(kind, tokenizer)
    run.carry_out(options, lambda: train(run, model, noise, seed, lambda step: batch(step, preset.batch, seed)))
    export(run, kind, model, DATA, lambda made: measure(made, kind), options)


def measure(model: Qwen3ForCausalLM, kind: Recipe) -> dict[str, Any]:
    """Share of held-out games that are right to the last character: one token a pass, and in haste."""
    games = held_out_games(MEASURED)

    def right(block: str, **settings: object) -> float:
        config = {"block": block, "length": LENGTH, **settings}
        texts = answers(model, kind, encoder(), [game.prompt for game in games], config)
        good = sum(text == game.answer for text, game in zip(texts, games, strict=True))
        return round(100 * good / len(games), 1)

    return {
        "games": len(games),
        "right_percent_block_1": right("1", rule="greedy"),
        "right_percent_block_16": right("16", rule="greedy"),
        **{f"right_percent_confidence_0.9_block_{size}": right(str(size), **HASTY) for size in (8, 16, 32)},
    }


if __name__ == "__main__":
    main()
