"""Train the VQ tokenizer of the studio image model.

    python -m training.image_tokenizer [--preset cpu|gpu] [--minutes M]

The codebook starts from k-means of encoder outputs after some unquantised steps, and follows them as a moving average
(van den Oord et al. 2017, arXiv 1711.00937, appendix A.1); docs/training.md has the loss.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.engines.models.bundled.image_networks import Tokenizer
from training.scenes_data import TEST, TRAIN, build
from training.trainer import SCENES_LICENCE, Preset, Run, device, export, parse, psnr

PRESETS = {
    "cpu": Preset(steps=65_000, batch=16, lr=2e-3, minutes=105, linear=0.6),
    "gpu": Preset(steps=65_000, batch=64, lr=2e-3, linear=0.6),
}
UNQUANTISED = 150
DECAY = 0.98


def as_images(rows: Tensor) -> Tensor:
    """uint8 [B, S, S, 3] to [-1, 1] floats [B, 3, S, S]."""
    return rows.to(device()).permute(0, 3, 1, 2).float() / 127.5 - 1


class Training(nn.Module):
    """The tokenizer and the moving averages that its codebook is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = Tokenizer()
        codes, width = self.tokenizer.codebook.shape
        self.register_buffer("counts", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))
        self.register_buffer("usage", torch.zeros(codes))
        self.counts: Tensor
        self.sums: Tensor
        self.usage: Tensor

    @torch.no_grad()
    def start(self, outputs: Tensor) -> None:
        """Six steps of k-means on encoder outputs [N, D]."""
        book = self.tokenizer.codebook
        book.copy_(outputs[torch.randperm(len(outputs))[: len(book)]])
        for _ in range(6):
            counts, sums = self._assign(outputs, torch.cdist(outputs, book).argmin(1))
            book.copy_(sums / counts.clamp(min=1)[:, None])
            empty = (counts == 0).nonzero().flatten()
            book[empty] = outputs[torch.randint(len(outputs), (len(empty),))]
        self.counts.fill_(2.0)
        self.sums.copy_(2 * book)

    @torch.no_grad()
    def follow(self, outputs: Tensor, codes: Tensor) -> None:
        """Move the codebook towards the outputs [N, D] that chose these codes [N]."""
        counts, sums = self._assign(outputs, codes)
        self.usage += counts
        self.counts.lerp_(counts, 1 - DECAY)
        self.sums.lerp_(sums, 1 - DECAY)
        self.tokenizer.codebook.copy_(self.sums / self.counts.clamp(min=1e-3)[:, None])

    @torch.no_grad()
    def restart(self, outputs: Tensor, codes: Tensor) -> None:
        """Put codes that were hardly used since the last call where the error is largest."""
        book = self.tokenizer.codebook
        dead = (self.usage < 4).nonzero().flatten()
        if len(dead):
            error = (outputs - book[codes]).square().sum(-1)
            book[dead] = outputs[torch.multinomial(error + 1e-6, len(dead), replacement=True)]
            self.counts[dead], self.sums[dead] = 1.0, book[dead]

    def _assign(self, outputs: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        counts = torch.bincount(codes, minlength=len(self.counts)).float()
        return counts, torch.zeros_like(self.sums).index_add_(0, codes, outputs)


def edges(image: Tensor) -> tuple[Tensor, Tensor]:
    """Differences between neighbouring pixels, down and across."""
    return image[..., 1:, :] - image[..., :-1, :], image[..., 1:] - image[..., :-1]


def reconstruction_loss(out: Tensor, image: Tensor) -> Tensor:
    """L1 + 0.5 L2 + 0.5 L1 of the edges."""
    sharp = sum(F.l1_loss(mine, true) for mine, true in zip(edges(out), edges(image), strict=True))
    return F.l1_loss(out, image) + 0.5 * F.mse_loss(out, image) + 0.5 * sharp


def train(run: Run, model: Training, seed: int) -> None:
    """Train until the budget is used up."""
    tokenizer = model.tokenizer
    recent: list[Tensor] = []
    for step in run.steps():
        rows = torch.from_numpy(build(run.preset.batch, TRAIN, seed, step)[0])
        image = as_images(rows).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device().type, torch.bfloat16):
            features = tokenizer.encoder(image)
        features = features.float()
        outputs = features.detach().permute(0, 2, 3, 1).flatten(0, 2)
        loss = torch.zeros((), device=device())
        if step < UNQUANTISED:
            recent = [*recent, outputs][-8:]
            straight = features
        else:
            if recent:
                model.start(torch.cat(recent))
                recent = []
            codes = tokenizer.nearest(features)
            chosen = tokenizer.codebook[codes].permute(0, 3, 1, 2)
            loss = 0.25 * F.mse_loss(features, chosen)
            straight = features + (chosen - features).detach()
            model.follow(outputs, codes.flatten())
            if step % 60 == 59:
                if run.progress < 0.75:
                    model.restart(outputs, codes.flatten())
                model.usage.zero_()
        with torch.autocast(device().type, torch.bfloat16):
            out = tokenizer.decoder(straight.contiguous(memory_format=torch.channels_last))
        run.update(loss + reconstruction_loss(out.float(), image))


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
    model = Training().to(device())
    optimizer = torch.optim.AdamW(model.parameters(), preset.lr, betas=(0.9, 0.98), weight_decay=1e-3)
    run = Run("image-tokenizer", model, [optimizer], preset)
    run.carry_out(options, lambda: train(run, model, options.seed))
    tokenizer = run.model = model.tokenizer
    held_out = torch.from_numpy(build(2_000, TEST, 0)[0])
    title = "VQ tokenizer, 96x96 colour pictures to 12x12 codes out of 1024"
    export(run, title, measure(tokenizer, held_out), options, SCENES_LICENCE)


if __name__ == "__main__":
    main()
