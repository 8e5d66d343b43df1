"""Train the decoder that draws the studio image model's codes at twice the size they were learned at.

    python -m training.image_decoder [--preset cpu|gpu] [--minutes M]

Encoder and codes stay those of `training.image_tokenizer`. A composite of 48x48 pixels gives the codes, the same
composite of 96x96 pixels is what their picture is compared with: L1 + L2, as for the tokenizer.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.models.bundled.networks import PICTURE_SCALE, PictureDecoder, Tokenizer
from training import data
from training.image_tokenizer import as_images
from training.loop import Preset, Run, batches, device, export, load_exported, parse, psnr

PRESETS = {
    "cpu": Preset(steps=30_000, batch=32, lr=1.5e-3, minutes=40),
    "gpu": Preset(steps=30_000, batch=256, lr=1e-3),
}


def load_pairs(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The same composites twice, uint8: [N, 48, 48, 3] and [N, 96, 96, 3]."""
    small, large = (data.load(split, count, scale=scale).images for scale in (1, PICTURE_SCALE))
    return torch.from_numpy(small), torch.from_numpy(large)


def train(run: Run, model: PictureDecoder, tokenizer: Tokenizer, pairs: tuple[Tensor, Tensor], seed: int) -> None:
    """Train until the budget is used up."""
    small, large = pairs
    rows = batches(len(small), run.preset.batch, seed)
    for step in run.steps():
        picked = rows(step)
        with torch.no_grad():
            vectors = tokenizer.codebook[tokenizer.encode(as_images(small[picked]))]
        with torch.autocast(device().type, torch.bfloat16):
            out = model(vectors)
        wanted = as_images(large[picked])
        run.update(F.l1_loss(out.float(), wanted) + F.mse_loss(out.float(), wanted))


@torch.no_grad()
def measure(model: PictureDecoder, tokenizer: Tokenizer, pairs: tuple[Tensor, Tensor]) -> dict[str, float | int]:
    """PSNR on held-out pictures, beside that of the tokenizer's own pictures enlarged."""
    own = enlarged = 0.0
    for small, large in zip(*(images.split(250) for images in pairs), strict=True):
        wanted, codes = as_images(large), tokenizer.encode(as_images(small))
        plain = F.interpolate(tokenizer.decode(codes), scale_factor=PICTURE_SCALE, mode="bicubic").clamp(-1, 1)
        own += float((model(tokenizer.codebook[codes]).clamp(-1, 1) - wanted).square().mean((1, 2, 3)).sum()) / 4
        enlarged += float((plain - wanted).square().mean((1, 2, 3)).sum()) / 4
    count = len(pairs[0])
    return {
        "psnr_db": psnr(own / count),
        "psnr_db_of_smaller_pictures_enlarged": psnr(enlarged / count),
        "held_out_images": count,
    }


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer, model = load_exported(Tokenizer(), "image-tokenizer").eval(), PictureDecoder().to(device())
    run = Run("image-decoder", model, [torch.optim.AdamW(model.parameters(), preset.lr, weight_decay=0.01)], preset)
    run.carry_out(options, lambda: train(run, model, tokenizer, load_pairs("train", 30_000), options.seed))
    title = "Decoder of the tokenizer's codes, 12x12 codes out of 512 to 96x96 colour pictures"
    export(run, title, measure(model, tokenizer, load_pairs("t10k", 4_000)), options)


if __name__ == "__main__":
    main()
