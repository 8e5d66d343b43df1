"""Train the classifier that measures prompt agreement.

    python -m training.image_classifier [--preset cpu|gpu] [--minutes M]

Half of the pictures have passed through the tokenizer, so that the classifier grades pictures and not compression.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._image_quality import SEEN, Classifier
from draftscope.engines.models.bundled.image_networks import Tokenizer
from draftscope.engines.models.bundled.prompts import Prompt
from training.image_tokenizer import as_images
from training.scenes_data import TEST, TRAIN, build
from training.trainer import SCENES_LICENCE, Preset, Run, batches, device, export, load_exported, parse

PRESETS = {
    "cpu": Preset(steps=4_000, batch=64, lr=2e-3),
    "gpu": Preset(steps=10_000, batch=256, lr=2e-3),
}
PICTURES = 16_000


@torch.no_grad()
def pictures(tokenizer: Tokenizer, count: int, split: int) -> tuple[Tensor, Tensor]:
    """Pictures as they are and through the tokenizer [2, N, 3, 48, 48] in float16, and their labels [N, 2]."""
    seen, labels = [], []
    for i in range(0, count, 250):
        images, label = build(250, split, 1, i)
        image = as_images(torch.from_numpy(images))
        both = torch.cat([image, tokenizer.decode(tokenizer.encode(image))])
        seen.append(F.interpolate(both, (SEEN, SEEN), mode="area").half().unflatten(0, (2, -1)))
        labels.append(torch.from_numpy(label))
    return torch.cat(seen, 1), torch.cat(labels)


def train(run: Run, model: Classifier, seen: Tensor, labels: Tensor, seed: int) -> None:
    """Train until the budget is used up."""
    rows = batches(len(labels), run.preset.batch, seed)
    for step in run.steps():
        picked = rows(step)
        kind = torch.arange(len(picked)) % 2
        with torch.autocast(device().type, torch.bfloat16):
            logits = model(seen[kind, picked].float())
        target = labels[picked].to(device())
        run.update(sum((F.cross_entropy(x.float(), y) for x, y in zip(logits, target.T, strict=True)), torch.zeros(())))


@torch.no_grad()
def measure(model: Classifier, seen: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy on held-out pictures, as they are and through the tokenizer."""
    result: dict[str, float] = {}
    for kind, images in zip(("images", "reconstructions"), seen, strict=True):
        read = [torch.stack([x.argmax(-1).cpu() for x in model(rows.float())], 1) for rows in images.split(250)]
        right = (torch.cat(read) == labels).double().mean(0).tolist()
        slots = zip(Prompt._fields, right, strict=True)
        result |= {f"{slot}_accuracy_{kind}": round(share, 4) for slot, share in slots}
    return result


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer, model = load_exported(Tokenizer(), "image-tokenizer").eval(), Classifier().to(device())
    run = Run("image-classifier", model, [torch.optim.AdamW(model.parameters(), preset.lr, weight_decay=0.01)], preset)
    run.carry_out(options, lambda: train(run, model, *pictures(tokenizer, PICTURES, TRAIN), options.seed))
    export(
        run, "Classifier of thing and scene", measure(model, *pictures(tokenizer, 2_000, TEST)), options, SCENES_LICENCE
    )


if __name__ == "__main__":
    main()
