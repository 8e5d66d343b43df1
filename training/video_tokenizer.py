"""Train the causal VQ tokenizer of the studio video model.

    python -m training.video_tokenizer [--preset cpu|gpu] [--minutes M]

L1 + L2 reconstruction with a 0.25 commitment term; the codebook starts from encoder outputs and codes that fall out of
use are re-seeded from the batch during the first half of the run. For the last third encoder and codebook are frozen
and the decoder alone learns: codes no longer change, so that the transformer can learn on them meanwhile.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.models.bundled.video_networks import CODES, VideoTokenizer, to_floats, to_patches
from training import video_data
from training.loop import Preset, Run, batches, device, export, parse, psnr

PRESETS = {
    "cpu": Preset(steps=4_000, batch=6, lr=1.5e-3, minutes=22),
    "gpu": Preset(steps=30_000, batch=64, lr=1e-3),
}
CLIPS = 2_500
"""Enough for a tokenizer that sees every clip a few times; the transformer learns on others."""
FROZEN_FROM = 0.63
"""Share of the budget from which on the decoder alone learns."""


def as_clips(rows: Tensor) -> Tensor:
    """uint8 [B, 33, 48, 48, 3] to [-1, 1] floats [B, 33, 3, 48, 48] on the device."""
    return to_floats(rows.to(device()))


def train(run: Run, model: VideoTokenizer, clips: Tensor, seed: int) -> None:
    """Train until the budget is used up."""
    rows = batches(len(clips), run.preset.batch, seed)
    usage = torch.zeros(CODES, device=device())
    for step in run.steps():
        clip, frozen = as_clips(clips[rows(step)]), run.progress >= FROZEN_FROM
        with torch.autocast(device().type, torch.bfloat16, enabled=not frozen), torch.set_grad_enabled(not frozen):
            features = model.features(clip).float()
        flat = features.permute(0, 1, 3, 4, 2).reshape(-1, features.shape[2]).detach()
        if step == 0:
            reseed(model, flat, torch.ones(CODES, device=flat.device))
        codes = model.nearest(features)
        chosen = model.codebook[codes].permute(0, 1, 4, 2, 3)
        straight = chosen.detach() if frozen else features + (chosen - features).detach()
        with torch.autocast(device().type, torch.bfloat16):
            out = model.decode_features(straight).float()
        wanted = to_patches(clip)
        loss = F.l1_loss(out, wanted) + 2 * F.mse_loss(out, wanted)
        if not frozen:
            loss = loss + F.mse_loss(chosen, features.detach()) + 0.25 * F.mse_loss(features, chosen.detach())
        run.update(loss)
        usage += torch.bincount(codes.flatten(), minlength=CODES)
        if step % 50 == 49:
            if run.progress < 0.5:
                reseed(model, flat, usage < 2)
            usage.zero_()


@torch.no_grad()
def reseed(model: VideoTokenizer, features: Tensor, dead: Tensor) -> None:
    """Put the `dead` codes [K], nonzero where one is, where random features [N, D] lie."""
    rows = dead.nonzero().flatten()
    model.codebook[rows] = features[torch.randperm(len(features), device=features.device)[: len(rows)]]


@torch.no_grad()
def measure(model: VideoTokenizer, clips: Tensor) -> dict[str, float | int]:
    """PSNR, code usage and how often a code stays, on held-out clips; every fourth shows the held-out photograph."""
    squared, counts, stays = [], torch.zeros(CODES), 0.0
    for chunk in clips.split(20):
        clip = as_clips(chunk)
        codes = model.encode(clip)
        squared.append((model.decode(codes) - clip).square().mean((1, 2, 3, 4)).cpu() / 4)
        counts += torch.bincount(codes.flatten().cpu(), minlength=CODES)
        stays += float((codes[:, 1:] == codes[:, :-1]).float().mean((1, 2, 3)).sum())
    errors, share = torch.cat(squared), counts / counts.sum()
    return {
        "psnr_db": psnr(float(errors.mean())),
        "psnr_db_held_out_photograph": psnr(float(errors[3::4].mean())),
        "codes_used": int((counts > 0).sum()),
        "marginal_entropy_bits": round(float(-(share * share.clamp(min=1e-12).log2()).sum()), 3),
        "codes_equal_to_latent_frame_before": round(stays / len(clips), 4),
        "held_out_clips": len(clips),
    }


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    clips = torch.from_numpy(video_data.load("train", CLIPS, seed=1).frames[:])
    held_out = torch.from_numpy(video_data.load("t10k", video_data.HELD_OUT_CLIPS).frames[:])
    model = VideoTokenizer().to(device())
    optimizer = torch.optim.AdamW(model.parameters(), preset.lr, betas=(0.9, 0.99), weight_decay=0.01)
    run = Run("video-tokenizer", model, [optimizer], preset)
    run.carry_out(options, lambda: train(run, model, clips, options.seed))
    title = "Causal VQ tokenizer, 33 frames of 48x48 to 5 latent frames of 12x12 codes out of 512"
    export(run, title, measure(model, held_out), options)


if __name__ == "__main__":
    main()
