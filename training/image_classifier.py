"""Train the classifier that measures prompt agreement.

    python -m training.image_classifier [--preset cpu|gpu] [--minutes M]

A small convolutional network reads garment, tint and background off composites that have passed through the tokenizer
or not, half and half, so that it judges pictures and not compression.
"""

import torch
import torch.nn.functional as F

from benchmarks._pictures import SLOTS, Classifier
from engines.models.bundled.networks import Tokenizer
from training import data
from training.image_tokenizer import as_images
from training.loop import Preset, Run, batches, device, export, load_exported, parse

PRESETS = {
    "cpu": Preset(steps=12_000, batch=64, lr=2e-3, minutes=14),
    "gpu": Preset(steps=10_000, batch=256, lr=2e-3),
}


def train(run: Run, model: Classifier, tokenizer: Tokenizer, studio: data.Studio, seed: int) -> None:
    """Train until the budget is used up."""
    images, labels = torch.from_numpy(studio.images), torch.from_numpy(studio.labels)
    rows = batches(len(images), run.preset.batch, seed)
    for step in run.steps():
        picked = rows(step)
        image, half = as_images(images[picked]), run.preset.batch // 2
        with torch.no_grad(), torch.autocast(device().type, torch.bfloat16):
            image[:half] = tokenizer.decode(tokenizer.encode(image[:half])).float()
        with torch.autocast(device().type, torch.bfloat16):
            logits = model(image)
        target = labels[picked].to(device())
        run.update(sum((F.cross_entropy(x.float(), y) for x, y in zip(logits, target.T, strict=True)), torch.zeros(())))


@torch.no_grad()
def measure(model: Classifier, tokenizer: Tokenizer, studio: data.Studio) -> dict[str, float]:
    """Accuracy on held-out composites, as they are and through the tokenizer."""
    images, labels = torch.from_numpy(studio.images), torch.from_numpy(studio.labels)
    result: dict[str, float] = {}
    for kind in ("images", "reconstructions"):
        right = torch.zeros(len(SLOTS))
        for chunk, label in zip(images.split(250), labels.split(250), strict=True):
            image = as_images(chunk)
            logits = model(image if kind == "images" else tokenizer.decode(tokenizer.encode(image)))
            right += torch.stack([(x.argmax(-1).cpu() == y).sum() for x, y in zip(logits, label.T, strict=True)])
        result |= {
            f"{head}_accuracy_{kind}": round(float(r) / len(images), 4) for head, r in zip(SLOTS, right, strict=True)
        }
    return result


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer, model = load_exported(Tokenizer(), "image-tokenizer").eval(), Classifier().to(device())
    run = Run("image-classifier", model, [torch.optim.AdamW(model.parameters(), preset.lr, weight_decay=0.01)], preset)
    run.carry_out(options, lambda: train(run, model, tokenizer, data.load("train", 120_000), options.seed))
    title = "Classifier of garment, tint and background"
    export(run, title, measure(model, tokenizer, data.load("t10k", 4_000)), options)


if __name__ == "__main__":
    main()
