"""Train the autoregressive transformer of the scene pictures on their tokenizer's codes.

    python -m training.scenes_ar [--preset cpu|gpu] [--minutes M]

As training.image_ar, with two conditions, the thing and the scene. Every step draws and encodes new pictures, so that
none is learned by heart.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from engines.models.bundled.networks import SceneTokenizer, Transformer
from engines.models.bundled.scene_prompts import SCENES, THINGS
from training.image_ar import loss, measure
from training.image_tokenizer import as_images
from training.loop import SCENES_LICENCE, Preset, Run, device, export, load_exported, muon, parse
from training.scenes_data import TEST, TRAIN, build

PRESETS = {
    "cpu": Preset(steps=24_000, batch=16, lr=4e-3, linear=0.6),
    "gpu": Preset(steps=36_000, batch=64, lr=4e-3, linear=0.6),
}


@torch.no_grad()
def encoded(tokenizer: SceneTokenizer, count: int, *seed: int) -> tuple[Tensor, Tensor]:
    """Codes [N, 144] and labels [N, 2] of the pictures that `training.scenes_data.build` makes of these arguments."""
    images, labels = build(count, *seed)
    batch = as_images(torch.from_numpy(images)).contiguous(memory_format=torch.channels_last)
    with torch.autocast(device().type, torch.bfloat16):
        features = tokenizer.features(batch)
    return tokenizer.nearest(features).flatten(1), torch.from_numpy(labels)


def float32_attention(
    layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scaling: float, **rest: Any
) -> tuple[Tensor, None]:
    """Causal attention in float32, whose backward pass is several times faster on a CPU than in bfloat16."""
    with torch.autocast(q.device.type, enabled=False):
        q, k, v = q.float(), k.float(), v.float()
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling).transpose(1, 2), None


def train(run: Run, model: Transformer, tokenizer: SceneTokenizer, seed: int) -> None:
    """Train until the budget is used up."""
    AttentionInterface.register("float32", float32_attention)
    model.backbone.set_attn_implementation("float32")
    model.compile()
    for step in run.steps():
        codes, labels = encoded(tokenizer, run.preset.batch, TRAIN, seed, step)
        run.update(loss(model, codes, labels, seed * 1_000_003 + step))
    model.backbone.set_attn_implementation("sdpa")


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer = load_exported(SceneTokenizer(), "scenes-tokenizer").eval()
    model = Transformer(conditions=(len(THINGS), len(SCENES)), codes=len(tokenizer.codebook)).to(device())
    run = Run("scenes-ar", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train(run, model, tokenizer, options.seed))
    held_codes, held_labels = encoded(tokenizer, 2_000, TEST, 0)
    title = "Autoregressive transformer over the tokenizer's codes, conditioned on thing and scene"
    export(run, title, measure(model, held_codes, held_labels), options, SCENES_LICENCE)


if __name__ == "__main__":
    main()
