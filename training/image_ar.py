"""Train the autoregressive transformer of the studio image model on the tokenizer's codes.

    python -m training.image_ar [--preset cpu|gpu] [--minutes M]

Muon for the matrices inside the blocks, AdamW for the rest. All three conditions are dropped together in 10 % of the
rows, which trains classifier-free guidance, and each alone in 5 %, so that a prompt may leave a slot open.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engines.assets import cache_dir
from engines.models.bundled.networks import Tokenizer, Transformer, condition_ids
from training import data
from training.image_tokenizer import as_images
from training.loop import MODELS, Preset, Run, batches, device, export, load_exported, muon, parse, sha256

PRESETS = {
    "cpu": Preset(steps=12_000, batch=48, lr=3e-3, minutes=100),
    "gpu": Preset(steps=40_000, batch=256, lr=3e-3),
}


@torch.no_grad()
def encode(split: str, count: int) -> tuple[Tensor, Tensor]:
    """Codes [N, 144] and labels [N, 3] of a split; the codes are kept beside the images, by tokenizer."""
    studio = data.load(split, count)
    weights = sha256(MODELS / "image-tokenizer.safetensors")[:12]
    path = cache_dir() / f"codes-{split}-{count}-{weights}.npy"
    if not path.exists():
        tokenizer = load_exported(Tokenizer(), "image-tokenizer").eval()
        images = torch.from_numpy(studio.images)
        codes = torch.cat([tokenizer.encode(as_images(rows)).flatten(1).cpu() for rows in images.split(500)])
        np.save(path, codes.numpy().astype(np.int16))
    return torch.from_numpy(np.load(path).astype(np.int64)), torch.from_numpy(studio.labels)


def inputs(model: Transformer, codes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Input ids [B, C + 143] of C conditions and all codes but the last, and positions; slots C - 1.. predict codes."""
    ids = torch.cat([condition_ids(labels, model.conditions, model.codes), codes[:, :-1]], 1).to(device())
    return ids, torch.arange(ids.shape[1], device=ids.device).expand_as(ids)


def drop_conditions(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Labels [N, C] with all conditions dropped in 10 % of the rows and each alone in 5 %."""
    whole = torch.rand(len(labels), 1, generator=generator) < 0.10
    each = torch.rand(labels.shape, generator=generator) < 0.05
    return labels.masked_fill(whole | each, -1)


def train(run: Run, model: Transformer, codes: Tensor, labels: Tensor, seed: int) -> None:
    """Train until the budget is used up."""
    rows = batches(len(codes), run.preset.batch, seed)
    for step in run.steps():
        picked = rows(step)
        run.update(loss(model, codes[picked], labels[picked], seed * 1_000_003 + step))


def loss(model: Transformer, codes: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Cross entropy of codes [B, 144] under labels [B, C], of which some are dropped."""
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
    codes, labels = encode("train", 120_000)
    held_codes, held_labels = encode("t10k", 4_000)
    model = Transformer().to(device())
    run = Run("image-ar", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train(run, model, codes, labels, options.seed))
    title = "Autoregressive transformer over the tokenizer's codes, conditioned on garment, tint and background"
    export(run, title, measure(model, held_codes, held_labels), options)


if __name__ == "__main__":
    main()
