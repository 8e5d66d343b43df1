"""Train the studio patch models: pictures as 12x12 continuous tokens.

    python -m training.patch tokenizer|target|draft|mixture [--preset cpu|gpu] [--minutes M]

in this order. `tokenizer` is a KL autoencoder. `target` and `draft` are causal transformers whose tokens a diffusion
head draws, as MAR's (arXiv 2406.11838): it learns to estimate the noise, and how far off it is (arXiv 2206.07309). The
target learns from pictures, the draft from the target (as in arXiv 2310.08461), since drafts are kept as far as both
agree. `mixture` has a head of Gaussians (arXiv 2312.02116) and maximises the likelihood. Conditions are dropped as in
training.image_ar.
"""

from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engines.assets import cache_dir
from engines.continuous.denoising import TIMESTEPS, respaced
from engines.continuous.gaussians import Gaussians
from engines.models.bundled.patch_networks import (
    PREFIX,
    SIZES,
    PatchTokenizer,
    PatchTransformer,
    condition_vectors,
)
from engines.models.heads import MixtureHead, ResidualHead
from training import data
from training.image_ar import drop_conditions
from training.image_tokenizer import as_images
from training.loop import (
    MODELS,
    Preset,
    Run,
    batches,
    device,
    export,
    load_exported,
    muon,
    parse,
    psnr,
    sha256,
)

PRESETS: Final = {
    "cpu": Preset(steps=12_000, batch=24, lr=2e-3, minutes=90),
    "gpu": Preset(steps=30_000, batch=256, lr=2e-3),
}
KL_WEIGHT: Final = 1e-3
"""Of the divergence per latent: little, so that latents carry some noise, which the decoder learns to ignore."""
REPEATS: Final = 4
"""Noise levels drawn for every token of a batch: the head is cheap beside the backbone."""
ERROR_WEIGHT: Final = 0.1
"""Of the likelihood of the errors of the noise estimate, which sets the variances of the steps."""
TOKENIZER: Final = "patch-tokenizer"
SCHEDULE: Final = respaced(TIMESTEPS)


def train_tokenizer(run: Run, model: PatchTokenizer, images: Tensor, seed: int) -> None:
    """Reconstruct, and keep latents near a standard normal."""
    rows = batches(len(images), run.preset.batch, seed)
    for step in run.steps():
        image = as_images(images[rows(step)])
        noise = torch.Generator(device()).manual_seed(seed * 1_000_003 + step)
        with torch.autocast(device().type, torch.bfloat16):
            mean, log_variance = (part.float() for part in model.posterior(image))
            log_variance = log_variance.clamp(-20, 10)
            eps = torch.randn(mean.shape, generator=noise, device=mean.device)
            out = model.reconstruct(mean + (0.5 * log_variance).exp() * eps).float()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
        run.update(F.l1_loss(out, image) + F.mse_loss(out, image) + KL_WEIGHT * divergence)


@torch.no_grad()
def posteriors(model: PatchTokenizer, images: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations of the latents of uint8 images [N, 8, 12, 12], float16."""
    means, log_variances = zip(*(model.posterior(as_images(chunk)) for chunk in images.split(500)), strict=True)
    std = torch.cat([(0.5 * part.clamp(-20, 10)).exp().half().cpu() for part in log_variances])
    return torch.cat([part.half().cpu() for part in means]), std


def latents(split: str, count: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The posteriors of a split, kept beside the images, and its labels [N, 3]."""
    studio = data.load(split, count)
    weights = sha256(MODELS / f"{TOKENIZER}.safetensors")[:12]
    path = cache_dir() / f"latents-{split}-{count}-{weights}.npy"
    if not path.exists():
        tokenizer = load_exported(PatchTokenizer(), TOKENIZER).eval()
        np.save(path, torch.stack(posteriors(tokenizer, torch.from_numpy(studio.images))).numpy())
    mean, std = torch.from_numpy(np.load(path))
    return (mean, std), torch.from_numpy(studio.labels)


@torch.no_grad()
def measure_tokenizer(model: PatchTokenizer, images: Tensor) -> dict[str, float | int]:
    """Set the scale, and measure reconstructions and how much noise the tokens carry."""
    mean, std = (part.float() for part in posteriors(model, images))
    model.scale.fill_(float(mean.std().half()))  # as it is shipped
    squared = 0.0
    for chunk, latent in zip(images.split(250), mean.split(250), strict=True):
        image = as_images(chunk)
        out = model.decode(model.tokens(latent.to(device())))
        squared += float((out - image).square().mean((1, 2, 3)).sum()) / 4
    return {
        "psnr_db": psnr(squared / len(images)),
        "latent_std": round(float(mean.std()), 4),
        "posterior_std_over_latent_std": round(float(std.mean() / mean.std()), 4),
        "held_out_images": len(images),
    }


def noised(token: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens [M, D] at timesteps [M], most of them late ones, which tell distributions apart; and their noise."""
    share = torch.rand(len(token), generator=generator, device=token.device).square()
    t = (TIMESTEPS * share).long()
    kept = torch.tensor(SCHEDULE.kept, device=token.device)[t, None]
    eps = torch.randn(token.shape, generator=generator, device=token.device)
    return kept.sqrt() * token + (1 - kept).sqrt() * eps, t.float(), eps


def diffusion_loss(out: tuple[Tensor, Tensor], wanted: Tensor, error: Tensor) -> Tensor:
    """Squared error of the noise estimate, and the likelihood of errors, which the second output alone learns from.

    Args:
        out: a head's noise estimate and the logarithm of the squared error that it expects [M, D].
        wanted: the noise [M, D].
        error: squared errors [M, D].
    """
    estimated_noise, log_error = out
    likelihood = 0.5 * (log_error + error * (-log_error).exp())
    return F.mse_loss(estimated_noise, wanted) + ERROR_WEIGHT * likelihood.mean()


def conditions(model: PatchTransformer, token: Tensor, labels: Tensor) -> Tensor:
    """Conditions of the head for each token of whole pictures [B, 144, 8] under labels [B, 3]: [B * 144, H]."""
    inputs = torch.cat([condition_vectors(labels), token[:, :-1]], 1)
    positions = torch.arange(inputs.shape[1], device=inputs.device).expand(len(inputs), -1)
    with torch.autocast(device().type, torch.bfloat16):
        condition: Tensor = model(inputs, positions)[:, PREFIX - 1 :].flatten(0, 1)
    return condition.float()


def estimate(model: PatchTransformer, noisy: Tensor, t: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
    """Its head's noise estimate and the logarithm of the squared error that it expects."""
    assert isinstance(model.head, ResidualHead)
    with torch.autocast(device().type, torch.bfloat16):
        estimated_noise, raw = model.head(noisy, t, condition.repeat(REPEATS, 1))
    return estimated_noise.float(), F.logsigmoid(raw).float()


def estimated(
    model: PatchTransformer,
    token: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    teacher: PatchTransformer | None,
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """What a head makes of noisy tokens of whole pictures, and what it should: see `diffusion_loss`.

    A teacher stands in for the data: equal noise estimates and equal errors to expect are equal distributions.
    """
    noisy, t, eps = noised(token.flatten(0, 1).repeat(REPEATS, 1), generator)
    out = estimate(model, noisy, t, conditions(model, token, labels))
    if teacher is None:
        return out, eps, (eps - out[0].detach()).square()
    with torch.no_grad():
        wanted, log_error = estimate(teacher, noisy, t, conditions(teacher, token, labels))
    return out, wanted, log_error.exp()


def loss(
    model: PatchTransformer, token: Tensor, labels: Tensor, generator: torch.Generator, teacher: PatchTransformer | None
) -> Tensor:
    """The loss of whole pictures: tokens [B, 144, 8] under labels [B, 3]."""
    if isinstance(model.head, MixtureHead):  # negative log likelihood per component, nats
        distribution: Gaussians = model.head(conditions(model, token, labels))
        return -distribution.log_density(token.flatten(0, 1).double()).mean().float() / token.shape[-1]
    return diffusion_loss(*estimated(model, token, labels, generator, teacher))


def train_transformer(
    run: Run,
    model: PatchTransformer,
    pictures: tuple[tuple[Tensor, Tensor], Tensor],
    seed: int,
    teacher: PatchTransformer | None,
) -> None:
    """Train on tokens drawn anew from their posterior each time."""
    (mean, std), labels = pictures
    scale = float(load_exported(PatchTokenizer(), TOKENIZER).scale)
    rows = batches(len(labels), run.preset.batch, seed)
    for step in run.steps():
        picked = rows(step)
        here = torch.Generator().manual_seed(seed * 1_000_003 + step)
        there = torch.Generator(device()).manual_seed(seed * 1_000_003 + step)
        latent = mean[picked].float() + std[picked].float() * torch.randn(mean[picked].shape, generator=here)
        token = (latent / scale).flatten(2).transpose(1, 2).to(device())
        run.update(loss(model, token, drop_conditions(labels[picked], here).to(device()), there, teacher))


@torch.no_grad()
def measure_transformer(
    model: PatchTransformer, pictures: tuple[tuple[Tensor, Tensor], Tensor], teacher: PatchTransformer | None
) -> dict[str, float | int]:
    """Errors on held-out pictures, with the same noise for every model."""
    (mean, _), labels = pictures
    tokenizer = load_exported(PatchTokenizer(), TOKENIZER).eval()
    chunks = list(zip(mean.split(100), labels.split(100), strict=True))

    def average(teacher: PatchTransformer | None) -> float:
        generator, total = torch.Generator(device()).manual_seed(0), 0.0
        for latent, label in chunks:
            token, known = tokenizer.tokens(latent.float().to(device())), label.to(device())
            if isinstance(model.head, MixtureHead):
                total += float(loss(model, token, known, generator, None))
            else:
                out, wanted, _ = estimated(model, token, known, generator, teacher)
                total += float(F.mse_loss(out[0], wanted))
        return round(total / len(chunks), 4)

    name = "negative_log_likelihood_nats" if isinstance(model.head, MixtureHead) else "squared_error_of_the_noise"
    measured = {"held_out_images": len(labels), name: average(None)}
    return measured if teacher is None else measured | {"squared_difference_from_target": average(teacher)}


def main() -> None:
    """Train, measure and export one of the models."""
    options, preset = parse(__doc__ or "", PRESETS, ("tokenizer", *SIZES))
    if options.name == "tokenizer":
        tokenizer = PatchTokenizer().to(device())
        run = Run(TOKENIZER, tokenizer, [torch.optim.AdamW(tokenizer.parameters(), preset.lr)], preset)
        pictures = data.load("train", 120_000).images
        run.carry_out(options, lambda: train_tokenizer(run, tokenizer, torch.from_numpy(pictures), options.seed))
        title = "KL autoencoder, 48x48 colour images to 12x12 tokens of 8 numbers"
        held = torch.from_numpy(data.load("t10k", 4_000).images)
        export(run, title, measure_tokenizer(tokenizer, held), options)
        return
    size, teacher = SIZES[options.name], None
    if options.name == "draft":
        teacher = load_exported(PatchTransformer(SIZES["target"]), "patch-target")
    model = PatchTransformer(size).to(device())
    run = Run(f"patch-{options.name}", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train_transformer(run, model, latents("train", 120_000), options.seed, teacher))
    export(run, size.title, measure_transformer(model, latents("t10k", 4_000), teacher), options)


if __name__ == "__main__":
    main()
