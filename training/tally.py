"""Train the studio language models that keep a tally, a task that `engines.models.bundled.tally` explains.

    python -m training.tally target|draft|full [--preset cpu|gpu] [--minutes M]

`draft` is an eighth of the size. `full` is of the LLaDA kind: it starts from `draft` and has to unlearn one mask.
"""

from dataclasses import replace
from typing import Any, Final

from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from engines.models.bundled.tally import LINE, MOST_EVENTS, held_out_stories
from training.block_diffusion import Noise, Recipe, answers, export, network, train
from training.loop import MODELS, Preset, Run, device, muon, parse
from training.tally_data import batch, encoder

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
"""Of a bidirectional model, which computes the whole row anew for every token."""
LENGTH: Final = LINE * MOST_EVENTS + 16
"""Room for the longest answer and its end."""


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS, names=KINDS)
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
    export(run, kind, model, DATA, lambda made: measure(made, kind), options)


def measure(model: Qwen3ForCausalLM, kind: Recipe) -> dict[str, Any]:
    """Share of held-out stories that are told right: one token a pass, and several."""
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
