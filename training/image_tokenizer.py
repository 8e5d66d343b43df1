"""Train the VQ tokenizer of the studio image model.

    python -m training.image_tokenizer [--preset cpu|gpu] [--minutes M]

L1 + L2 reconstruction with a 0.25 commitment term; the codebook starts from encoder outputs and codes that fall
out of use are re-seeded from the batch during the first 70 % of the run.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.models.bundled.networks import CODES, Tokenizer
from engines.models.bundled.video_networks import VideoTokenizer
from training import data
from training.loop import Preset, Run, batches, device, export, parse, psnr

PRESETS = {
    "cpu": Preset(steps=4_000, batch=64, lr=8e-4, minutes=12),
    "gpu": Preset(steps=30_000, batch=256, lr=8e-4),
}


def as_images(rows: Tensor) -> Tensor:
    """uint8 [B, S, S, 3] to [-1, 1] floats [B, 3, S, S]."""
    return rows.to(device()).permute(0, 3, 1, 2).float() / 127.5 - 1


def train(run: Run, model: Tokenizer, images: Tensor, seed: int) -> None:
    """Train until the budget is used up."""
    rows = batches(len(images), run.preset.batch, seed)
    usage = torch.zeros(CODES, device=device())
    for step in run.steps():
        image = as_images(images[rows(step)])
        with torch.autocast(device().type, torch.bfloat16):
            features = model.features(image)
        flat = features.detach().permute(0, 2, 3, 1).reshape(-1, features.shape[1]).float()
        if step == 0:
            reseed(model, flat, torch.ones(CODES, device=flat.device))
        codes = model.nearest(features)
        chosen = model.codebook[codes].permute(0, 3, 1, 2)
        straight = features + (chosen - features).detach()
        with torch.autocast(device().type, torch.bfloat16):
            out = model.decode_features(straight)
        out = out.float()
        quantise = F.mse_loss(chosen, features.detach().float()) + 0.25 * F.mse_loss(features.float(), chosen.detach())
        run.update(F.l1_loss(out, image) + F.mse_loss(out, image) + quantise)
        usage += torch.bincount(codes.flatten(), minlength=CODES)
        if step % 50 == 49:
            if run.progress < 0.7:
                reseed(model, flat, usage < 2)
            usage.zero_()


@torch.no_grad()
def reseed(model: Tokenizer | VideoTokenizer, features: Tensor, dead: Tensor) -> None:
    """Put the `dead` codes [K], nonzero where one is, where random features [N, D] lie."""
    rows = dead.nonzero().flatten()
    model.codebook[rows] = features[torch.randperm(len(features), device=features.device)[: len(rows)]]


@torch.no_grad()
def measure(model: Tokenizer, images: Tensor) -> dict[str, float | int]:
    """PSNR, code usage and marginal entropy on held-out images."""
    squared, counts = 0.0, torch.zeros(len(model.codebook))
    for chunk in images.split(250):
        image = as_images(chunk)
        codes = model.encode(image)
        squared += float((model.decode(codes) - image).square().mean((1, 2, 3)).sum()) / 4
        counts += torch.bincount(codes.flatten().cpu(), minlength=len(counts))
    share = counts / counts.sum()
    return {
        "psnr_db": psnr(squared / len(images)),
        "codes_used": int((counts > 0).sum()),
        "marginal_entropy_bits": round(float(-(share * share.clamp(min=1e-12).log2()).sum()), 3),
        "top_code_share": round(float(share.max()), 4),
        "held_out_images": len(images),
    }


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    images = torch.from_numpy(data.load("train", 120_000).images)
    held_out = torch.from_numpy(data.load("t10k", 4_000).images)
    model = Tokenizer().to(device())
    run = Run("image-tokenizer", model, [torch.optim.AdamW(model.parameters(), preset.lr, weight_decay=0.01)], preset)
    run.carry_out(options, lambda: train(run, model, images, options.seed))
    title = "VQ tokenizer, 48x48 colour images to 12x12 codes out of 512"
    export(run, title, measure(model, held_out), options)


if __name__ == "__main__":
    main()
