"""Train the autoregressive transformer of the studio image model on the tokenizer's codes.

    python -m training.image_ar [--preset cpu|gpu] [--minutes M]

The first `DISTINCT` steps draw and encode new pictures, and later steps take the same ones again.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from draftscope.engines.models.bundled.image_networks import Tokenizer, Transformer, condition_ids
from training.image_tokenizer import as_images
from training.scenes_data import TEST, TRAIN, build
from training.trainer import SCENES_LICENCE, Preset, Run, device, export, load_exported, muon, parse

DISTINCT = 3_000
PRESETS = {
    "cpu": Preset(steps=24_000, batch=16, lr=4e-3, minutes=88, linear=0.6),
    "gpu": Preset(steps=36_000, batch=64, lr=4e-3, linear=0.6),
}


@torch.no_grad()
def encoded(tokenizer: Tokenizer, count: int, *seed: int) -> tuple[Tensor, Tensor]:
    """Return codes [N, 144] and labels [N, 2] of the pictures that `training.scenes_data.build` draws."""
    images, labels = build(count, *seed)
    batch = as_images(torch.from_numpy(images)).contiguous(memory_format=torch.channels_last)
    with torch.autocast(device().type, torch.bfloat16):
        features = tokenizer.encoder(batch)
    return tokenizer.nearest(features).flatten(1), torch.from_numpy(labels)


def float32_attention(
    layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scaling: float, **options: Any
) -> tuple[Tensor, None]:
    """Attention in float32, whose backward pass is much faster on a CPU than in bfloat16; causal without a mask."""
    with torch.autocast(q.device.type, enabled=False):
        q, k, v = q.float(), k.float(), v.float()
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=scaling)
        return out.transpose(1, 2), None


def inputs(model: Transformer, codes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Input ids [B, C + 143] of C conditions and all codes but the last, and positions; slots C - 1.. predict codes."""
    ids = torch.cat([condition_ids(labels), codes[:, :-1]], 1).to(device())
    return ids, torch.arange(ids.shape[1], device=ids.device).expand_as(ids)


def drop_conditions(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Labels [N, C] with all conditions dropped in 10 % of the rows and each alone in 5 %."""
    unconditional = torch.rand(len(labels), 1, generator=generator) < 0.10
    each = torch.rand(labels.shape, generator=generator) < 0.05
    return labels.masked_fill(unconditional | each, -1)


def train(run: Run, model: Transformer, tokenizer: Tokenizer, seed: int) -> None:
    """Train until the budget is used up."""
    AttentionInterface.register("float32", float32_attention)
    model.backbone.set_attn_implementation("float32")
    model.compile()
    batch = cache(lambda number: encoded(tokenizer, run.preset.batch, TRAIN, seed, number))
    for step in run.steps():
        codes, labels = batch(step % DISTINCT)
        run.update(loss(model, codes, labels, seed * 1_000_003 + step))
    model.backbone.set_attn_implementation("sdpa")


def loss(model: Transformer, codes: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Cross entropy of codes [B, 144] under labels [B, 2], of which some are dropped."""
    ids, positions = inputs(model, codes, drop_conditions(labels, torch.Generator().manual_seed(seed)))
    with torch.autocast(device().type, torch.bfloat16):
        logits = model(ids, positions)[:, model.prefix - 1 :]
    return F.cross_entropy(logits.flatten(0, 1).float(), codes.flatten().to(device()))


@torch.no_grad()
def measure(model: Transformer, codes: Tensor, labels: Tensor) -> dict[str, float | int]:
    """Bits per token on held-out images, the entropy of the predictions and how peaked they are."""
    bits = entropy = peaked = 0.0
    for chunk, label in zip(codes.split(200), labels.split(200), strict=True):
        ids, positions = inputs(model, chunk, label)
        probs = model(ids, positions)[:, model.prefix - 1 :].float().log_softmax(-1)
        bits -= float(probs.gather(-1, chunk.to(probs.device)[..., None]).sum())
        entropy -= float((probs.exp() * probs).sum())
        peaked += float((probs.amax(-1).exp() > 0.9).sum())
    tokens, ln2 = codes.numel(), 0.6931471805599453
    return {
        "validation_bits_per_token": round(bits / tokens / ln2, 4),
        "predictive_entropy_bits": round(entropy / tokens / ln2, 4),
        "share_of_positions_above_0.9": round(peaked / tokens, 4),
        "held_out_images": len(codes),
    }


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer = load_exported(Tokenizer(), "image-tokenizer").eval()
    model = Transformer().to(device())
    run = Run("image-ar", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train(run, model, tokenizer, options.seed))
    held_codes, held_labels = encoded(tokenizer, 2_000, TEST, 0)
    title = "Autoregressive transformer over the tokenizer's codes, conditioned on thing and scene"
    export(run, title, measure(model, held_codes, held_labels), options, SCENES_LICENCE)


if __name__ == "__main__":
    main()
