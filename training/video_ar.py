"""Train the autoregressive transformer of the studio video model on the tokenizer's codes.

    python -m training.video_ar [--preset cpu|gpu] [--minutes M]

Muon for the matrices inside the blocks, AdamW for the rest. The loss leaves out the first latent frame, which is always
given. The held-out clips that ship for prompts are written to assets/clips, as codes.
"""

import hashlib
import math

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from engines.assets import cache_dir
from engines.models.bundled.video_networks import CODES, GIVEN, LENGTH, PLANE, VideoTokenizer, VideoTransformer
from training import video_data
from training.loop import DATA_LICENCE, MODELS, Preset, Run, batches, device, export, load_exported, muon, parse, sha256
from training.video_tokenizer import as_clips

PRESETS = {
    "cpu": Preset(steps=24_000, batch=8, lr=3e-3, minutes=75),
    "gpu": Preset(steps=30_000, batch=128, lr=3e-3),
}
CLIPS = MODELS.parent / "clips" / "video.safetensors"
SHIPPED = 48
"""Held-out clips to prompt with: the first ones of the held-out split."""


def encoder_hash(tokenizer: VideoTokenizer) -> str:
    """Hash of the weights that codes depend on: the decoder may go on learning."""
    weights = {k: v for k, v in tokenizer.state_dict().items() if k.startswith(("patches", "encoder", "codebook"))}
    return hashlib.sha256(b"".join(v.cpu().numpy().tobytes() for _, v in sorted(weights.items()))).hexdigest()


@torch.no_grad()
def encode(split: str, count: int) -> tuple[Tensor, Tensor]:
    """Codes [N, 720] and labels [N, 4] of a split; the codes are kept beside the clips, by what makes them."""
    clips, tokenizer = video_data.load(split, count), load_exported(VideoTokenizer(), "video-tokenizer").eval()
    path = cache_dir() / f"video-codes-{split}-{count}-{encoder_hash(tokenizer)[:12]}.npy"
    if not path.exists():
        parts = [clips.frames[i : i + 20] for i in range(0, count, 20)]
        codes = torch.cat([tokenizer.encode(as_clips(torch.from_numpy(p.copy()))).flatten(1).cpu() for p in parts])
        np.save(path, codes.numpy().astype(np.int16))
    return torch.from_numpy(np.load(path).astype(np.int64)), torch.from_numpy(clips.labels)


def logits_behind_first(model: VideoTransformer, codes: Tensor) -> Tensor:
    """Logits [B, 576, K] of every code behind the first latent frame, given those before it."""
    ids = codes[:, :-1].to(device())
    positions = torch.arange(LENGTH - 1, device=ids.device).expand_as(ids)
    logits: Tensor = model(ids, positions)[:, PLANE - 1 :]
    return logits


def train(run: Run, model: VideoTransformer, codes: Tensor, seed: int) -> None:
    """Train until the budget is used up."""
    rows = batches(len(codes), run.preset.batch, seed)
    for step in run.steps():
        picked = codes[rows(step)]
        with torch.autocast(device().type, torch.bfloat16):
            logits = logits_behind_first(model, picked)
        run.update(F.cross_entropy(logits.reshape(-1, CODES).float(), picked[:, PLANE:].flatten().to(device())))


@torch.no_grad()
def measure(model: VideoTransformer, codes: Tensor) -> dict[str, float | int]:
    """Bits per predicted code on held-out clips, by latent frame, and how peaked the predictions are."""
    bits, peaked, right = [], 0.0, 0.0
    for chunk in codes.split(20):
        log_probs = logits_behind_first(model, chunk)[:, GIVEN - PLANE :].float().log_softmax(-1)
        wanted = chunk[:, GIVEN:].to(log_probs.device)
        bits.append(-log_probs.gather(-1, wanted[..., None])[..., 0].cpu() / math.log(2))
        peaked += float((log_probs.amax(-1).exp() > 0.9).sum())
        right += float((log_probs.argmax(-1) == wanted).sum())
    every = torch.cat(bits)
    return {
        "validation_bits_per_token": round(float(every.mean()), 4),
        **{
            f"validation_bits_latent_frame_{k}": round(float(part.mean()), 3)
            for k, part in enumerate(every.split(PLANE, 1), 1 + GIVEN // PLANE)
        },
        "validation_bits_held_out_photograph": round(float(every[3::4].mean()), 3),
        "likeliest_code_is_right": round(right / every.numel(), 4),
        "share_of_positions_above_0.9": round(peaked / every.numel(), 4),
        "held_out_clips": len(codes),
    }


def ship_clips(codes: Tensor, labels: Tensor) -> dict[str, str]:
    """Write the held-out clips to prompt with, as codes, and say in which file and what its hash is."""
    CLIPS.parent.mkdir(exist_ok=True)
    tensors = {"codes": codes[:SHIPPED].short().contiguous(), "labels": labels[:SHIPPED].byte().contiguous()}
    save_file(tensors, CLIPS, metadata={"licence": DATA_LICENCE})
    return {"file": f"{CLIPS.parent.name}/{CLIPS.name}", "sha256": sha256(CLIPS), "data": DATA_LICENCE}


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    codes, _ = encode("train", video_data.TRAIN_CLIPS)
    held_codes, held_labels = encode("t10k", video_data.HELD_OUT_CLIPS)
    model = VideoTransformer().to(device())
    run = Run("video-ar", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train(run, model, codes, options.seed))
    title = "Autoregressive transformer over the video tokenizer's codes, latent frame by latent frame"
    export(run, title, measure(model, held_codes), options, clips=ship_clips(held_codes, held_labels))


if __name__ == "__main__":
    main()
